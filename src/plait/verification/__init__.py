"""Verification: run cases by agents, check the answers, and report."""

from plait._support.front_door import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
