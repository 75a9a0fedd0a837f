"""Calls of a server in this process: the same outcome on both wires, in both eras."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

from plait import MultiServerMCPClient, PlaitError, Toolbox
from plait.client.transports import in_process
from plait.testing import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ERAS = ["legacy", "2026-07-28"]


def make_server(events: list[str]) -> MCPServer:
    server = MCPServer("here")

    @server.tool()
    def echo(text: str) -> str:
        events.append(text)
        return text

    @server.tool()
    def fail() -> str:
        raise ValueError("no such thing")

    @server.tool()
    def refuse() -> str:
        raise MCPError(code=-32050, message="not today")

    @server.tool()
    async def slowly(ctx: Context) -> str:
        for step in range(6):
            await ctx.report_progress(step, 6)
            await asyncio.sleep(0.1)
        return "done"

    @server.tool()
    async def hang() -> str:
        events.append("hanging")
        try:
            await asyncio.sleep(60)
        finally:
            events.append("cancelled")
        return "never"

    return server


async def outcomes_over(wire: str, era: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setenv("PLAIT_WIRE", wire)
    server = {"server": make_server([]), "protocol": era, "default_tool_timeout": 0.4}
    seen: list[Any] = []
    async with MultiServerMCPClient({"here": server}, handle_tool_errors=False) as client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        for name, arguments in [
            ("echo", {"text": "ä\u2028\U0001f9f5"}),
            ("fail", {}),
            ("refuse", {}),
            ("slowly", {}),
            ("hang", {}),
            ("echo", {"text": "after"}),
        ] * 2:
            call = {"type": "tool_call", "id": "1", "name": name, "args": arguments}
            try:
                message = await tools[name].ainvoke(call)
                artifact = {**message.artifact, "seconds": 0.0}
                seen.append((message.content, artifact, message.status))
            except PlaitError as error:
                seen.append((type(error).__name__, str(error), error.code))
    return seen


@pytest.mark.parametrize("era", ERAS)
async def test_both_wires_have_the_same_outcome(era: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lean = await outcomes_over("lean", era, monkeypatch)
    sdk = await outcomes_over("sdk", era, monkeypatch)

    assert lean == sdk
    assert [one[0] for one in lean[3:6]] == ["done", "CallTimeoutError", "after"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_call_ends_its_handler(era: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIT_WIRE", "lean")
    events: list[str] = []
    sent: list[str] = []
    send = in_process.InProcessSender.send
    monkeypatch.setattr(
        in_process.InProcessSender,
        "send",
        lambda sender, body, request: (sent.append(request.method), send(sender, body, request)),
    )
    async with Toolbox({"here": {"server": make_server(events), "protocol": era}}) as box:
        await box.tools()
        assert (await box.call("here", "echo", {"text": "warm"})).text == "warm"
        calling = asyncio.create_task(box.call("here", "hang"))
        async with asyncio.timeout(5):
            await eventually(lambda: "hanging" in events)
            assert box.status()["here"].in_flight == 1
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
            await eventually(lambda: "cancelled" in events)
        assert (await box.call("here", "echo", {"text": "again"})).text == "again"
    assert "tools/call" in sent


async def test_closing_the_client_ends_open_calls() -> None:
    events: list[str] = []
    box = Toolbox({"here": make_server(events)})
    async with box:
        await box.tools()
        await box.call("here", "echo", {"text": "warm"})
        calling = asyncio.create_task(box.call("here", "hang"))
        async with asyncio.timeout(5):
            await eventually(lambda: "hanging" in events)
    with pytest.raises(PlaitError):
        async with asyncio.timeout(5):
            await calling
    assert events[-1] == "cancelled"
