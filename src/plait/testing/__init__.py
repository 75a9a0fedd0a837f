"""Helpers for tests of programs that use MCP: servers, networks and models that fail on demand.

`plait.testing.fixtures` has the same as pytest fixtures.
"""

from plait._support.front_door import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
