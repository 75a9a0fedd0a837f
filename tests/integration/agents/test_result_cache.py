"""Answers of tools that only read are remembered, for those who ask for it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from plait import MultiServerMCPClient
from plait.client import ResultCaching
from plait.telemetry.observer import CallTool, Operation
from plait.testing import eventually
from plait.testing.fixtures import StartFaultServer
from tests.integration.agents.counting import Counting, counting
from tests.integration.agents.helpers import END, arun, one_by_one, tool_call

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


class Calls:
    """Notes the tools that servers are really asked for."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @contextmanager
    def around(self, operation: Operation) -> Generator[None]:
        if isinstance(operation, CallTool):
            self.seen.append(operation.tool)
        yield


@pytest.fixture
def server(tmp_path: Path) -> Generator[Counting]:
    with counting(tmp_path, "http", "--announce") as server:
        (tmp_path / "tools").write_text("read_a read_b read_bad b")
        yield server


async def test_the_same_question_is_asked_once(server: Counting) -> None:
    async with MultiServerMCPClient({"server": server.config}, result_cache=True) as client:
        calls = [tool_call("read_a"), tool_call("read_a"), tool_call("read_b"), tool_call("read_a")]
        answers = await arun(one_by_one(*calls), await client.get_tools())

        assert [answer.content for answer in answers] == [
            "read_a for -",
            "read_a for -",
            "read_b for -",
            "read_a for -",
        ]
        assert [answer.tool_call_id for answer in answers] == [call["id"] for call in calls]
        assert server.calls() == 2


async def test_without_being_asked_nothing_is_remembered(server: Counting) -> None:
    async with MultiServerMCPClient({"server": server.config}) as client:
        await arun(one_by_one(tool_call("read_a"), tool_call("read_a")), await client.get_tools())
        assert server.calls() == 2


async def test_failures_and_tools_that_change_things_are_not_remembered(server: Counting) -> None:
    async with MultiServerMCPClient({"server": server.config}, result_cache=True) as client:
        calls = [tool_call(name) for name in ("read_bad", "read_bad", "b", "b")]
        answers = await arun(one_by_one(*calls), await client.get_tools())

        assert [answer.status for answer in answers] == ["error", "error", "success", "success"]
        assert server.calls() == 4


async def test_what_changes_something_makes_answers_be_forgotten(server: Counting) -> None:
    async with MultiServerMCPClient({"server": server.config}, result_cache=True) as client:
        calls = [tool_call(name) for name in ("read_a", "b", "read_a", "read_a")]
        await arun(one_by_one(*calls), await client.get_tools())

        assert server.calls() == 3


async def test_a_change_whose_answer_was_lost_makes_answers_be_forgotten_too(
    fault_server: StartFaultServer,
) -> None:
    dropping = fault_server(die_by="drop")
    async with MultiServerMCPClient({"server": {"url": dropping.url}}, result_cache=True) as client:
        read = tool_call("get_and_die", key="x")
        calls = [read, read, tool_call("pay_and_die", amount=1), read, read]
        answers = await arun(one_by_one(*calls), await client.get_tools())

        assert [answer.status for answer in answers] == ["success"] * 2 + ["error"] + [
            "success"
        ] * 2
        # The first try of the first read gets no answer; two of the four come from memory.
        assert dropping.state.reads() == ["x"] * 3


async def test_an_answer_that_a_change_overtook_is_not_remembered(
    fault_server: StartFaultServer,
) -> None:
    config = {"server": {"url": fault_server().url}}
    calls = Calls()
    async with MultiServerMCPClient(config, result_cache=True, observers=[calls]) as client:
        slow = tool_call("slow", seconds=1)
        await arun(
            [[slow, tool_call("counter")], [{**slow, "id": "2"}], END], await client.get_tools()
        )
        reads = [event for event in calls.seen if event == "slow"]

        assert len(reads) == 2


async def test_an_answer_is_remembered_for_as_long_as_the_program_says(server: Counting) -> None:
    caching = ResultCaching(ttl_seconds=300, tools={"read_a": 1.0, "read_b": 0})
    async with MultiServerMCPClient({"server": server.config}, result_cache=caching) as client:
        tools = await client.get_tools()
        await arun(one_by_one(tool_call("read_a"), tool_call("read_a")), tools)
        assert server.calls() == 1
        await arun(one_by_one(tool_call("read_b"), tool_call("read_b")), tools)
        assert server.calls() == 3

        async def is_asked_again() -> bool:
            await client.toolbox.call("server", "read_a")
            return server.calls() == 4

        await eventually(is_asked_again)


async def test_credentials_do_not_share_answers(server: Counting) -> None:
    async with MultiServerMCPClient({"server": server.config}, result_cache=True) as client:
        for _ in range(2):
            for name in ("ann", "bob"):
                tools = await client.get_tools(headers={"X-User": name})
                (answer,) = await arun(one_by_one(tool_call("read_a")), tools)
                assert answer.content == f"read_a for {name}"

        assert server.calls() == 2
