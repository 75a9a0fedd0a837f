"""The reasoning server: modes of reasoning as MCP tools, with sessions in a database."""

from plait._support.front_door import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
