"""What holds over every transport, in both eras."""

from __future__ import annotations

import sys

import pytest
from mcp_types import PromptReference

from plait import ConnectTimeoutError, Toolbox
from plait.testing import eventually
from plait.testing.fixtures import StartFaultServer
from tests.nursery import stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http", "http json", "sse", "websocket"])
async def test_big_results_resources_prompts_and_completions(
    transport: str, era: str, fault_server: StartFaultServer
) -> None:
    only = {"legacy_only": True} if era == "legacy" else {"modern_only": True}
    if transport == "stdio":
        config = stdio_config(**only)  # pyright: ignore[reportArgumentType]
    else:
        kind, _, json = transport.partition(" ")
        server = fault_server(kind, json_response=bool(json), **only)  # pyright: ignore[reportArgumentType]
        config = {"url": server.url} | ({"transport": "sse"} if kind == "sse" else {})
    async with Toolbox({"server": config}) as box:
        info = await box.server_info("server")
        assert (info.protocol_version == "2026-07-28") == (era == "modern")
        assert len((await box.call("server", "big", {"size_bytes": 5_000_000})).text) == 5_000_000
        assert "test://static" in {one.item.uri for one in await box.list_resources()}
        assert [one.item.name for one in await box.list_prompts("server")] == ["greet"]
        assert (await box.list_resource_templates())[0].item.uri_template == "test://item/{id}"
        contents = (await box.read_resource("server", "test://item/7")).contents
        assert contents[0].uri == "test://item/7"
        prompt = await box.get_prompt("server", "greet", {"name": "Ada"})
        assert "Ada" in prompt.messages[0].content.text  # pyright: ignore[reportAttributeAccessIssue]
        ref = PromptReference(name="greet")
        completed = await box.complete("server", ref, {"name": "name", "value": "A"})
        assert all(value.startswith("A") for value in completed.completion.values)
        assert completed.completion.values
        assert await box.ping("server") > 0
        assert await box.health() == {"server": None}


async def test_the_era_that_was_found_is_remembered(fault_server: StartFaultServer) -> None:
    server = fault_server("http", legacy_only=True)
    async with Toolbox({"server": {"url": server.url}}) as box:
        await box.call("server", "counter")
        probes = len(server.state.sessions("discover"))
        await box.reconnect("server")
        await box.call("server", "counter")
        assert len(server.state.sessions("discover")) == probes
        assert len(server.state.sessions("initialize")) == 2


async def test_a_server_of_another_era_after_a_restart_is_asked_again(
    fault_server: StartFaultServer,
) -> None:
    legacy = fault_server("http", legacy_only=True)
    async with Toolbox({"server": {"url": legacy.url}}) as box:
        await box.call("server", "counter")
        legacy.kill()
        fault_server("http", modern_only=True, port=legacy.port)
        assert (await box.call("server", "counter")).text == "1"
        assert box.status()["server"].protocol_version == "2026-07-28"


IGNORES_WHAT_IT_DOES_NOT_KNOW = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": message.get("id")}
    if message.get("method") == "initialize":
        info = {"name": "old", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}
        print(json.dumps(answer | {"result": result}), flush=True)
    if message.get("method") == "tools/list":
        print(json.dumps(answer | {"result": {"tools": []}}), flush=True)
"""


async def test_a_server_that_ignores_the_question_what_it_speaks_is_found_out() -> None:
    config = {"command": sys.executable, "args": ["-c", IGNORES_WHAT_IT_DOES_NOT_KNOW]}
    async with Toolbox({"old": config | {"connect_timeout": 1}}) as box:
        with pytest.raises(ConnectTimeoutError):
            await box.tools()
        await eventually(lambda: box.status()["old"].state == "ready", timeout_seconds=15)
        assert await box.tools() == []
        assert box.status()["old"].protocol_version == "2025-06-18"
