"""Answers of tools that only read are remembered, for those who ask for it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from plait import MultiServerMCPClient
from plait.client import ResultCaching
from plait.telemetry.observer import CallTool, Operation
from plait.testing import eventually
from plait.testing.fixtures import StartFaultServer
from tests.integration.agents.counting import Counting, counting
from tests.integration.agents.helpers import END, arun, one_by_one, tool_call

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture
def server(tmp_path: Path) -> Generator[Counting]:
    with counting(tmp_path, "http", "--announce") as server:
        (tmp_path / "tools").write_text("read_a read_b read_bad b")
        yield server


@pytest.mark.parametrize(
    ("caching", "names", "calls"),
    [
        (True, ["read_a", "read_a", "read_b", "read_a"], 2),
        (False, ["read_a", "read_a"], 2),
        (True, ["read_bad", "read_bad", "b", "b"], 4),
        (True, ["read_a", "b", "read_a", "read_a"], 3),
        (ResultCaching(ttl_seconds=300, tools={"read_b": 0}), ["read_a", "read_a"], 1),
        (ResultCaching(ttl_seconds=300, tools={"read_b": 0}), ["read_b", "read_b"], 2),
    ],
    ids=[
        "the same call is made once",
        "nothing is remembered without the option",
        "no failures, and no tools that change things",
        "a change makes answers be forgotten",
        "a time for all tools",
        "no time for this tool",
    ],
)
async def test_answers_of_tools_that_only_read_are_remembered(
    server: Counting, caching: Any, names: list[str], calls: int
) -> None:
    made = [tool_call(name) for name in names]
    async with MultiServerMCPClient({"server": server.config}, result_cache=caching) as client:
        answers = await arun(one_by_one(*made), await client.get_tools())

    expected = [f"{name} fails" if name == "read_bad" else f"{name} for -" for name in names]
    assert [answer.content for answer in answers] == expected
    assert [answer.status for answer in answers] == [
        "error" if name == "read_bad" else "success" for name in names
    ]
    assert [answer.tool_call_id for answer in answers] == [call["id"] for call in made]
    assert server.calls() == calls


async def test_a_change_whose_answer_was_lost_makes_answers_be_forgotten_too(
    fault_server: StartFaultServer,
) -> None:
    dropping = fault_server(die_by="drop")
    async with MultiServerMCPClient({"server": {"url": dropping.url}}, result_cache=True) as client:
        read = tool_call("get_and_die", key="x")
        calls = [read, read, tool_call("pay_and_die", amount=1), read, read]
        answers = await arun(one_by_one(*calls), await client.get_tools())

    statuses = [answer.status for answer in answers]
    assert statuses == ["success", "success", "error", "success", "success"]
    # The first try of the first read gets no answer; two of the four come from memory.
    assert dropping.state.reads() == ["x"] * 3


async def test_an_answer_that_a_change_overtook_is_not_remembered(
    fault_server: StartFaultServer,
) -> None:
    class Calls:
        """Notes the calls that are really made."""

        seen: ClassVar[list[str]] = []

        @contextmanager
        def around(self, operation: Operation) -> Generator[None]:
            if isinstance(operation, CallTool):
                self.seen.append(operation.tool)
            yield

    config, calls = {"server": {"url": fault_server().url}}, Calls()
    async with MultiServerMCPClient(config, result_cache=True, observers=[calls]) as client:
        slow = tool_call("slow", seconds=1)
        script: list[Any] = [[slow, tool_call("counter")], [{**slow, "id": "2"}], END]
        await arun(script, await client.get_tools())

    assert calls.seen.count("slow") == 2


async def test_an_answer_is_remembered_for_as_long_as_the_program_says(server: Counting) -> None:
    caching = ResultCaching(tools={"read_a": 1.0})
    async with MultiServerMCPClient({"server": server.config}, result_cache=caching) as client:
        await arun(one_by_one(tool_call("read_a"), tool_call("read_a")), await client.get_tools())
        assert server.calls() == 1

        async def is_called_again() -> bool:
            await client.toolbox.call("server", "read_a")
            return server.calls() == 2

        await eventually(is_called_again)


async def test_credentials_do_not_share_answers(server: Counting) -> None:
    async with MultiServerMCPClient({"server": server.config}, result_cache=True) as client:
        for name in ("ann", "bob") * 2:
            tools = await client.get_tools(headers={"X-User": name})
            (answer,) = await arun(one_by_one(tool_call("read_a")), tools)
            assert answer.content == f"read_a for {name}"

    assert server.calls() == 2
