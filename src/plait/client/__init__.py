"""The tools of many MCP servers behind one `Toolbox`; knows no agent framework."""

from plait._support.front_door import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
