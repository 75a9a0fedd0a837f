"""The types of MCP, which are imported when one of them is used for the first time.

Their import takes as long as that of the rest of the client. A plain first call needs none of
them, only the constants below; a test compares these with those of the package.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_types import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
    from mcp_types import version as version  # noqa: PLC0414
else:
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    CONNECTION_CLOSED = -32000
    HEADER_MISMATCH = -32020
    UNSUPPORTED_PROTOCOL_VERSION = -32022
    URL_ELICITATION_REQUIRED = -32042
    CLIENT_CAPABILITIES_META_KEY = "io.modelcontextprotocol/clientCapabilities"
    CLIENT_INFO_META_KEY = "io.modelcontextprotocol/clientInfo"
    LOG_LEVEL_META_KEY = "io.modelcontextprotocol/logLevel"
    PROTOCOL_VERSION_META_KEY = "io.modelcontextprotocol/protocolVersion"
    version = SimpleNamespace(
        HANDSHAKE_PROTOCOL_VERSIONS=("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"),
        MODERN_PROTOCOL_VERSIONS=("2026-07-28",),
        OLDEST_SUPPORTED_VERSION="2024-11-05",
        LATEST_HANDSHAKE_VERSION="2025-11-25",
        LATEST_MODERN_VERSION="2026-07-28",
    )


def __getattr__(name: str) -> Any:
    import mcp_types  # noqa: PLC0415

    value = globals()[name] = getattr(mcp_types, name)
    return value
