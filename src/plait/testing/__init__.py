"""Helpers for tests of programs that use MCP: servers and networks that fail on demand.

`plait.testing.fixtures` offers the same as pytest fixtures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plait.models.scripts import Call, Say
from plait.testing.faults.options import FaultOptions
from plait.testing.launch import fault_server, running_server, server_stdio_config, stdio_config
from plait.testing.ports import blackhole, free_port
from plait.testing.processes import ServerProcess, running
from plait.testing.proxy import FaultProxy
from plait.testing.state import StateDir
from plait.testing.waiting import eventually

if TYPE_CHECKING:
    from plait.agents.engines.langchain.scripted_model import ScriptedChatModel, tool_call
    from plait.gateway.mock.run import MockGateway
    from plait.testing.completer_suite import CompleterSuite, WaitingCompleterSuite
    from plait.testing.llm.anthropic import AnthropicServer
    from plait.testing.llm.langbase import LangbaseServer
    from plait.testing.llm.openai import OpenAIServer
    from plait.testing.oauth.server import OAuthServer, oauth_server

__all__ = [
    "AnthropicServer",
    "Call",
    "CompleterSuite",
    "FaultOptions",
    "FaultProxy",
    "LangbaseServer",
    "MockGateway",
    "OAuthServer",
    "OpenAIServer",
    "Say",
    "ScriptedChatModel",
    "ServerProcess",
    "StateDir",
    "WaitingCompleterSuite",
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

_LATER = {
    "AnthropicServer": "plait.testing.llm.anthropic",
    "CompleterSuite": "plait.testing.completer_suite",
    "LangbaseServer": "plait.testing.llm.langbase",
    "MockGateway": "plait.gateway.mock.run",
    "OAuthServer": "plait.testing.oauth.server",
    "OpenAIServer": "plait.testing.llm.openai",
    "ScriptedChatModel": "plait.agents.engines.langchain.scripted_model",
    "WaitingCompleterSuite": "plait.testing.completer_suite",
    "oauth_server": "plait.testing.oauth.server",
    "tool_call": "plait.agents.engines.langchain.scripted_model",
}
"""Imported when they are first asked for: what they need is slow, or may not be installed."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'plait.testing' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    value: object = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value
