"""An agent's tool servers from a manifest or a hosted gateway, and its chat history back."""

from plait._support.front_door import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
