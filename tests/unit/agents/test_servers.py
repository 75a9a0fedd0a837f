"""The servers of a run: short forms, and what is wrong with the long ones."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from pydantic import SecretStr

from plait.agents.config import ModelConfig
from plait.agents.live_agent import redactor_for, servers_for, toolbox_for
from plait.agents.servers import (
    convert_and_validate_mcp_config,
    convert_mcp_config,
    validate_mcp_config,
)
from plait.client.config.read import ClientConfig
from plait.client.config.servers import HttpServer, StdioServer
from plait.errors import AgentServerConfigError, ConfigError


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("http://h/mcp", {"type": "http", "url": "http://h/mcp"}),
        ("https://h/mcp", {"type": "http", "url": "https://h/mcp"}),
        ("wss://h/mcp", {"type": "ws", "url": "wss://h/mcp"}),
        ("npx -y srv", {"command": "npx", "args": ["-y", "srv"]}),
        ("run 'my file'", {"command": "run", "args": ["my file"]}),
        ("./server", {"command": "./server"}),
        ("it's", {"command": "it's"}),
    ],
)
def test_a_short_form_becomes_a_configuration(short: str, long: dict[str, Any]) -> None:
    assert convert_mcp_config({"a": short}) == {"a": long}
    assert validate_mcp_config({"a": long}) == []


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("x", "expected a server, found a string"),
        ({}, 'a server needs "command" or "url"'),
        ({"type": "http"}, 'a http server needs "url"'),
        ({"type": "sse"}, 'a sse server needs "url"'),
        ({"type": "http", "url": 3}, "url: expected a URL, found a number"),
        ({"type": "http", "url": "ftp://h"}, 'url: "ftp" is not a scheme for a server'),
        (
            {"type": "http", "url": "http://h", "headers": {"a": 1}},
            "headers.a: expected a string, found a number",
        ),
        ({"type": "carrier-pigeon"}, 'type: "carrier-pigeon" is not a transport'),
        ({"type": "stdio"}, 'a stdio server needs "command"'),
        ({"command": 1}, "command: expected a string, found a number"),
        ({"command": "x", "args": "y"}, "args: expected a list of strings, found a string"),
        ({"command": "x", "env": {"A": []}}, "env.A: expected a string, found a list"),
    ],
)
def test_a_wrong_configuration_is_explained(config: object, problem: str) -> None:
    assert validate_mcp_config({"a": config})[0] == f"Server 'a': {problem}"


def test_a_server_in_the_process_is_not_looked_into() -> None:
    assert validate_mcp_config({"a": {"type": "sdk", "name": "a", "instance": object()}}) == []


def test_every_problem_is_in_the_error() -> None:
    with pytest.raises(AgentServerConfigError) as failed:
        convert_and_validate_mcp_config({"a": " ", "b": " "})

    assert str(failed.value) == (
        "MCP configuration validation failed:\n"
        "  - Server 'a': command: must not be empty\n"
        "  - Server 'b': command: must not be empty"
    )
    assert convert_and_validate_mcp_config({"a": "./x"}) == {"a": {"command": "./x"}}


def test_a_run_needs_each_of_its_servers_and_takes_the_models_timeouts() -> None:
    config = ModelConfig(
        id="a",
        model_name="m",
        mcp_urls_dict={"web": "http://h/mcp", "here": "./x"},
        mcp_http_timeout=3,
        mcp_sse_read_timeout=4,
    )

    servers = servers_for(config, None).servers

    web, here = servers["web"], servers["here"]
    assert isinstance(web, HttpServer)
    assert (web.url, web.required) == ("http://h/mcp", True)
    assert (web.exchange_seconds, web.stream_read_seconds) == (3.0, 4.0)
    assert isinstance(here, StdioServer)
    assert (here.command, here.required) == ("./x", True)
    assert servers_for(config, {}).servers == {}
    assert toolbox_for(config, {}) is None


def test_typed_servers_reach_the_toolbox_as_they_are() -> None:
    config = ModelConfig(id="a", model_name="m", mcp_http_timeout=3)
    typed = HttpServer(url="http://h/mcp")

    mixed = toolbox_for(config, {"typed": typed, "dict": {"command": "./x"}})
    whole = ClientConfig(servers={"typed": typed}, options={"include": ["a"]})

    assert mixed is not None
    assert list(mixed.config.servers) == ["typed", "dict"]
    assert mixed.config.servers["typed"] is typed
    assert servers_for(config, whole) is whole


@pytest.mark.anyio
async def test_filter_and_descriptions_hold_in_the_toolbox_of_a_run() -> None:
    server = MCPServer("s")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool()
    def sub(a: int, b: int) -> int:
        """Subtract."""
        return a - b

    sdk: Any = {"s": {"type": "sdk", "name": "s", "instance": server}}
    config = ModelConfig(
        id="a",
        model_name="m",
        mcp_tool_filter=["add"],
        mcp_tool_description_overrides={"add": "Sum of two."},
    )

    toolbox = toolbox_for(config, sdk)
    assert toolbox is not None
    async with toolbox:
        tools = await toolbox.tools()

    assert [(tool.name, tool.description) for tool in tools] == [("add", "Sum of two.")]


def test_the_secrets_of_model_and_servers_are_hidden() -> None:
    config = ModelConfig(
        id="a", model_name="m", interface="claude_tool", anthropic_api_key=SecretStr("canary-model")
    )
    toolbox = toolbox_for(
        config,
        {"a": {"type": "http", "url": "http://h/mcp", "headers": {"X-Key": "canary-server"}}},
    )

    redact = redactor_for(config, toolbox)

    assert redact("canary-model canary-server other") == "*** *** other"
    assert redactor_for(config, None)("canary-model") == "***"


def test_a_server_that_is_described_wrongly_is_a_config_error() -> None:
    config = ModelConfig(id="a", model_name="m")

    with pytest.raises(ConfigError):
        toolbox_for(config, {"a": {"type": "http"}})
