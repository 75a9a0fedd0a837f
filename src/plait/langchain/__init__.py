"""Tools, prompts and resources of MCP servers, for LangChain and LangGraph."""

from plait._support.front_door import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
