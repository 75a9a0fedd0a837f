"""In a graph with a checkpointer calls are direct, and become paused ones if the server asks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from plait import MultiServerMCPClient
from plait.client.calls.executor import ToolExecutor
from plait.testing import eventually
from tests.integration.langchain.paying_graphs import compiled
from tests.integration.langchain.paying_graphs import message_of as payments_message
from tests.servers import asking_till

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]


@pytest.fixture
def long_way(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The amounts of payments that took the long way."""
    taken: list[Any] = []
    plain = ToolExecutor.run_attempts

    async def run(self: ToolExecutor, one: Any, first: Any = None) -> Any:
        taken.append(one.arguments["amount"])
        return await plain(self, one, first)

    monkeypatch.setattr(ToolExecutor, "run_attempts", run)
    return taken


def servers_of(folder: Path) -> Any:
    command = [str(asking_till.__file__), str(folder / "ledger")]
    return {"till": {"command": sys.executable, "args": ["-ES", *command]}}


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[Any]:
    async with MultiServerMCPClient(servers_of(folder)) as client:
        (pay,) = await client.get_tools()
        yield pay


def ledger_of(folder: Path) -> list[int]:
    path = folder / "ledger"
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def graph_of(node: Any) -> Any:
    return compiled(MessagesState, node, InMemorySaver())


def message_of(amounts: Sequence[int]) -> Any:
    return {"messages": [payments_message([("pay", amount) for amount in amounts])]}


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def texts_of(state: Any) -> list[str]:
    return [message.text for message in state["messages"] if message.type == "tool"]


def consent(state: Any) -> Any:
    (asked,) = state["__interrupt__"]
    (request,) = asked.value["requests"]
    sure = {"action": "accept", "content": {"sure": True}}
    return Command(resume={"responses": {request["key"]: sure}})


@pytest.mark.parametrize("blocking", [False, True])
async def test_calls_are_direct_also_the_first_of_a_tool(
    tmp_path: Path, long_way: list[Any], blocking: bool
) -> None:
    async with opened(tmp_path) as pay:
        graph = graph_of(ToolNode([pay]))
        await graph.ainvoke(message_of([1]), thread("first"))
        if blocking:
            state = await asyncio.to_thread(graph.invoke, message_of([2, 2, 3]), thread("1"))
        else:
            state = await graph.ainvoke(message_of([2, 2, 3]), thread("1"))

    assert texts_of(state) == ["paid 2", "paid 2", "paid 3"]
    assert sorted(ledger_of(tmp_path)) == [1, 2, 2, 3]
    assert long_way == []


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_direct_call_is_paused_when_the_server_asks_and_goes_on_with_the_answer(
    tmp_path: Path, long_way: list[Any], blocking: bool
) -> None:
    async with opened(tmp_path) as pay:
        graph = graph_of(ToolNode([pay]))

        async def step(given: Any, name: str) -> Any:
            if blocking:
                return await asyncio.to_thread(graph.invoke, given, thread(name))
            return await graph.ainvoke(given, thread(name))

        await step(message_of([1]), "first")
        paused = await step(message_of([2, 500]), "1")
        assert ledger_of(tmp_path) == [1, 2]
        done = await step(consent(paused), "1")

        # From now on it is known that the tool may ask.
        long_way.clear()
        last = await step(consent(await step(message_of([600]), "2")), "2")
        small = await step(message_of([3]), "3")

    (asked,) = paused["__interrupt__"]
    assert asked.value["requests"][0]["message"] == "Pay 500?"
    assert texts_of(done) == ["paid 2", "paid 500"]
    assert texts_of(last) == ["paid 600"]
    assert texts_of(small) == ["paid 3"]
    assert ledger_of(tmp_path) == [1, 2, 500, 600, 3]
    assert long_way == [600, 600]  # both times because the server asks


