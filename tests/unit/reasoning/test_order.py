"""Calls of one session run in order, those of different sessions at the same time."""

from __future__ import annotations

import anyio
import pytest
from sqlalchemy import select

from plait.reasoning.backends.port import Completion, Prompt, ScriptedCompleter
from plait.reasoning.prompts import BUDGET_TOKENS, estimated_tokens, within_budget
from plait.reasoning.reasoner import Reasoner
from plait.reasoning.results import result_data
from plait.reasoning.storage import tables
from plait.reasoning.storage.sql import SqlStorage
from plait.reasoning.values import Changes, Invocation, Thought
from tests.unit.reasoning.conftest import Desk

pytestmark = pytest.mark.anyio


class Gate:
    """A model that answers when it is told to."""

    name = "gate"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.arrived = anyio.Event()
        self.open_gate = anyio.Event()

    def describe(self) -> str:
        return "a gate"

    async def open(self) -> None: ...

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt.user.splitlines()[-1])
        self.arrived.set()
        await self.open_gate.wait()
        return Completion(text='{"thought": "said", "confidence": 0.5}')

    async def aclose(self) -> None: ...


async def test_calls_of_one_session_wait_for_each_other(desk: Desk) -> None:
    gate = Gate()
    reasoner = Reasoner(desk.store, gate)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for text in ("first", "second"):
                arguments = {"content": text, "session_id": "s"}
                group.start_soon(reasoner.call, "reasoning_linear", arguments)
                await gate.arrived.wait()
            group.start_soon(
                reasoner.call, "reasoning_linear", {"content": "other", "session_id": "t"}
            )
            while "other" not in gate.asked:
                await anyio.lowlevel.checkpoint()
            assert gate.asked == ["first", "other"]
            gate.open_gate.set()

    assert gate.asked == ["first", "other", "second"]
    assert len(await desk.store.get_session_thoughts("s")) == 2


async def test_a_cancelled_call_writes_nothing_and_lets_the_next_one_in(desk: Desk) -> None:
    gate = Gate()
    reasoner = Reasoner(desk.store, gate)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            arguments = {"content": "x", "session_id": "s"}
            group.start_soon(reasoner.call, "reasoning_linear", arguments)
            await gate.arrived.wait()
            group.cancel_scope.cancel()
        assert await desk.store.get_session("s") is None
        gate.open_gate.set()
        await reasoner.call("reasoning_linear", {"content": "y", "session_id": "s"})

    assert len(await desk.store.get_session_thoughts("s")) == 1


async def test_a_call_begins_again_when_another_process_was_faster(desk: Desk) -> None:
    other = Reasoner(SqlStorage(desk.store.database), desk.reasoner.completer)
    await desk("linear", content="begin", session_id="s")
    asked = 0

    async def interfere(prompt: Prompt) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            await other.call("reasoning_linear", {"content": "in between", "session_id": "s"})

    class Interrupted(ScriptedCompleter):
        async def complete(self, prompt: Prompt) -> Completion:
            await interfere(prompt)
            return await super().complete(prompt)

    reasoner = Reasoner(desk.store, Interrupted(lambda _: {"thought": "t", "confidence": 0.5}))

    result = result_data(
        await reasoner.call("reasoning_linear", {"content": "x", "session_id": "s"})
    )

    thoughts = await desk.store.get_session_thoughts("s")
    assert [one.content for one in thoughts] == ["begin", "in between", "t"]
    assert result["previous_thought"] == thoughts[1].id
    assert asked == 2
    noted = await desk.store.read_all(Invocation, select(tables.invocations))
    assert [one.backend for one in noted if one.pipe_name is not None] == ["scripted"]
    await other.store.aclose()


async def test_a_call_that_begins_again_asks_the_model_nothing_twice(desk: Desk) -> None:
    await desk("linear", content="begin", session_id="s")
    asked: list[str] = []

    class Interrupted(ScriptedCompleter):
        async def complete(self, prompt: Prompt) -> Completion:
            asked.append(prompt.user)
            session = await desk.store.get_session("s")
            await desk.store.write(Changes(session=session))  # changes nothing but its version
            return await super().complete(prompt)

    reasoner = Reasoner(desk.store, Interrupted(lambda _: {"thought": "t", "confidence": 0.5}))

    await reasoner.call("reasoning_linear", {"content": "x", "session_id": "s"})

    assert len(asked) == 1
    assert [one.content for one in await desk.store.get_session_thoughts("s")] == ["begin", "t"]


def test_a_model_sees_the_first_thought_and_as_many_of_the_last_as_fit() -> None:
    thoughts = [
        Thought(session_id="s", mode="linear", content=f"{number} " + "x" * 2000)
        for number in range(100)
    ]

    shown = within_budget(thoughts[0], thoughts[-30:], most=30, budget=BUDGET_TOKENS)

    assert shown[0] is thoughts[0]
    assert shown[1:] == thoughts[100 - len(shown) + 1 :]
    assert 2 < len(shown) < 12
    assert sum(estimated_tokens(one.content) for one in shown) <= BUDGET_TOKENS
    assert within_budget(None, [], most=30, budget=10) == []
    assert within_budget(thoughts[0], thoughts[:1], most=30, budget=10) == [thoughts[0]]


async def test_what_a_model_is_asked_does_not_grow_with_the_session(desk: Desk) -> None:
    for number in range(60):
        await desk("linear", content=f"thought {number} " + "x" * 500, session_id="s")
    desk.script([{"thought": "ok", "confidence": 0.5}])

    await desk("linear", content="next", session_id="s")

    (prompt,) = desk.completer.prompts
    assert estimated_tokens(prompt.user) <= BUDGET_TOKENS + 200
    assert "thought 0 " in prompt.user
    assert "thought 59 " in prompt.user
