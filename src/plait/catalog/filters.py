"""Which of a server's tools are offered."""

from __future__ import annotations

from fnmatch import fnmatchcase

from plait.catalog.tool import Tool
from plait.config.servers import ServerOptions


def is_offered(tool: Tool, options: ServerOptions) -> bool:
    """Apply the server's `include`, then its `exclude`; both hold wire names and globs."""
    name = tool.wire_name
    if options.include is not None and not any(fnmatchcase(name, one) for one in options.include):
        return False
    return not any(fnmatchcase(name, one) for one in options.exclude)