async def test_a_question_waits_for_the_other_direct_calls_that_may_have_asked_it(
    tmp_path: Path, long_way: list[Any]
) -> None:
    async with opened(tmp_path) as pay:
        graph = graph_of(ToolNode([pay]))
        await graph.ainvoke(message_of([1]), thread("first"))
        paused = await graph.ainvoke(message_of([asking_till.LATER, 500]), thread("1"))
        done = await graph.ainvoke(consent(paused), thread("1"))

    assert texts_of(done) == [f"paid {asking_till.LATER}", "paid 500"]
    assert ledger_of(tmp_path) == [1, asking_till.LATER, 500]


async def test_nobody_answers_a_question_of_a_call_that_may_have_been_cancelled(
    tmp_path: Path, long_way: list[Any]
) -> None:
    async with MultiServerMCPClient(servers_of(tmp_path)) as client:
        (pay,) = await client.get_tools()
        graph = graph_of(ToolNode([pay]))
        await graph.ainvoke(message_of([1]), thread("first"))
        (session,) = client.toolbox.lifecycle.runtime.pool["till"].keeper.sessions
        cancelled = asyncio.create_task(pay.ainvoke({"amount": asking_till.NEVER}))
        asking = asyncio.create_task(graph.ainvoke(message_of([500]), thread("1")))
        await eventually(lambda: len(session.wire.server_requests) == 1)
        cancelled.cancel()
        done = await asking

    assert texts_of(done) == ["not sure"]
    assert ledger_of(tmp_path) == [1]


async def test_calls_that_ask_at_once_before_anything_is_known_of_their_tool_take_turns(
    tmp_path: Path, long_way: list[Any]
) -> None:
    async with opened(tmp_path) as pay:
        graph = graph_of(ToolNode([pay]))
        state = await graph.ainvoke(message_of([500, 600]), thread("1"))
        while asked := state.get("__interrupt__"):
            sure = {"action": "accept", "content": {"sure": True}}
            value = asked[0].value
            each = value["requests"] if value["type"] == "mcp_requests" else [value]
            answers = [{"responses": {one["requests"][0]["key"]: sure}} for one in each]
            resume = answers if value["type"] == "mcp_requests" else answers[0]
            state = await graph.ainvoke(Command(resume=resume), thread("1"))

    assert texts_of(state) == ["paid 500", "paid 600"]
    assert sorted(ledger_of(tmp_path)) == [500, 600]


async def test_a_direct_call_is_not_repeated_after_an_interrupt_of_the_users_own(
    tmp_path: Path, long_way: list[Any]
) -> None:
    async with opened(tmp_path) as pay:
        await graph_of(ToolNode([pay])).ainvoke(message_of([1]), thread("first"))

        async def node(state: Any) -> Any:
            texts = [await pay.ainvoke({"amount": 2}), await pay.ainvoke({"amount": 2})]
            return {"messages": [AIMessage(f"{interrupt('sure?')} {texts}")]}

        graph = graph_of(node)
        await graph.ainvoke({"messages": []}, thread("1"))
        assert long_way == []
        done = await graph.ainvoke(Command(resume="yes"), thread("1"))

    assert done["messages"][-1].text == "yes ['paid 2', 'paid 2']"
    assert ledger_of(tmp_path) == [1, 2, 2]


async def test_the_first_record_is_written_before_the_request(
    tmp_path: Path, long_way: list[Any]
) -> None:
    class Full(InMemorySaver):
        """One that cannot keep records."""

        def put_writes(self, config: Any, writes: Any, *args: Any, **kwargs: Any) -> None:
            if writes[0][0] == "plait_calls":
                raise OSError("disk full")
            super().put_writes(config, writes, *args, **kwargs)

    async with opened(tmp_path) as pay:
        await graph_of(ToolNode([pay])).ainvoke(message_of([1]), thread("first"))
        graph = compiled(MessagesState, ToolNode([pay]), Full())
        with pytest.raises(OSError, match="disk full"):
            await graph.ainvoke(message_of([2]), thread("1"))

    assert ledger_of(tmp_path) == [1]
