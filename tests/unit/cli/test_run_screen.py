"""A run as somebody sees it who watches."""

from __future__ import annotations

import re

from rich.console import Console, RenderableType

from plait.cli.terminal import progress_label
from plait.cli.trace_view import Activity, live_view, summary_line
from plait.traces.messages.content import ToolUseContent
from plait.traces.messages.message import Message, UsageMetadata
from plait.traces.recorder import Recorder


def drawn(*parts: RenderableType, width: int = 60) -> list[str]:
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    return [line.rstrip() for line in captured.get().splitlines()]


def recorded() -> Recorder:
    recorder = Recorder(run="r1")
    recorder.run_started(
        [Message.user("Pay!")],
        interface="langchain",
        servers=["bank", "shop"],
        tools=["bank/pay", "shop/list"],
    )
    call = ToolUseContent("c1", "pay", {"amount": 5, "to": "b" * 80})
    said = Message.assistant("I pay what is due, and say so in as many words as it takes.", [call])
    recorder.turn(said, usage=UsageMetadata(10, 5, 15))
    recorder.tool_called("c1", "pay", call.input, server="bank", tool="pay")
    recorder.retry("bank", "pay", 2, reason="connection lost")
    recorder.heal("bank", reason="exited")
    recorder.tool_returned("c1", "no\x1b[2J money", is_error=True, seconds=1.5)
    recorder.turn(Message.assistant("There is no money."))
    return recorder


def test_each_event_is_a_line_and_the_answer_is_left_to_others() -> None:
    trace = recorded().ended()

    lines = [line for event in trace.events for line in drawn(*live_view(event))]

    assert [re.sub(r"^ +[\d.]+ s ", "T ", line) for line in lines] == [
        "tools: 2 tools of bank and shop",
        "T turn 1  10 + 5 tokens · cost unknown",
        "           I pay what is due, and say so in as many words as",
        "           it takes.",
        'T → bank/pay  {"amount": 5, "to": "bbbbbbbbbbbbbbb…',
        "T retry bank/pay  attempt 2, connection lost",
        "T healed bank  exited",
        "T ✗ pay  1.50 s",
        "           no\\x1b[2J money",
        "T turn 2",
    ]


def test_the_end_is_one_line_with_the_numbers_and_the_file() -> None:
    trace = recorded().ended("limit", usage=UsageMetadata(20, 4, 24, 0.0012))

    (line,) = drawn(summary_line(trace, "runs.jsonl"), width=200)

    assert line.startswith("limit  2 turns · 1 tool call · 20 + 4 tokens · $0.0012 · ")
    assert line.endswith(" · trace runs.jsonl")


def test_it_is_said_what_a_run_waits_for() -> None:
    now = 0.0
    activity = Activity(["bank", "shop"], lambda: now)
    seen = [str(activity.view())]
    for event in recorded().ended().events:
        activity.handle(event)
        activity.progress("bank/pay", progress_label(1, 3, "counting"))
        now += 1
        seen.append(str(activity.view()))

    assert [one[2:].split(" …")[0] for one in seen[:-1]] == [
        "connecting to bank and shop",
        "waiting for the model",
        "waiting for the model",
        "calling bank/pay",
        "calling bank/pay",
        "calling bank/pay",
        "waiting for the model",
        "waiting for the model",
    ]
    assert seen[3].endswith("… 1 s  1 of 3 counting")
    assert seen[-1] == "None"


def test_progress_is_told_with_what_is_known() -> None:
    assert [progress_label(2, 5, "reading"), progress_label(2, None, None)] == [
        "2 of 5 reading",
        "2",
    ]
