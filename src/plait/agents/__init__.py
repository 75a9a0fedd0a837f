"""Agents: engines that run a model with the tools of MCP servers, and their results."""

from plait._support.front_door import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
