"""Every public name of langchain-mcp-adapters is here, and takes the same arguments."""

from __future__ import annotations

import inspect
from typing import Any, get_args, get_type_hints, is_typeddict

import pytest

import plait
from plait.langchain.client.settings import LangChainOptions

LOADING = (
    "connection",
    "callbacks",
    "tool_interceptors",
    "server_name",
    "tool_name_prefix",
    "handle_tool_errors",
)

PARAMETERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "MultiServerMCPClient": (
        ("connections",),
        ("callbacks", "tool_interceptors", "tool_name_prefix", "handle_tool_errors"),
    ),
    "MultiServerMCPClient.session": (("server_name",), ("auto_initialize",)),
    "MultiServerMCPClient.get_tools": ((), ("server_name",)),
    "MultiServerMCPClient.get_server_info": ((), ("server_name",)),
    "MultiServerMCPClient.get_prompt": (("server_name", "prompt_name"), ("arguments",)),
    "MultiServerMCPClient.get_resources": (("server_name",), ("uris",)),
    "load_mcp_tools": (("session",), LOADING),
    "convert_mcp_tool_to_langchain_tool": (("session", "tool"), LOADING),
    "to_fastmcp": (("tool",), ()),
    "create_session": (("connection",), ("mcp_callbacks",)),
    "McpHttpClientFactory.__call__": (("headers", "timeout", "auth"), ()),
    "CallbackContext": (("server_name", "tool_name"), ()),
    "Callbacks": (("on_logging_message", "on_progress", "on_elicitation"), ()),
    "Callbacks.to_mcp_format": ((), ("context",)),
    "LoggingMessageCallback.__call__": (("params", "context"), ()),
    "ProgressCallback.__call__": (("progress", "total", "message", "context"), ()),
    "ElicitationCallback.__call__": (("mcp_context", "params", "context"), ()),
    "MCPToolCallRequest": (("name", "args", "server_name", "headers", "runtime"), ()),
    "ToolCallInterceptor.__call__": (("request", "handler"), ()),
    "load_mcp_prompt": (("session", "name"), ("arguments",)),
    "convert_mcp_prompt_message_to_langchain_message": (("message",), ()),
    "load_mcp_resources": (("session",), ("uris",)),
    "get_mcp_resource": (("session", "uri"), ()),
    "convert_mcp_resource_to_langchain_blob": (("resource_uri", "contents"), ()),
    "load_mcp_server_info": (("session",), ("connection", "callbacks", "server_name")),
}
"""What each takes: by position, in this order, and by name."""

REQUIRED = {
    "session": {"server_name"},
    "get_prompt": {"server_name", "prompt_name"},
    "load_mcp_tools": {"session"},
    "load_mcp_resources": {"session"},
    "load_mcp_server_info": {"session"},
    "MultiServerMCPClient": set[str](),
    "CallbackContext": {"server_name"},
    "Callbacks": set[str](),
    "MCPToolCallRequest": {"name", "args", "server_name"},
}
"""Which of them must be given."""

HTTP_KEYS = (
    "transport url headers timeout sse_read_timeout session_kwargs httpx_client_factory auth"
)
KEYS = {
    "StdioConnection": "transport command args env cwd encoding encoding_error_handler",
    "SSEConnection": HTTP_KEYS,
    "StreamableHttpConnection": f"{HTTP_KEYS} terminate_on_close",
    "WebsocketConnection": "transport url session_kwargs",
    "MCPToolArtifact": "structured_content",
}


def found(path: str) -> Any:
    value: Any = plait
    for name in path.split("."):
        value = getattr(value, name)
    return value


def parameters_of(path: str) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(found(path)).parameters.values())
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in (LangChainOptions.__annotations__ if path == "MultiServerMCPClient" else ())
    ]
    return [*(one for one in parameters if one.name != "self"), *options]


@pytest.mark.parametrize("path", PARAMETERS)
def test_everything_takes_the_arguments_that_users_give(path: str) -> None:
    by_position, by_name = PARAMETERS[path]
    parameters = parameters_of(path)
    positional = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert tuple(positional[: len(by_position)]) == by_position
    assert set(by_name) <= {one.name for one in parameters}
    needed = {
        one.name
        for one in parameters
        if one.default is one.empty and one.kind not in {one.VAR_POSITIONAL, one.VAR_KEYWORD}
    }
    assert needed <= REQUIRED.get(path.rpartition(".")[2], {*by_position, *by_name})


@pytest.mark.parametrize("name", KEYS)
def test_dictionaries_have_the_keys_that_users_write(name: str) -> None:
    kind = found(name)
    assert is_typeddict(kind)
    assert set(get_type_hints(kind)) >= set(KEYS[name].split())


def test_a_connection_is_any_of_the_four() -> None:
    assert set(get_args(plait.Connection)) == {
        plait.StdioConnection,
        plait.SSEConnection,
        plait.StreamableHttpConnection,
        plait.WebsocketConnection,
    }


def test_a_client_is_made_of_what_users_give() -> None:
    async def watch(request: Any, handler: Any) -> Any:
        return await handler(request)

    connections = {"math": {"transport": "stdio", "command": "math-server", "args": []}}
    client = plait.MultiServerMCPClient(
        connections,
        callbacks=plait.Callbacks(),
        tool_interceptors=[watch],
        tool_name_prefix=True,
        handle_tool_errors=False,
    )

    assert client.connections is connections
    assert client.tool_interceptors == [watch]
    assert client.handle_tool_errors is False
