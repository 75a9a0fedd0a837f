"""Give AI agents their MCP tools, and never drop them."""

from plait._support.front_door import lazy_exports
from plait._version import __version__ as __version__

__getattr__, __dir__ = lazy_exports(__name__, __file__)
