"""Stock sessions of the MCP SDK over our transports: requests of both sides, and their ends."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from itertools import product
from typing import Any

import pytest
from mcp import MCPError
from mcp.client import ClientRequestContext, ClientSession
from mcp.types import CONNECTION_CLOSED, ElicitRequestParams, ElicitResult, ErrorData, TextContent

from plait import (
    MultiServerMCPClient,
    OutcomeUnknownError,
    create_session,
    load_mcp_tools,
)
from plait.testing import ServerProcess, eventually, running
from plait.testing.faults.fault_options import Run, parse
from plait.testing.faults.fault_server import build_server
from tests.nursery import fault_server, stdio_config
from tests.servers import raw_stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

KINDS = ["in-process", "stdio", "websocket", "sse", "http"]
MODERN = [kind for kind in KINDS if kind != "sse"]
ERA = "2026-07-28"


@pytest.fixture(scope="module")
def servers() -> Generator[dict[str, ServerProcess]]:
    kinds = ("websocket", "sse", "http")
    with running(*(fault_server(kind) for kind in kinds)) as found:
        yield dict(zip(kinds, found, strict=True))


def connection_of(kind: str, servers: dict[str, ServerProcess]) -> dict[str, Any]:
    if kind == "in-process":
        return {"server": build_server(Run(parse([])))}
    if kind == "stdio":
        return stdio_config()
    return {"transport": kind, "url": servers[kind].url}


async def text_of(session: ClientSession, tool: str, **arguments: Any) -> str:
    result = await session.call_tool(tool, arguments)
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("kind", KINDS)
async def test_a_session_of_the_user_has_both_directions(
    kind: str, servers: dict[str, ServerProcess]
) -> None:
    steps: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async def answer(_context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"text": "blue"})

    connection = connection_of(kind, servers)
    connection["session_kwargs"] = {"elicitation_callback": answer}
    async with create_session(connection) as session:
        assert type(session) is ClientSession
        assert session.server_capabilities is None
        await session.initialize()
        assert "echo" in [tool.name for tool in (await session.list_tools()).tools]
        assert await text_of(session, "echo", text="ä\u2028") == "ä\u2028"
        assert await text_of(session, "ask", question="Color?") == "Color? blue"
        called = await session.call_tool(
            "sleep_progress", {"steps": 3, "delay": 0}, progress_callback=progressed
        )
        assert not called.is_error
        await eventually(lambda: steps == [1, 2, 3])
        with pytest.raises(MCPError) as refused:
            await session.call_tool("protocol_error", {"code": -32050})
        assert refused.value.error.code == -32050


@pytest.mark.parametrize(("kind", "era"), [*product(KINDS, ["legacy"]), *product(MODERN, [ERA])])
async def test_a_session_of_the_client_is_of_the_era_that_is_asked_for(
    kind: str, era: str, servers: dict[str, ServerProcess]
) -> None:
    connection = {**connection_of(kind, servers), "protocol": era}
    async with MultiServerMCPClient({"it": connection}) as client, client.session("it") as session:
        assert type(session) is ClientSession
        assert (session.protocol_version == era) is (era != "legacy")
        assert session.server_capabilities is not None
        assert session.server_capabilities.tools is not None
        assert await text_of(session, "echo", text="hello") == "hello"
        echo = next(tool for tool in await load_mcp_tools(session) if tool.name == "echo")
        assert await echo.ainvoke({"text": "again"}) == "again"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cancelled_request_is_cancelled_at_the_server(
    kind: str, servers: dict[str, ServerProcess]
) -> None:
    connection = connection_of(kind, servers)
    async with create_session(connection) as session, asyncio.timeout(10):
        await session.initialize()
        before = await text_of(session, "cancelled_calls")
        while await text_of(session, "cancelled_calls") == before:
            hanging = asyncio.create_task(session.call_tool("hang", {}))
            await text_of(session, "echo", text="most likely it hangs meanwhile")
            hanging.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hanging


@pytest.mark.parametrize("kind", ["stdio", "websocket"])
async def test_the_end_of_the_server_fails_every_request(kind: str) -> None:
    with fault_server("websocket") as server:
        connection = connection_of(kind, {"websocket": server})
        async with create_session(connection) as session, asyncio.timeout(10):
            await session.initialize()
            hanging = asyncio.create_task(session.call_tool("hang", {}))
            dying = asyncio.create_task(session.call_tool("die", {}))
            for request in (hanging, dying):
                with pytest.raises(MCPError) as lost:
                    await request
                assert lost.value.error.code == CONNECTION_CLOSED
            with pytest.raises(MCPError) as late:
                await session.call_tool("echo", {"text": "too late"})
            assert late.value.error.code == CONNECTION_CLOSED


async def test_a_request_of_the_server_may_be_refused(servers: dict[str, ServerProcess]) -> None:
    async def refuse(_context: ClientRequestContext, params: ElicitRequestParams) -> ErrorData:
        return ErrorData(code=-32050, message="ask somebody else")

    connection = connection_of("websocket", servers)
    connection["session_kwargs"] = {"elicitation_callback": refuse}
    async with create_session(connection) as session:
        await session.initialize()
        with pytest.raises(MCPError, match="ask somebody else"):
            await session.call_tool("ask", {"question": "Color?"})


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_a_tool_over_a_session_knows_that_it_may_have_run(kind: str) -> None:
    with fault_server("http") as server:
        connection = connection_of(kind, {"http": server})
        async with create_session(connection) as session, asyncio.timeout(10):
            await session.initialize()
            tools = await load_mcp_tools(session, handle_tool_errors=False)
            die = next(tool for tool in tools if tool.name == "die")
            with pytest.raises(OutcomeUnknownError):
                await die.ainvoke({})


async def test_results_are_repaired_before_the_session_validates_them() -> None:
    async with create_session(raw_stdio_config("tool-with-bad-schema", era="legacy")) as session:
        await session.initialize()
        assert (await session.list_tools()).tools
