"""What the artifact of a message says of its call: attempts, notes, seconds."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from plait import MCPToolArtifact, MCPToolCallRequest, MultiServerMCPClient

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Json = dict[str, Any]

RAW = Path(__file__).parents[2] / "servers/raw"
CRASH: Json = {
    "name": "crash",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}
PLAIN: Json = {"name": "plain", "inputSchema": {"type": "object"}}


@pytest.fixture
def echo(tmp_path: Path) -> Json:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([CRASH, PLAIN]))
    args = [str(RAW / "raw_echo.py"), str(tools)]
    return {"echo": {"command": sys.executable, "args": args, "restart": {"delayMs": 10}}}


def call(name: str, **arguments: Any) -> Json:
    return {"type": "tool_call", "id": "1", "name": name, "args": arguments}


async def test_direct_and_observed_calls_say_the_same(echo: Json) -> None:
    async def passed_on(request: MCPToolCallRequest, handler: Any) -> Any:
        return await handler(request)

    for interceptors in ([], [passed_on]):
        async with MultiServerMCPClient(echo, tool_interceptors=interceptors) as client:
            _, plain = await client.get_tools()
            await plain.ainvoke(call("plain"))
            began = time.monotonic()
            message = await plain.ainvoke(call("plain", a=1))
            took = time.monotonic() - began

        assert message.artifact.keys() == MCPToolArtifact.__required_keys__
        assert (message.artifact["attempts"], message.artifact["notes"]) == (1, [])
        assert 0 < message.artifact["seconds"] < took


@pytest.mark.parametrize("marker", ["marker", "missing/marker"])
async def test_a_healed_call_and_a_lost_one_show_their_attempts(
    echo: Json, tmp_path: Path, marker: str
) -> None:
    async with MultiServerMCPClient(echo, default_tool_timeout=5) as client:
        crash, _ = await client.get_tools()
        message = await crash.ainvoke(call("crash", unless=str(tmp_path / marker)))

    if marker == "marker":
        assert (message.content, message.status) == ("alive", "success")
        assert message.artifact["attempts"] == 2
    else:
        assert message.status == "error"
        assert message.artifact["attempts"] > 1
        assert message.artifact["seconds"] > 0
        assert message.artifact["notes"] == []


async def test_what_deviates_is_noted() -> None:
    entry = {"command": sys.executable, "args": [str(RAW / "raw_stdio.py"), "breaks-schema"]}
    async with MultiServerMCPClient({"raw": entry}) as client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        message = await tools["breaks-schema"].ainvoke(call("breaks-schema"))

    assert len(message.artifact["notes"]) == 1


async def test_a_call_that_an_interceptor_answers_was_never_tried(echo: Json) -> None:
    async def answered(request: MCPToolCallRequest, handler: Any) -> types.CallToolResult:
        del request, handler
        return types.CallToolResult(content=[types.TextContent(text="from a cache")])

    async with MultiServerMCPClient(echo, tool_interceptors=[answered]) as client:
        _, plain = await client.get_tools()
        message = await plain.ainvoke(call("plain"))

    assert message.content == "from a cache"
    assert message.artifact["attempts"] == 0
