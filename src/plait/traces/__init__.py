"""What happened in a run of an agent: events, written as they happen, and what is made of them."""

from plait._support.front_door import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
