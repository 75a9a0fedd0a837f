"""The stream of the SDK as turns: whole answers, before their calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from plait import AgentConfig, Message, ModelConfig, StaticTool
from plait._support.redact import Redactor
from plait.agents.agent_run import AgentRun, tools_of_run
from plait.agents.engines.claude_agent_sdk.agent import Turns
from plait.agents.engines.claude_agent_sdk.tools import cli_tools
from plait.errors import AgentExecutionError
from plait.traces.events import ToolCalled
from plait.traces.messages.message import UsageMetadata
from plait.traces.recorder import Recorder

pytestmark = pytest.mark.anyio


def run(*, stream: bool = False) -> AgentRun:
    model = ModelConfig(id="m", model_name="m", interface="claude_agent_sdk", max_tokens=99)
    made = AgentRun(
        model, AgentConfig(stream=stream), [Message.user("Q")], Recorder(), Redactor(), None
    )
    made.tools = tools_of_run([StaticTool("twice")], [])
    made.begin("claude_agent_sdk")
    return made


def turns_of(made: AgentRun) -> Turns:
    return Turns(made, cli_tools(made.tools.values()))


def start(message_id: str = "m1", read: int = 10) -> StreamEvent:
    usage = {"input_tokens": read, "output_tokens": 1, "cache_read_input_tokens": 3}
    return event(type="message_start", message={"id": message_id, "model": "c", "usage": usage})


def block(part: TextBlock | ToolUseBlock, message_id: str = "m1") -> AssistantMessage:
    return AssistantMessage([part], "c", message_id=message_id, usage={"output_tokens": 1})


def stop(reason: str = "end_turn") -> list[StreamEvent]:
    usage = {"output_tokens": 5, "input_tokens": None}
    return [
        event(type="message_delta", delta={"stop_reason": reason}, usage=usage),
        event(type="message_stop"),
    ]


def event(**facts: Any) -> StreamEvent:
    return StreamEvent("u", "s", facts)


def wish(call_id: str, name: str = "mcp__plait__twice", **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock(call_id, name, arguments)


def tell(turns: Turns, *messages: object) -> None:
    for message in messages:
        turns.handle(message)


async def test_a_call_waits_for_the_whole_answer_that_asks_for_it() -> None:
    made = run()
    turns = turns_of(made)
    tell(turns, SystemMessage("init", {"session_id": "s1"}), start(), block(TextBlock("Two:")))
    tell(turns, block(wish("a", n=1)))
    waiting = asyncio.create_task(turns.is_recorded("a"))
    await asyncio.sleep(0)
    assert not waiting.done()

    tell(turns, block(wish("b", n=1)), *stop("tool_use"))

    assert await waiting is True
    (said,) = made.recorder.trace.messages
    assert said.text == "Two:"
    assert [(call.id, call.name) for call in said.tool_calls] == [("a", "twice"), ("b", "twice")]
    assert made.recorder.trace.usage == UsageMetadata(10, 5, 15, cache_read_tokens=3)
    assert made.session_id == "s1"


async def test_calls_that_look_the_same_get_ids_of_their_own() -> None:
    turns = turns_of(run())
    first = asyncio.create_task(turns.call_id_for("twice", {"n": 1}))
    await asyncio.sleep(0)
    tell(turns, start(), block(wish("a", n=1)), block(wish("b", n=1)), *stop("tool_use"))

    assert await first == "a"
    turns.claim("a")
    assert await turns.call_id_for("twice", {"n": 1}) == "b"
    turns.claim("b")
    turns.close()
    assert await turns.call_id_for("twice", {"n": 1}) is None


async def test_what_the_command_line_answers_itself_is_recorded() -> None:
    made = run()
    turns = turns_of(made)
    calls = (wish("a", "mcp__plait__gone"), wish("b"), wish("c"))
    tell(turns, start(), *map(block, calls), *stop("tool_use"))
    called = [one for one in made.recorder.trace.events if isinstance(one, ToolCalled)]
    assert [one.call_id for one in called] == ["a"], "the others may yet be called here"

    turns.claim("b")
    results = [ToolResultBlock(name, f"no {name}", is_error=True) for name in ("a", "b", "c", "d")]
    tell(turns, *(UserMessage([one]) for one in results))

    messages = made.recorder.trace.messages
    answers = [answer for one in messages for answer in one.tool_results if answer.content]
    assert [(one.tool_use_id, one.content, one.is_error) for one in answers] == [
        ("a", "no a", True),
        ("c", "no c", True),
    ]


async def test_a_result_that_comes_before_the_end_of_its_answer_is_recorded_after_it() -> None:
    made = run()
    turns = turns_of(made)
    early = UserMessage([ToolResultBlock("a", "no such tool", is_error=True)])
    tell(turns, start(), block(wish("a", "gone")), early, *stop("tool_use"))

    turn, call, result = made.recorder.trace.events[-3:]
    assert (turn.kind, call.kind, result.kind) == ("turn", "tool_call", "tool_result")
    assert made.recorder.trace.messages[-1].tool_results[0].content == "no such tool"


@pytest.mark.parametrize(
    ("said", "reason", "is_over"),
    [
        ([], "end_turn", True),
        ([TextBlock(" ")], "end_turn", True),
        ([TextBlock("cut")], "max_tokens", True),
        ([TextBlock("no")], "refusal", True),
        ([TextBlock("yes")], "end_turn", False),
        ([TextBlock("wait")], "pause_turn", False),
        ([wish("a")], "tool_use", False),
    ],
)
async def test_an_answer_without_calls_is_the_last(
    said: list[Any], reason: str, is_over: bool
) -> None:
    made = run()
    turns = turns_of(made)

    tell(turns, start(), *map(block, said), *stop(reason))
    assert turns.is_over is is_over
    tell(turns, start("m2"), block(TextBlock("more"), "m2"), *stop())

    assert made.recorder.trace.turns == (1 if is_over else 2)


async def test_what_is_streamed_after_the_last_answer_is_not_recorded() -> None:
    made = run(stream=True)
    turns = turns_of(made)
    delta = {"type": "text_delta", "text": "more"}

    tell(turns, start(), block(TextBlock("no")), *stop("refusal"))
    tell(turns, start("m2"), event(type="content_block_delta", index=0, delta=delta))

    assert made.recorder.trace.final_response == "no"


async def test_an_answer_that_was_cut_off_before_it_said_anything_is_no_turn() -> None:
    made = run()
    turns = turns_of(made)

    tell(turns, start(), event(type="message_stop"), start("m2"))
    tell(turns, block(TextBlock("whole"), "m2"), *stop())

    assert made.recorder.trace.messages == [Message.assistant("whole")]


@pytest.mark.parametrize("end", [event(type="message_stop"), start("m2")])
async def test_an_answer_that_was_cut_off_later_ends_the_run(end: StreamEvent) -> None:
    made = run()
    turns = turns_of(made)
    tell(turns, start(), block(wish("a")))
    waiting = asyncio.create_task(turns.is_recorded("a"))
    await asyncio.sleep(0)

    with pytest.raises(AgentExecutionError, match="is incomplete"):
        tell(turns, end)

    assert await waiting is False
    assert made.recorder.trace.turns == 0


async def test_a_call_in_the_middle_of_which_the_answer_ended_is_not_made() -> None:
    made = run()
    turns = turns_of(made)

    tell(turns, start(), block(TextBlock("So:")), block(wish("a")), *stop("max_tokens"))

    assert await turns.is_recorded("a") is False
    assert not turns.is_over
    assert made.recorder.trace.stop_reason == "max_tokens"
    assert not made.recorder.trace.calls


async def test_an_answer_that_is_no_stream_is_one_turn_and_what_nobody_said_is_none() -> None:
    made = run()
    turns = turns_of(made)

    tell(turns, AssistantMessage([TextBlock("API Error")], "<synthetic>", message_id="e"))
    tell(turns, AssistantMessage([TextBlock("sub")], "c", parent_tool_use_id="a"))
    tell(turns, block(TextBlock("whole")))

    assert made.recorder.trace.messages == [Message.assistant("whole")]
    assert made.actual_model == "c"
