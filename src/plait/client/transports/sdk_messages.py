"""Messages of the installed MCP SDK, 1.x or 2.x, as ours and back."""

from __future__ import annotations

from typing import Any

import mcp
from mcp import types
from mcp.shared.message import SessionMessage
from pydantic import TypeAdapter

IS_SDK_1 = not hasattr(mcp, "Client")
"""Whether the SDK is of version 1, which knows only the handshake era."""
_messages: TypeAdapter[Any] = TypeAdapter(types.JSONRPCMessage)


def message_from_plain(message: dict[str, Any]) -> SessionMessage:
    """Return a message for the SDK."""
    return SessionMessage(_messages.validate_python(message))


def message_from_sdk(item: SessionMessage) -> dict[str, Any]:
    """Return a message of the SDK as it is in JSON, without fields that it does not have."""
    message: Any = getattr(item.message, "root", item.message)  # a root model in SDK 1.x
    plain: dict[str, Any] = {"jsonrpc": "2.0"}
    for name in ("id", "method", "params", "result"):
        value = getattr(message, name, None)
        if value is not None:
            plain[name] = value
    if (error := getattr(message, "error", None)) is not None:
        plain["error"] = error.model_dump(exclude_none=True)
    return plain
