"""The gateway: lists the tool servers of agents, and receives their chat history."""

from plait._support.front_door import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
