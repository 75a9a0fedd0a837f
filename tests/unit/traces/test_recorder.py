"""The recorder: what engines tell it comes out in order, with parents, times and no secrets."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import anyio

from plait._support.redact import Redactor
from plait.errors import ConnectError
from plait.html.steps import steps_of
from plait.traces.codec import event_from_line, line_from_event
from plait.traces.events import KINDS, Delta, RunEnded, ToolReturned, TraceEvent
from plait.traces.messages.message import Message, ToolUseContent, UsageMetadata
from plait.traces.recorder import Recorder, hash_question
from plait.traces.trace import NO_RESPONSE
from tests.unit.traces.runs import QUESTION, Lines, begun


def _written(sink: Lines) -> list[dict[str, Any]]:
    return [json.loads(line) for line in sink.data.splitlines()]


def test_events_are_numbered_follow_from_each_other_and_say_version_run_and_times() -> None:
    sink = Lines()
    recorder = begun(sink)
    recorder.turn(Message.assistant("21 °C."), usage=UsageMetadata(20, 4, 24))
    recorder.ended()

    told = [(one["id"], one["event"], one.get("parent")) for one in _written(sink)]

    assert told == [
        *((0, "run", None), (1, "turn", 0), (2, "tool_call", 1), (3, "tool_call", 1)),
        *((4, "tool_result", 3), (5, "retry", 2), (6, "heal", 2), (7, "tool_result", 2)),
        *((8, "turn", 0), (9, "end", 0)),
    ]

    first, second, *_ = _written(sink)
    assert (first["v"], first["run"]) == (1, "r1")
    assert first["time"] == "2026-02-03T04:05:07.000Z"
    assert second["at"] > first["at"] > 0
    assert first["question_hash"] == hash_question(QUESTION)
    assert hash_question("a") == "0cc175b9c0f1b6a831c399e269772661"


def test_an_answer_knows_the_tool_and_the_time_of_its_call() -> None:
    called, answered = begun().trace.calls[0]

    assert answered is not None
    assert (answered.server, answered.tool, answered.name) == ("weather", "now", "now")
    assert answered.seconds is not None
    assert 0 < answered.seconds <= answered.at - called.at
    assert answered.attempts == 2


def test_waiting_for_a_person_is_no_time_of_the_tool() -> None:
    recorder = begun()
    recorder.tool_called("c8", "book", {}, server="trains", tool="book")
    recorder.approval("trains", "book", "approve", "rule 1", by="person", call_id="c8", seconds=0.5)
    asked = recorder.elicitation("trains", "Which seat?", "accept", seconds=2.25)
    returned = recorder.tool_returned("c8", "booked")

    assert returned.waited_seconds == 2.75
    assert asked.seconds == 2.25
    called = next(call for call, _ in recorder.trace.calls if call.call_id == "c8")
    assert returned.seconds is not None
    assert returned.at - called.at - 2.75 - 1 <= returned.seconds <= returned.at - called.at - 2.75
    (step,) = [one for one in steps_of(recorder.trace) if one.event is called]
    (wait,) = [one for one in steps_of(recorder.trace) if one.event is asked]
    assert step.end == called.at + returned.seconds + 2.75
    assert (wait.start, wait.end) == (asked.at - 2.25, asked.at)

    # It is not counted for calls that may not have waited.
    for call_id in ("c8", "c9"):
        recorder.tool_called(call_id, "book", {}, server="trains", tool="book")
    recorder.elicitation("trains", "Which seat?", "accept", seconds=2.25)
    both = [recorder.tool_returned(call_id, "booked") for call_id in ("c8", "c9")]
    assert [one.waited_seconds for one in both] == [None, None]


def test_what_is_written_is_what_is_read() -> None:
    sink = Lines()
    recorder = begun(sink)
    recorder.elicitation("weather", "May I?", "accept", call_id="c9")
    recorder.approval(
        "weather", "now", "edit", "rule 1", by="person", arguments={"city": "Ulm"}, call_id="c1"
    )
    recorder.tool_returned("c9", "a picture", images=[("image/png", "QUJD")])
    recorder.model_retry(2, reason="529", delay_seconds=0.5)
    recorder.summary("So far.", usage=UsageMetadata(1, 2, 3))
    recorder.run_started([], interface="x", definitions={"a/b": ("b", "Does b.", {})})
    recorder.delta("call", "{}", call_id="c9", name="w")
    recorder.failed(ConnectError("weather: gone", server="weather"))
    trace = recorder.ended("failed", session_id="s", actual_model="m")

    read = [event_from_line(line) for line in sink.data.splitlines()]

    assert tuple(read) == trace.events
    assert {event.kind for event in trace.events} == set(KINDS)


def test_the_end_follows_from_the_turns_and_of_a_stopped_run_from_what_was_said_last() -> None:
    recorder = begun()
    recorder.turn(Message.assistant("21 °C."), usage=UsageMetadata(20, 4, 24))

    ended = recorder.ended().ended

    assert ended is not None
    assert (ended.status, ended.final_response, ended.turns) == ("completed", "21 °C.", 2)
    assert ended.usage == UsageMetadata(30, 9, 39)
    assert ended.actual_model == "small-1"
    assert begun().ended("limit").final_response == "I look."
    assert begun().ended("completed").final_response == NO_RESPONSE
    assert Recorder().ended("timeout").final_response == NO_RESPONSE


def test_results_stand_in_the_order_in_which_the_model_asked() -> None:
    assert begun().trace.messages[1:] == [
        Message.tool_result("c1", "21 °C"),
        Message.tool_result("c2", "no such city", is_error=True),
    ]

    # An id that is used in two turns means the call of its turn.
    recorder = Recorder()
    for answer in ("one", "two"):
        recorder.turn(Message.assistant("", [ToolUseContent("c", "t")]))
        recorder.tool_called("c", "t", {})
        recorder.tool_returned("c", answer)

    results = [one.tool_results[0].content for one in recorder.trace.messages if one.tool_results]
    assert results == ["one", "two"]
    # The result of a call that nobody recorded is kept.
    recorder.tool_returned("c", "no such tool", is_error=True, name="t")

    assert recorder.trace.messages[-1] == Message.tool_result("c", "no such tool", is_error=True)


def test_secrets_are_not_written_but_the_result_is_what_was_said() -> None:
    canary = "s3cr3t-canary-value"
    sink = Lines()
    recorder = Recorder(sink, redact=Redactor([canary]))
    recorder.run_started([Message.user(f"use {canary}")], interface="x")
    arguments = {"password": "hunter twelve", "deep": [{canary: canary}]}
    call = ToolUseContent("c", "login", arguments)
    recorder.turn(Message.assistant(f"I got {canary}", [call]))
    recorder.tool_called("c", "login", {"password": "hunter twelve"})
    recorder.tool_returned("c", f'{{"token": "{canary}"}}', notes=[canary])
    recorder.failed(ConnectError(f"refused {canary}", challenge=canary))
    trace = recorder.ended("failed")

    assert canary not in sink.data.decode()
    assert "hunter" not in sink.data.decode()
    assert len(_written(sink)) == 6
    assert trace.final_response == f"I got {canary}"


def test_of_an_object_only_its_type_is_written_as_its_text_may_hold_a_secret() -> None:
    @dataclass
    class Login:
        phrase: str = "hunter twelve"

    sink = Lines()
    recorder = Recorder(sink)
    settings = {"login": Login(), "kind": Lines, "folder": Path("a/b"), "on": date(2026, 11, 20)}
    recorder.run_started([Message.user("x")], interface="x", settings={"extra_kwargs": settings})

    (written,) = _written(sink)
    assert written["settings"]["extra_kwargs"] == {
        "login": "<Login>",
        "kind": "<Lines>",
        "folder": "a/b",
        "on": "2026-11-20",
    }


def test_listeners_hear_each_event_and_cannot_hurt_the_run() -> None:
    heard: list[TraceEvent] = []

    def broken(event: TraceEvent) -> None:
        raise RuntimeError("no")

    recorder = begun(listeners=(broken, heard.append))

    assert tuple(heard) == recorder.trace.events


def test_values_that_json_cannot_hold_are_written_as_text() -> None:
    sink = Lines()
    recorder = Recorder(sink)
    recorder.tool_called("c", "t", {"nan": float("nan"), "set": {1}, "half": "\ud800", "o": Lines})

    (line,) = sink.data.splitlines()
    arguments = json.loads(line)["arguments"]

    assert arguments["nan"] == "nan"
    assert arguments["set"] == [1]
    assert arguments["half"] == "\ud800"

    # A line never contains a line break.
    event = recorder.tool_returned("c", "a\nb\r\u2028c")

    assert line_from_event(event).count(b"\n") == 1
    assert event_from_line(line_from_event(event)) == event


def test_an_event_of_a_kind_that_is_not_known_is_passed_over() -> None:
    assert event_from_line(b'{"v":1,"event":"dream","run":"r","id":0}') is None
    assert RunEnded.kind == "end"


async def _streamed(*parts: str) -> list[str]:
    """Record parts of an answer, and return the texts that listeners got without another event."""
    seen: list[str] = []
    complete = anyio.Event()

    def listen(event: TraceEvent) -> None:
        if isinstance(event, Delta):
            seen.append(event.text)
        if "".join(seen) == "".join(parts):
            complete.set()

    recorder = Recorder(listeners=[listen])
    for part in parts:
        recorder.delta("text", part)
    with anyio.fail_after(5):
        await complete.wait()
    return seen


def test_parts_of_a_stream_that_stalls_are_written() -> None:
    assert anyio.run(_streamed, "one ", "two ", "three") == ["one ", "two three"]


def test_the_bytes_of_an_image_are_kept_once_and_up_to_a_limit() -> None:
    sink = Lines()
    recorder = begun(sink, redact=Redactor(["hunter22"]))
    # In base64, a part of these bytes looks like a key.
    picture = base64.b64encode(bytes(range(256)) * 2000).decode() + "/skAAAAAAAAAAAAAAAAA"
    large = base64.b64encode(bytes(600_000)).decode()
    secret = base64.b64encode(b"PNG hunter22").decode()
    images = [("image/png", data) for data in (picture, picture, large, secret)]

    result = recorder.tool_returned("c3", "four images", images=images)

    assert [image.data for image in result.images] == [picture, None, None, secret]
    assert [image.digest[:4] for image in result.images[:2]] == [result.images[0].digest[:4]] * 2
    written = event_from_line(sink.data.splitlines()[-1])
    assert isinstance(written, ToolReturned)
    assert [image.data for image in written.images] == [picture, None, None, "***"]
    assert [image.size_bytes for image in written.images][2] == 600_000
    assert recorder.trace.images[result.images[0].digest].data == picture

    recorder = begun()
    pictures = [base64.b64encode(bytes([n]) * 500_000).decode() for n in range(20)]

    results = [recorder.tool_returned("c3", "", images=[("image/png", one)]) for one in pictures]

    assert sum(result.images[0].data is not None for result in results) == 16
    sink = Lines()
    begun(sink).tool_returned("c3", "no image")

    assert "images" not in _written(sink)[-1]
