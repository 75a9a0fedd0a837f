"""The types of the MCP SDK, which are imported when one of them is used for the first time.

Their import takes as long as that of the rest of the client, and servers start meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_types import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
    from mcp_types import version as version  # noqa: PLC0414


def __getattr__(name: str) -> Any:
    import mcp_types  # noqa: PLC0415

    value = globals()[name] = getattr(mcp_types, name)
    return value
