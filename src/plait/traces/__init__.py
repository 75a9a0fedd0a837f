"""Traces: the events of a run, written as they happen, and what is derived from them."""

from plait._support.front_door import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
