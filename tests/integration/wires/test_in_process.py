"""Calls of a server in this process, in both eras."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

from plait import ConfigError, ConnectError, MultiServerMCPClient, PlaitError, Toolbox
from plait._support.redact import Redactor
from plait.client.config.servers import InProcessServer
from plait.client.connections.session_keeper import SessionOptions
from plait.client.protocol.exchange import Exchanges
from plait.client.protocol.handshake import negotiate
from plait.client.protocol.peer import RequestError
from plait.client.protocol.session import McpSession
from plait.client.transports.in_process import link_in_process
from plait.client.transports.wire_log import make_wire
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


@pytest.mark.parametrize("era", ERAS)
async def test_every_kind_of_outcome_is_that_of_other_transports(era: str) -> None:
    server = {
        "server": make_server([]),
        "protocol": era,
        "tool_timeouts": {"slowly": 0.4, "hang": 0.2},
    }
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
                assert message.status == "success"
                assert message.artifact["attempts"] == 1
                assert message.artifact["structured_content"] == {"result": message.content}
                seen.append(message.content)
            except PlaitError as error:
                seen.append((type(error).__name__, str(error), error.code))

    unknown = "it may still take effect, so check before doing it again"
    assert seen == 2 * [
        "ä\u2028\U0001f9f5",
        ("ToolFailedException", "Error executing tool fail", None),
        (
            "ProtocolError",
            "here/refuse: the server answered tools/call with error -32050: not today",
            -32050,
        ),
        "done",
        ("CallTimeoutError", f"here/hang: no answer within 0.2 s (timeout); {unknown}", None),
        "after",
    ]


@pytest.mark.parametrize("era", ERAS)
async def test_cancelling_a_call_or_closing_the_client_ends_handlers(era: str) -> None:
    events: list[str] = []
    async with Toolbox({"here": {"server": make_server(events), "protocol": era}}) as box:
        await box.tools()
        for expected in (asyncio.CancelledError, PlaitError):
            assert (await box.call("here", "echo", {"text": "warm"})).text == "warm"
            events.clear()
            calling = asyncio.create_task(box.call("here", "hang"))
            async with asyncio.timeout(5):
                await eventually(lambda: "hanging" in events)
                assert box.status()["here"].in_flight == 1
                if expected is asyncio.CancelledError:
                    calling.cancel()
                else:
                    await box.aclose()
                with pytest.raises(expected):
                    await calling
                await eventually(lambda: "cancelled" in events)


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_the_end_of_its_session_has_cut_has_no_answer(era: str) -> None:
    events: list[str] = []
    wire = make_wire("here", Redactor(()), lambda: None)
    session = McpSession(wire, SessionOptions().callbacks({}))
    async with link_in_process(InProcessServer(server=make_server(events)), wire):
        await negotiate(session, era)
        with Exchanges() as exchanges:
            hang = session.request("tools/call", {"name": "hang", "arguments": {}})
            calling = asyncio.create_task(hang)
            await eventually(lambda: "hanging" in events)
    with pytest.raises(RequestError):
        await calling

    assert exchanges.may_have_run()
    assert exchanges.last is not None
    assert not exchanges.last.answered  # an error of the server would look like a refusal


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_lives_as_long_as_its_session_and_its_handlers(era: str) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(_server: MCPServer) -> AsyncGenerator[None]:
        events.append("begins")
        yield
        events.append("ends")

    server = MCPServer("here", lifespan=lifespan)

    @server.tool()
    async def hang() -> None:
        events.append("hangs")
        try:
            await asyncio.sleep(60)
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(20):
                    await asyncio.sleep(0)
            events.append("cancelled")

    async with Toolbox({"here": {"server": server, "protocol": era}}) as box:
        await box.tools()
        calling = asyncio.create_task(box.call("here", "hang"))
        await eventually(lambda: events == ["begins", "hangs"])
    await asyncio.gather(calling, return_exceptions=True)

    assert events == ["begins", "hangs", "cancelled", "ends"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_cannot_start_says_why(era: str) -> None:
    @asynccontextmanager
    async def lifespan(_server: MCPServer) -> AsyncGenerator[None]:
        raise LookupError("no database")
        yield

    server = MCPServer("here", lifespan=lifespan)
    async with Toolbox({"here": {"server": server, "protocol": era}}) as box:
        with pytest.raises(ConnectError, match="LookupError: no database") as raised:
            await box.tools()
    assert isinstance(raised.value.__cause__, LookupError)


@pytest.mark.parametrize("era", ERAS)
async def test_handlers_run_in_the_context_of_their_callers(era: str) -> None:
    user: ContextVar[str] = ContextVar("user", default="nobody")
    server = MCPServer("here")

    @server.tool()
    def whoami() -> str:
        return user.get()

    async def ask(box: Toolbox, name: str) -> str:
        user.set(name)
        return (await box.call("here", "whoami")).text

    async with Toolbox({"here": {"server": server, "protocol": era}}) as box:
        await box.tools()
        answers = await asyncio.gather(*(ask(box, name) for name in ("ann", "bob")))

    assert answers == ["ann", "bob"]


async def test_a_server_that_is_used_here_can_still_be_served_over_http() -> None:
    server = make_server([])
    async with Toolbox({"here": server}) as box:
        await box.tools()
        assert box.status()["here"].transport == "in-process"
    first = server.streamable_http_app()

    assert first.routes
    async with server.session_manager.run(), Toolbox({"here": server}) as box:
        assert (await box.call("here", "echo", {"text": "both"})).text == "both"


async def test_an_object_that_is_no_server_of_the_sdk_is_named() -> None:
    async with Toolbox({"here": {"server": object()}}) as box:
        with pytest.raises(ConfigError, match=r"builtins\.object is no server of the MCP SDK"):
            await box.tools()
