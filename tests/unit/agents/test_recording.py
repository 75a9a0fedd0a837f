"""The recorder of a run: what leaves its block is recorded, and its file is closed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from plait._support.redact import Redactor
from plait.agents.config import AgentConfig
from plait.agents.live_agent import recorder_for
from plait.traces.events import TraceEvent
from plait.traces.file import read_trace
from plait.traces.messages.message import Message


def _stopped_by(error: BaseException, path: Path) -> None:
    with recorder_for(AgentConfig(trace=path), Redactor(["canary-value"])) as recorder:
        recorder.run_started([Message.user("q")], interface="x")
        recorder.turn(Message.assistant("I look."))
        raise error


def test_a_run_that_fails_leaves_its_error_and_its_end(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    with pytest.raises(LookupError):
        _stopped_by(LookupError("no canary-value"), path)

    trace = read_trace(path)
    assert [event.kind for event in trace.events] == ["run", "turn", "failure", "end"]
    assert (trace.status, trace.final_response) == ("failed", "I look.")
    assert trace.failure is not None
    assert (trace.failure.error, trace.failure.message) == ("LookupError", "no ***")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), asyncio.CancelledError()])
def test_a_run_that_is_cancelled_says_so(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "run.jsonl"

    with pytest.raises(type(error)):
        _stopped_by(error, path)

    assert read_trace(path).status == "cancelled"


def test_an_end_is_recorded_once(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    def run() -> None:
        with recorder_for(AgentConfig(trace=path), Redactor()) as recorder:
            recorder.ended("limit")
            raise LookupError("while closing")

    with pytest.raises(LookupError):
        run()

    trace = read_trace(path)
    assert trace.status == "limit"
    assert [event.kind for event in trace.events] == ["end", "failure"]


def test_without_a_file_there_are_only_listeners() -> None:
    heard: list[TraceEvent] = []

    with recorder_for(AgentConfig(on_event=heard.append), Redactor()) as recorder:
        recorder.turn(Message.assistant("hi"))

    assert [event.kind for event in heard] == ["turn"]
