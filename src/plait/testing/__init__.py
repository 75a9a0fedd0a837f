"""Helpers for tests of programs that use MCP: servers and networks that fail on demand.

`plait.testing.fixtures` offers the same as pytest fixtures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plait.testing.faults.options import FaultOptions
from plait.testing.oauth.server import OAuthServer, oauth_server
from plait.testing.ports import blackhole, free_port
from plait.testing.processes import ServerProcess, running
from plait.testing.proxy import FaultProxy
from plait.testing.servers import fault_server, running_server, server_stdio_config, stdio_config
from plait.testing.state import StateDir
from plait.testing.waiting import eventually

if TYPE_CHECKING:
    from plait.testing.chat_model import ScriptedChatModel, tool_call

__all__ = [
    "FaultOptions",
    "FaultProxy",
    "OAuthServer",
    "ScriptedChatModel",
    "ServerProcess",
    "StateDir",
    "blackhole",
    "eventually",
    "fault_server",
    "free_port",
    "oauth_server",
    "running",
    "running_server",
    "server_stdio_config",
    "stdio_config",
    "tool_call",
]

_NEED_LANGCHAIN = ("ScriptedChatModel", "tool_call")
"""Imported when they are first asked for, because LangChain may not be installed."""


def __getattr__(name: str) -> object:
    if name not in _NEED_LANGCHAIN:
        raise AttributeError(f"module 'plait.testing' has no attribute {name!r}")
    from plait.testing import chat_model  # noqa: PLC0415

    value: object = getattr(chat_model, name)
    globals()[name] = value
    return value
