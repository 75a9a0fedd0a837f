"""Whatever the layout of a graph, each of its payments is made once, however often it pauses."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any, cast
from weakref import WeakValueDictionary

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, RetryPolicy, Send, interrupt

from plait import MultiServerMCPClient
from plait.client.calls.tool_call import ToolCall
from plait.langchain.tools import graph_task
from plait.testing import ServerProcess, eventually
from tests.integration.langchain import paying_graphs
from tests.integration.langchain.paying_graphs import (
    LAYOUTS,
    THREAD,
    Payment,
    opened,
    step,
    with_tools,
)
from tests.nursery import python
from tests.servers.till import OPEN, ledger_of, served_till

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

KINDS = {"approval": "pay_approved", "elicitation": "pay_asked", "sign-in": "pay_signed"}


@pytest.fixture
def server(tmp_path: Path) -> Generator[ServerProcess]:
    with served_till(tmp_path) as running:
        yield running


def payments_of(kind: str, *, beside: bool) -> list[Payment]:
    asking = KINDS[kind]
    if not beside:
        return [(asking, 1), (asking, 20), (asking, 300)]
    return [("pay", 1), (asking, 20), ("pay", 300), (asking, 4000)]


def rounds_of(layout: str, payments: list[Payment], kind: str) -> int:
    """Return how often a person has to be asked at least."""
    if layout == "before_a_subgraph" and payments[0][0] != "pay" and kind != "sign-in":
        return 2
    if layout in {"one_after_the_other", "functional_tasks"} and kind != "sign-in":
        return sum(name != "pay" for name, _ in payments)
    return 1  # whoever signs in does so for all calls


async def steps_here(
    server: ServerProcess, layout: str, payments: list[Payment], folder: Path
) -> tuple[int, Any]:
    async def run(graph: Any) -> tuple[int, Any]:
        rounds = 0
        while (texts := await step(graph, payments, folder)) is None:
            rounds += 1
            assert rounds < 9
        return rounds, texts

    return await opened(server.url, layout, payments, str(folder / "state.db"), run)


def command_of(
    server: ServerProcess, layout: str, payments: list[Payment], folder: Path
) -> list[str]:
    """Return what Python runs to take one step."""
    database, chosen = str(folder / "state.db"), json.dumps(payments)
    return ["-m", paying_graphs.__name__, server.url, layout, chosen, database, str(folder)]


async def steps_elsewhere(
    server: ServerProcess, layout: str, payments: list[Payment], folder: Path
) -> tuple[int, Any]:
    """Take each step in a process of its own."""
    command = [*python("langgraph.prebuilt"), *command_of(server, layout, payments, folder)]
    for rounds in range(9):
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        if (texts := json.loads(done.stdout)) is not None:
            return rounds, texts
    raise AssertionError("the graph asks again and again")


@pytest.mark.parametrize("steps", [steps_here, steps_elsewhere], ids=["in one process", "in many"])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
async def test_every_payment_is_made_once(
    server: ServerProcess, tmp_path: Path, layout: str, kind: str, beside: bool, steps: Any
) -> None:
    payments = payments_of(kind, beside=beside)

    rounds, texts = await steps(server, layout, payments, tmp_path)

    assert sorted(ledger_of(tmp_path)) == sorted(amount for _, amount in payments)
    assert texts == [f"paid {amount}" for _, amount in payments]
    assert rounds == rounds_of(layout, payments, kind)


async def in_tool_node(
    server: ServerProcess,
    payments: list[Payment],
    folder: Path,
    use: Any,
    layout: str = "tool_node",
) -> Any:
    return await opened(server.url, layout, payments, str(folder / "state.db"), use)


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        ({"call_0": {"decision": "approve"}, "call_1": {"decision": "reject"}}, ["paid 1", "not"]),
        ([{"decision": "reject"}, {"decision": "edit", "args": {"amount": 7}}], ["not", "paid 7"]),
        (True, ["paid 1", "paid 20"]),
        ({"decision": "reject"}, ["not", "not"]),
    ],
)
async def test_several_approvals_are_one_interrupt_and_each_has_its_answer(
    server: ServerProcess, tmp_path: Path, answer: Any, texts: list[str]
) -> None:
    payments = payments_of("approval", beside=False)[:2]

    async def run(graph: Any) -> tuple[Any, Any]:
        await step(graph, payments, tmp_path)
        (asked,) = (await graph.aget_state(THREAD)).interrupts
        return asked.value, await graph.ainvoke(Command(resume=answer), THREAD)

    value, state = await in_tool_node(server, payments, tmp_path, run)

    assert value["type"] == "mcp_requests"
    assert [one["tool_call_id"] for one in value["requests"]] == ["call_0", "call_1"]
    assert [one["arguments"] for one in value["requests"]] == [{"amount": 1}, {"amount": 20}]
    said = [one.text for one in state["messages"] if one.type == "tool"]
    assert [text if text.startswith("paid") else "not" for text in said] == texts
    amounts = [text.removeprefix("paid ") for text in texts if text.startswith("paid")]
    assert sorted(ledger_of(tmp_path)) == sorted(map(int, amounts))


async def test_what_has_no_answer_is_asked_again_and_nothing_else(
    server: ServerProcess, tmp_path: Path
) -> None:
    payments = payments_of("approval", beside=True)

    async def run(graph: Any) -> list[Any]:
        values: list[Any] = []
        await step(graph, payments, tmp_path)
        for answer in ({"call_1": True}, None, True):
            (asked,) = (await graph.aget_state(THREAD)).interrupts
            values.append(asked.value)
            await graph.ainvoke(None if answer is None else Command(resume=answer), THREAD)
        assert not (await graph.aget_state(THREAD)).interrupts
        return values

    first, second, third = await in_tool_node(server, payments, tmp_path, run)

    assert [one["tool_call_id"] for one in first["requests"]] == ["call_1", "call_3"]
    assert (second["type"], second["tool_call_id"]) == ("mcp_approval", "call_3")
    assert "resume with" in second["problem"]
    assert third == second
    assert sorted(ledger_of(tmp_path)) == [1, 20, 300, 4000]


async def test_equal_calls_are_as_many_calls_as_there_are(
    server: ServerProcess, tmp_path: Path
) -> None:
    payments: list[Payment] = [("pay", 5), ("pay", 5), ("pay_approved", 5), ("pay_approved", 5)]
    for layout in ("tool_node", "one_after_the_other"):
        folder = tmp_path / layout
        folder.mkdir()
        _, texts = await steps_here(server, layout, payments, folder)
        assert texts == ["paid 5"] * 4

    assert ledger_of(tmp_path) == [5] * 8


def calls_of_one_id(tools: Any, orders: list[list[int]], *, at_once: bool) -> Any:
    """A node whose calls have one id, and another order in each of its runs."""
    rounds = iter(orders)

    async def node(state: paying_graphs.Paid) -> paying_graphs.Paid:
        async def pay(amount: int) -> str:
            name = "pay_approved" if amount < 300 else "pay"
            call = {"type": "tool_call", "id": "1", "name": name, "args": {"amount": amount}}
            return (await tools[name].ainvoke(call)).text

        order = next(rounds)
        if at_once:
            made = await asyncio.gather(*map(pay, order))
        else:
            made = [await pay(amount) for amount in order]
        return {"texts": [text for _, text in sorted(zip(order, made, strict=True))]}

    return node


async def test_calls_of_one_id_are_told_apart_by_their_arguments(
    server: ServerProcess, tmp_path: Path
) -> None:
    orders = [[1, 20, 300, 4000], [4000, 300, 20, 1]]

    async def use(tools: dict[str, Any], saver: Any) -> Any:
        node = calls_of_one_id(tools, orders, at_once=True)
        graph = paying_graphs.compiled(paying_graphs.Paid, node, saver)
        assert await step(graph, [], tmp_path) is None
        (asked,) = (await graph.aget_state(THREAD)).interrupts
        answers = [one["arguments"]["amount"] == 1 for one in asked.value["requests"]]
        return await graph.ainvoke(Command(resume=answers), THREAD)

    state = await with_tools(server.url, str(tmp_path / "state.db"), use)

    assert state["texts"][0] == "paid 1"
    assert "not approved" in state["texts"][1]
    assert state["texts"][2:] == ["paid 300", "paid 4000"]
    assert sorted(ledger_of(tmp_path)) == [1, 300, 4000]


@pytest.mark.parametrize("layout", ["tool_node", "one_after_the_other"])
async def test_calls_that_version_0_1_recorded_are_not_made_again(
    server: ServerProcess, tmp_path: Path, layout: str
) -> None:
    def key_of_version_0_1(task: Any, call: ToolCall) -> str:
        key = f"{call.where} {call.call_id or graph_task.digest(call.arguments)} 0"
        task._order[key] = len(task._order)
        return key

    payments: list[Payment] = [("pay", 1), ("pay_approved", 20)]

    async def run(graph: Any) -> Any:
        with pytest.MonkeyPatch.context() as earlier:
            earlier.setattr(graph_task.GraphTask, "_key_of", key_of_version_0_1)
            assert await step(graph, payments, tmp_path) is None
        return await step(graph, payments, tmp_path)

    assert await opened(server.url, layout, payments, str(tmp_path / "state.db"), run) == [
        "paid 1",
        "paid 20",
    ]
    assert ledger_of(tmp_path) == [1, 20]


async def test_a_call_of_which_nobody_can_tell_whether_it_was_made_is_refused(
    server: ServerProcess, tmp_path: Path
) -> None:
    orders = [[300, 4000, 1, 500], [500, 300, 4000, 1]]

    async def use(tools: dict[str, Any], saver: Any) -> Any:
        node = calls_of_one_id(tools, orders, at_once=False)
        graph = paying_graphs.compiled(paying_graphs.Paid, node, saver)
        assert await step(graph, [], tmp_path) is None
        return await step(graph, [], tmp_path)

    texts = await with_tools(server.url, str(tmp_path / "state.db"), use)

    assert texts[:2] == ["paid 1", "paid 300"]
    assert "give each call an id of its own" in texts[2]
    assert texts[3] == "paid 4000"
    assert sorted(ledger_of(tmp_path)) == [1, 300, 4000]


async def test_no_call_is_forgotten_while_many_tasks_wait(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 9
    all_are_there = asyncio.Barrier(count)
    begun: list[None] = []

    async def use(tools: dict[str, Any], saver: Any) -> Any:
        async def node(state: paying_graphs.Paid) -> dict[str, Any]:
            begun.append(None)
            await tools["pay"].ainvoke({"amount": 1})
            if len(begun) <= count:
                await all_are_there.wait()
            await tools["pay"].ainvoke({"amount": 1})
            interrupt("go on?")
            return {}

        builder: Any = StateGraph(paying_graphs.Paid)
        builder.add_node("pay", node)
        sent = [Send("pay", {"texts": [str(one)]}) for one in range(count)]
        builder.add_conditional_edges(START, lambda _: sent)
        graph = builder.compile(checkpointer=saver)
        with monkeypatch.context() as patched:
            patched.setattr(graph_task, "MAX_ENDED_TASKS", 2)
            waiting = (await graph.ainvoke({"texts": []}, THREAD))["__interrupt__"]
        await graph.ainvoke(Command(resume={one.id: True for one in waiting}), THREAD)

    await with_tools(server.url, str(tmp_path / "state.db"), use)

    assert ledger_of(tmp_path) == [1] * 2 * count


async def test_tasks_that_have_ended_leave_the_memory(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_task, "MAX_ENDED_TASKS", 3)
    monkeypatch.setattr(graph_task, "_tasks", {})
    monkeypatch.setattr(graph_task, "_kept_tasks", 0)

    async def use(tools: dict[str, Any], _: Any) -> None:
        graph = paying_graphs.one_after_the_other(tools, [("pay", 1)], InMemorySaver())
        for number in range(16):
            await graph.ainvoke({"texts": []}, {"configurable": {"thread_id": f"{number}"}})
            if number == 11:
                gc.collect()  # LangGraph leaves its tasks in cycles

    await with_tools(server.url, str(tmp_path / "state.db"), use)

    assert len(graph_task._tasks) < 9  # pyright: ignore[reportPrivateUsage]


async def test_calls_of_a_busy_loop_ask_together(server: ServerProcess, tmp_path: Path) -> None:
    first_is_made = asyncio.Event()

    def leave_to_the_graph(_: object) -> None:
        first_is_made.set()
        time.sleep(0.1)  # nothing else runs between the call and its question

    servers: Any = {"till": {"url": server.url}}
    async with MultiServerMCPClient(
        servers, policy=paying_graphs.POLICY, on_approval=leave_to_the_graph
    ) as client:
        (pay,) = [one for one in await client.get_tools() if one.name == "pay_approved"]

        async def pay_after_the_first(amount: int) -> str:
            await first_is_made.wait()
            return await pay.ainvoke({"amount": amount})

        async def node(_: Any) -> Any:
            texts = await asyncio.gather(pay.ainvoke({"amount": 1}), pay_after_the_first(20))
            return {"texts": texts}

        graph = paying_graphs.compiled(paying_graphs.Paid, node, InMemorySaver())
        await graph.ainvoke({"texts": []}, THREAD)
        (asked,) = (await graph.aget_state(THREAD)).interrupts

    assert len(asked.value["requests"]) == 2


@pytest.mark.parametrize("way", ["here", "elsewhere"])
async def test_a_call_that_outlasts_the_interrupt_is_waited_for_or_reported(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(graph_task, "SIBLING_SECONDS", 0.1)
    payments: list[Payment] = [("pay_later", 1), ("pay_approved", 20)]

    async def run(graph: Any) -> Any:
        assert await step(graph, payments, tmp_path) is None
        if way == "elsewhere":
            return None
        resumed = asyncio.create_task(step(graph, payments, tmp_path))
        await eventually(lambda: ledger_of(tmp_path) == [1, 20])
        (tmp_path / OPEN).touch()
        return await resumed

    texts = await in_tool_node(server, payments, tmp_path, run)
    if way == "elsewhere":
        (tmp_path / OPEN).touch()
        _, texts = await steps_elsewhere(server, "tool_node", payments, tmp_path)
        assert "its result is not known" in texts[0]
        assert texts[1:] == ["paid 20"]
    else:
        assert texts == ["paid 1", "paid 20"]
    assert ledger_of(tmp_path) == [1, 20]


async def test_a_call_whose_process_was_killed_is_not_made_again(
    server: ServerProcess, tmp_path: Path
) -> None:
    payments: list[Payment] = [("pay_later", 1)]
    command = command_of(server, "tool_node", payments, tmp_path)
    killed = await asyncio.create_subprocess_exec(sys.executable, *command)
    await eventually(lambda: ledger_of(tmp_path) == [1], timeout_seconds=60)
    killed.kill()
    await killed.wait()
    (tmp_path / OPEN).touch()

    async def run(graph: Any) -> Any:
        return await graph.ainvoke(None, THREAD)

    state = await in_tool_node(server, payments, tmp_path, run)

    assert "its result is not known" in state["messages"][-1].text
    assert state["messages"][-1].artifact["error"]["error"] == "OutcomeUnknownError"
    assert ledger_of(tmp_path) == [1]


async def test_interrupts_of_the_users_own_repeat_no_call(
    server: ServerProcess, tmp_path: Path
) -> None:
    asked: list[Any] = []

    async def use(tools: dict[str, Any], saver: Any) -> list[str]:
        async def node(state: paying_graphs.Paid) -> paying_graphs.Paid:
            before = interrupt("before")
            first = await tools["pay"].ainvoke({"amount": 1})
            between = interrupt("between")
            second = await tools["pay_approved"].ainvoke({"amount": 20})
            after = interrupt("after")
            return {"texts": [before, first, between, second, after]}

        graph = paying_graphs.compiled(paying_graphs.Paid, node, saver)
        given: Any = {"texts": []}
        while waiting := (await graph.ainvoke(given, THREAD)).get("__interrupt__"):
            (value,) = [one.value for one in waiting]
            asked.append(value if isinstance(value, str) else value["type"])
            given = Command(resume=True if isinstance(value, dict) else f"answer {value}")
        return (await graph.aget_state(THREAD)).values["texts"]

    texts = await with_tools(server.url, str(tmp_path / "state.db"), use)

    assert asked == ["before", "between", "mcp_approval", "after"]
    assert texts == ["answer before", "paid 1", "answer between", "paid 20", "answer after"]
    assert ledger_of(tmp_path) == [1, 20]


async def test_a_node_that_is_tried_again_repeats_no_call(
    server: ServerProcess, tmp_path: Path
) -> None:
    tries: list[None] = []

    async def use(tools: dict[str, Any], saver: Any) -> Any:
        async def node(state: paying_graphs.Paid) -> paying_graphs.Paid:
            call = {"type": "tool_call", "id": "1", "name": "pay", "args": {"amount": 1}}
            message = await tools["pay"].ainvoke(call)
            tries.append(None)
            if len(tries) < 3:
                raise ConnectionError
            return {"texts": [message.text]}

        builder: Any = StateGraph(paying_graphs.Paid)
        policy = RetryPolicy(max_attempts=3, initial_interval=0.01, jitter=False)
        builder.add_node("pay", node, retry_policy=policy)
        builder.add_edge(START, "pay")
        return await builder.compile(checkpointer=saver).ainvoke({"texts": []}, THREAD)

    state = await with_tools(server.url, str(tmp_path / "state.db"), use)

    assert (state["texts"], len(tries)) == (["paid 1"], 3)
    assert ledger_of(tmp_path) == [1]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_blocking_code_asks_once_for_all_calls_too(
    server: ServerProcess, tmp_path: Path, durability: Any
) -> None:
    payments = payments_of("approval", beside=True)
    servers: Any = {"till": {"url": server.url}}
    with (
        MultiServerMCPClient(servers, policy=paying_graphs.POLICY) as client,
        SqliteSaver.from_conn_string(str(tmp_path / "state.db")) as saver,
    ):
        tools = {tool.name: tool for tool in client.get_tools_blocking()}
        graph = paying_graphs.tool_node(tools, payments, saver)
        message: Any = {"messages": [paying_graphs.message_of(payments)]}
        state = graph.invoke(message, THREAD, durability=durability)
        (asked,) = state["__interrupt__"]
        state = graph.invoke(Command(resume=True), THREAD, durability=durability)

    assert len(asked.value["requests"]) == 2
    assert [one.text for one in state["messages"] if one.type == "tool"] == [
        f"paid {amount}" for _, amount in payments
    ]
    assert sorted(ledger_of(tmp_path)) == [1, 20, 300, 4000]


class NothingRuns(dict[Any, Any]):
    """What a process knows of the calls of other processes."""

    def get(self, key: Any, default: Any = None) -> Any:
        return default


@pytest.mark.parametrize("workers", ["tasks", "processes"])
async def test_an_answer_that_is_given_twice_at_once_is_one_payment(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    """As when a person clicks twice, and two workers resume the graph."""
    if workers == "processes":
        monkeypatch.setattr(graph_task, "_running", NothingRuns())
    payments: list[Payment] = [("pay_approved", 1), ("pay", 20)]
    database = str(tmp_path / "state.db")

    async def resume(graph: Any) -> Any:
        return await graph.ainvoke(Command(resume=True), THREAD)

    async def run(graph: Any) -> list[Any]:
        assert await step(graph, payments, tmp_path) is None
        opening = (opened(server.url, "tool_node", payments, database, resume) for _ in range(3))
        return await asyncio.gather(*opening)

    states = await in_tool_node(server, payments, tmp_path, run)

    texts = {one.text for state in states for one in state["messages"] if one.type == "tool"}
    assert "paid 20" in texts
    if workers == "tasks":
        assert texts == {"paid 1", "paid 20"}
        assert sorted(ledger_of(tmp_path)) == [1, 20]
    else:  # those that see each other both leave it
        assert sorted(ledger_of(tmp_path)) in ([1, 20], [20])
        others = texts - {"paid 1", "paid 20"}
        assert all("its result is not known" in text for text in others)


class Held(InMemorySaver):
    """Stores that a call is sent only when another run comes to send it too."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0
        self.rival = asyncio.Event()

    async def aput_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        for _, value in writes:
            if isinstance(value, dict) and cast("Any", value).get("kind") == "sent":
                self.sent += 1
                if self.sent > 1:
                    self.rival.set()
                await self.rival.wait()
        await super().aput_writes(config, writes, task_id, task_path)


