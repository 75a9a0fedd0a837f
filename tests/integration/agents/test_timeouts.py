"""Every limit of time holds for agents: of a call, of a tool, of a server, of the whole run."""

from __future__ import annotations

import time
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from plait import MultiServerMCPClient
from plait.client import run_deadline
from plait.client.calls.tool_call import ToolCall, call_deadline
from plait.client.config.servers import Timeouts
from plait.testing import ServerProcess, eventually
from tests.integration.agents.helpers import arun, one_by_one, run, tool_call
from tests.nursery import fault_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture(scope="module")
def server() -> Generator[ServerProcess]:
    with fault_server() as server:
        yield server


def client_of(
    server: ServerProcess, more: dict[str, Any] | None = None, **options: Any
) -> MultiServerMCPClient:
    return MultiServerMCPClient({"server": {"url": server.url, **(more or {})}}, **options)


async def cancelled(client: MultiServerMCPClient) -> int:
    return int((await client.toolbox.call("server", "cancelled_calls")).text)


LIMITS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "0.31": (
        {"timeout": 0.31},
        {"tool_timeouts": {"hang": 0.32}, "default_tool_timeout": 0.33},
        {"default_tool_timeout": 0.34, "tool_timeouts": {"hang": 0.35}},
    ),
    "0.32": (
        {},
        {"tool_timeouts": {"hang": 0.32}, "default_tool_timeout": 0.33},
        {"default_tool_timeout": 0.34, "tool_timeouts": {"hang": 0.35}},
    ),
    "0.35": ({}, {"default_tool_timeout": 0.33}, {"tool_timeouts": {"ha*": 0.35}}),
    "0.33": ({}, {"default_tool_timeout": 0.33}, {"default_tool_timeout": 0.34}),
    "0.34": ({"timeout": 0}, {}, {"default_tool_timeout": 0.34}),
}
"""Which limit wins: the call's, the tool's (the server's first), the server's, the client's."""


@pytest.mark.parametrize("winner", LIMITS)
async def test_the_nearest_limit_wins(server: ServerProcess, winner: str) -> None:
    of_call, of_server, of_client = LIMITS[winner]
    async with client_of(server, of_server, **of_client) as client:
        before = await cancelled(client)
        tools = await client.get_tools()

        (answer,) = await arun(
            one_by_one(tool_call("hang")), tools, {"configurable": of_call} if of_call else None
        )

        assert answer.status == "error"
        assert answer.artifact["error"]["error"] == "CallTimeoutError"
        assert f"no answer within {winner} s" in str(answer.content)

        async def heard() -> bool:
            return await cancelled(client) == before + 1

        await eventually(heard)


async def test_a_single_call_of_a_tool_takes_its_limit_directly(server: ServerProcess) -> None:
    async with client_of(server) as client:
        (hang,) = await client.get_tools(include=["hang"])

        text = await hang.ainvoke({}, {"timeout": 0.3})  # pyright: ignore[reportArgumentType]

        assert "no answer within 0.3 s" in text


def test_without_any_limit_a_call_has_a_minute() -> None:
    call = ToolCall(server="server", tool="hang")

    assert call_deadline(call, Timeouts(), None).seconds == 60


async def test_a_call_that_shows_progress_may_take_longer(server: ServerProcess) -> None:
    async with client_of(server, default_tool_timeout=1.5) as client:
        call = tool_call("sleep_progress", steps=8, delay=0.3)
        (answer,) = await arun(one_by_one(call), await client.get_tools())

        assert answer.content == "took 8 steps"


async def test_progress_does_not_help_for_ever(server: ServerProcess) -> None:
    more = {"max_call_seconds": 1.5}
    async with client_of(server, more, default_tool_timeout=1) as client:
        call = tool_call("sleep_progress", steps=1000, delay=0.1)
        (answer,) = await arun(one_by_one(call), await client.get_tools())

        assert answer.status == "error"
        assert "nor within 1.5 s while it showed progress" in str(answer.content)


def _ends_in(seconds: float, kind: str) -> Any:
    if kind == "datetime":
        return {"configurable": {"deadline": datetime.now(UTC) + timedelta(seconds=seconds)}}
    return {"configurable": {"deadline": time.time() + seconds}}


@pytest.mark.parametrize("kind", ["block", "time", "datetime"])
async def test_a_run_that_is_over_ends_its_call_on_the_server_too_and_sends_no_more(
    server: ServerProcess, kind: str
) -> None:
    async with client_of(server) as client:
        before = await cancelled(client)
        tools = await client.get_tools()
        script = one_by_one(tool_call("hang"), tool_call("echo", text="too late"))

        if kind == "block":
            with run_deadline(0.5):
                ended, unsent = await arun(script, tools)
        else:
            ended, unsent = await arun(script, tools, _ends_in(0.5, kind))

        for answer in (ended, unsent):
            assert answer.status == "error"
            assert answer.artifact["error"]["error"] == "RunDeadlineError"
            assert "the time of the whole run is over" in str(answer.content)
        assert "not sent" in str(unsent.content)

        async def heard() -> bool:
            return await cancelled(client) == before + 1

        await eventually(heard)
        (after,) = await arun(one_by_one(tool_call("echo", text="next run")), tools)
        assert after.content == "next run"


@pytest.mark.parametrize("kind", ["block", "time"])
def test_a_run_without_a_loop_can_be_over_too(server: ServerProcess, kind: str) -> None:
    with client_of(server) as client:
        tools = client.get_tools_blocking()
        if kind == "block":
            with run_deadline(0.5):
                (answer,) = run(one_by_one(tool_call("hang")), tools)
        else:
            (answer,) = run(one_by_one(tool_call("hang")), tools, _ends_in(0.5, kind))

        assert answer.artifact["error"]["error"] == "RunDeadlineError"


async def test_of_two_ends_of_a_run_the_first_counts(server: ServerProcess) -> None:
    async with client_of(server) as client:
        tools = await client.get_tools()
        with run_deadline(30), run_deadline(0.3), run_deadline(30):
            (answer,) = await arun(one_by_one(tool_call("hang")), tools)

        assert answer.artifact["error"]["error"] == "RunDeadlineError"
