"""The viewer: web pages over runs, servers, reasoning sessions and verification reports."""

from plait._support.front_door import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