async def test_of_two_runs_in_one_process_only_the_first_comes_to_send_a_call(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = Held()
    payments: list[Payment] = [("pay_approved", 1)]

    class Running(WeakValueDictionary[Any, Any]):
        def get(self, key: Any, default: Any = None) -> Any:
            if (found := super().get(key, default)) is not None:
                saver.rival.set()
            return found

    monkeypatch.setattr(graph_task, "_running", Running())

    async def use(tools: dict[str, Any], _: Any) -> list[Any]:
        graph = paying_graphs.tool_node(tools, payments, saver)
        assert await step(graph, payments, tmp_path) is None
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(graph.ainvoke(Command(resume=True), THREAD))
            await eventually(lambda: saver.sent == 1)
            second = tasks.create_task(graph.ainvoke(Command(resume=True), THREAD))
        return [first.result(), second.result()]

    states = await with_tools(server.url, str(tmp_path / "state.db"), use)

    assert [state["messages"][-1].text for state in states] == ["paid 1", "paid 1"]
    assert saver.sent == 1
    assert ledger_of(tmp_path) == [1]


async def test_a_state_that_is_edited_while_the_graph_waits_repeats_only_calls_that_changed(
    server: ServerProcess, tmp_path: Path
) -> None:
    first: list[Payment] = [("pay", 1), ("pay", 20), ("pay_approved", 300), ("pay_later", 4000)]
    edited: list[Payment] = [("pay", 1), ("pay", 25), ("pay_approved", 350), ("pay_later", 4000)]

    async def use(tools: dict[str, Any], saver: Any) -> Any:
        graph = paying_graphs.tool_node(tools, first, saver)
        message = paying_graphs.message_of(first)
        message.id = "calls"
        await graph.ainvoke({"messages": [message]}, THREAD)
        changed = paying_graphs.message_of(edited)
        changed.id = "calls"
        for _ in range(2):  # the second time as if somebody looks and saves it again
            await graph.aupdate_state(THREAD, {"messages": [changed]}, as_node="__start__")
        await graph.ainvoke(None, THREAD)
        return await graph.ainvoke(Command(resume=True), THREAD)

    (tmp_path / OPEN).touch()
    state = await with_tools(server.url, str(tmp_path / "state.db"), use)

    texts = [one.text for one in state["messages"] if one.type == "tool"]
    assert texts == ["paid 1", "paid 25", "paid 350", "paid 4000"]
    assert sorted(ledger_of(tmp_path)) == [1, 20, 25, 350, 4000]


async def test_equal_calls_of_several_tasks_are_made_again_after_an_edit(
    server: ServerProcess, tmp_path: Path
) -> None:
    """Nobody could tell which of them was made by which task."""
    ids = ["a", "b"]

    async def use(tools: dict[str, Any], saver: Any) -> Any:
        async def node(state: paying_graphs.Paid) -> paying_graphs.Paid:
            await tools["pay"].ainvoke({"amount": 1})
            call = {"type": "tool_call", "id": state["texts"][0], "name": "pay"}
            await tools["pay"].ainvoke({**call, "args": {"amount": 20}})
            return {"texts": [interrupt("go on?")]}

        builder: Any = StateGraph(paying_graphs.Paid)
        builder.add_node("pay", node)
        sent = [Send("pay", {"texts": [one]}) for one in ids]
        builder.add_conditional_edges(START, lambda _: sent)
        graph = builder.compile(checkpointer=saver)
        await graph.ainvoke({"texts": []}, THREAD)
        await graph.aupdate_state(THREAD, {"texts": []}, as_node="__start__")
        await graph.ainvoke(None, THREAD)

    await with_tools(server.url, str(tmp_path / "state.db"), use)

    assert sorted(ledger_of(tmp_path)) == [1, 1, 1, 1, 20, 20]


async def test_a_run_that_is_cancelled_while_it_waits_for_a_call_leaves_the_call_alone(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_task, "SIBLING_SECONDS", 0.1)
    payments: list[Payment] = [("pay_later", 1), ("pay_approved", 20)]

    async def run(graph: Any) -> Any:
        assert await step(graph, payments, tmp_path) is None
        resumed = asyncio.create_task(step(graph, payments, tmp_path))
        await eventually(lambda: ledger_of(tmp_path) == [1, 20])
        resumed.cancel()
        await asyncio.wait([resumed])
        (tmp_path / OPEN).touch()
        return await graph.ainvoke(None, THREAD)

    state = await in_tool_node(server, payments, tmp_path, run)

    # The result of the other payment may have been on its way when its run was cancelled.
    assert next(one.text for one in state["messages"] if one.type == "tool") == "paid 1"
    assert ledger_of(tmp_path) == [1, 20]


async def pay_in_a_subgraph_that_is_retried(tools: Any) -> None:
    tries: list[None] = []

    async def inner(_: paying_graphs.Paid) -> paying_graphs.Paid:
        await tools["pay"].ainvoke({"amount": 1})
        tries.append(None)
        if len(tries) < 2:
            raise ConnectionError
        return {"texts": []}

    builder: Any = StateGraph(paying_graphs.Paid)
    policy = RetryPolicy(max_attempts=2, initial_interval=0.01, jitter=False)
    builder.add_node("pay", inner, retry_policy=policy)
    builder.add_edge(START, "pay")
    subgraph = builder.compile()

    async def outer(_: paying_graphs.Paid) -> Any:
        return await subgraph.ainvoke({"texts": []})

    graph = paying_graphs.compiled(paying_graphs.Paid, outer, InMemorySaver())
    await graph.ainvoke({"texts": []}, THREAD)
    assert len(tries) == 2


async def pay_in_a_subgraph_whose_state_is_edited(tools: Any) -> None:
    async def inner(_: paying_graphs.Paid) -> paying_graphs.Paid:
        await tools["pay"].ainvoke({"amount": 1})
        interrupt("go on?")
        return {"texts": []}

    subgraph = paying_graphs.compiled(paying_graphs.Paid, inner)
    graph = paying_graphs.compiled(paying_graphs.Paid, subgraph, InMemorySaver())
    await graph.ainvoke({"texts": []}, THREAD)
    (task,) = (await graph.aget_state(THREAD, subgraphs=True)).tasks
    await graph.aupdate_state(task.state.config, {"texts": ["edited"]}, as_node="__start__")
    await graph.ainvoke(None, THREAD)
    await graph.ainvoke(Command(resume=True), THREAD)


async def pay_in_a_thread_with_the_context(tools: Any) -> None:
    def node(_: paying_graphs.Paid) -> paying_graphs.Paid:
        with ThreadPoolExecutor() as threads:
            threads.submit(copy_context().run, tools["pay"].invoke, {"amount": 1}).result()
        interrupt("go on?")
        return {"texts": []}

    graph = paying_graphs.compiled(paying_graphs.Paid, node, InMemorySaver())
    await graph.ainvoke({"texts": []}, THREAD)
    await graph.ainvoke(Command(resume=True), THREAD)


@pytest.mark.parametrize(
    "pay",
    [
        pay_in_a_subgraph_that_is_retried,
        pay_in_a_subgraph_whose_state_is_edited,
        pay_in_a_thread_with_the_context,
    ],
)
async def test_what_the_page_advises_makes_each_payment_once(
    server: ServerProcess, tmp_path: Path, pay: Any
) -> None:
    async def use(tools: dict[str, Any], _: Any) -> None:
        await pay(tools)

    await with_tools(server.url, str(tmp_path / "state.db"), use)

    assert ledger_of(tmp_path) == [1]
