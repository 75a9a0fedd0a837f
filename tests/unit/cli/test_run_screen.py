"""A run as somebody sees it who watches."""

from __future__ import annotations

import io
import re
import sys

import pytest
from rich.console import Console, RenderableType

from plait._support.redact import Redactor
from plait.cli.terminal import progress_label
from plait.cli.trace_view import Activity, RunScreen, live_view, run_view, summary_line
from plait.html.conversation import run_section
from plait.traces.messages.message import Message, ToolUseContent, UsageMetadata
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


LOST = (
    f"bank: the answer was lost: {'x' * 200}. It is not known whether the call took effect; "
    "check before you repeat it"
)


def test_that_the_outcome_of_a_call_is_not_known_is_never_cut() -> None:
    recorder = recorded()
    recorder.tool_called("c2", "pay", {}, server="bank", tool="pay")
    recorder.tool_returned("c2", LOST, is_error=True, seconds=1.5)
    trace = recorder.ended()

    live = [line for event in trace.events for line in drawn(*live_view(event))]
    later = drawn(*run_view(trace, full=False))

    for lines in (live, later):
        assert LOST.replace(" ", "") in "".join(lines).replace(" ", "")


def test_an_answer_that_is_stopped_during_a_call_is_printed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    screen = RunScreen(["bank"], Redactor(), shown=True, moving=False)
    recorder = Recorder(run="r1", listeners=[screen.handle])
    recorder.delta("text", "I pay.")
    recorder.turn(Message.assistant("I pay.", [ToolUseContent("c1", "pay", {})]))
    recorder.tool_called("c1", "pay", {}, server="bank", tool="pay")

    assert screen.has_streamed(recorder.trace.response_for("cancelled"))
    assert terminal.getvalue() == "I pay.\n"
    recorder.delta("text", "Done.")
    recorder.turn(Message.assistant("Done."))
    assert screen.has_streamed("Done.")


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


def test_a_client_of_serve_asks_no_model_so_that_no_answer_is_missing() -> None:
    recorder = Recorder(run="r1")
    recorder.run_started([], interface="serve", servers=["shop"], tools=[])
    recorder.tool_called("c1", "shop__list", {}, server="shop", tool="list")
    recorder.tool_returned("c1", "tea", seconds=0.1)
    trace = recorder.ended()

    assert not any("No final response" in line for line in drawn(*run_view(trace, full=False)))
    assert "No final response" not in run_section(trace)
