"""Agents: what every engine is asked for and gives back, and which engine runs."""

from plait._support.front_door import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
