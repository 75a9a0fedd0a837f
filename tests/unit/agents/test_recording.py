"""The recorder of a run: what leaves its block is recorded, and its file is closed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from plait._support.redact import Redactor
from plait.agents.agent_run import AgentRun
from plait.agents.config import AgentConfig, ModelConfig
from plait.agents.live_agent import recorder_for
from plait.traces.events import TraceEvent
from plait.traces.file import read_trace
from plait.traces.messages.message import Message
from plait.traces.recorder import Recorder


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


@pytest.mark.parametrize(
    ("settings", "variables", "endpoint"),
    [
        ({"interface": "claude_tool"}, {}, "https://api.anthropic.com"),
        ({"interface": "claude_tool"}, {"ANTHROPIC_BASE_URL": "http://here"}, "http://here"),
        ({"model_provider": "openai"}, {}, "https://api.openai.com/v1"),
        ({"extra_kwargs": {"base_url": "http://a"}, "model_provider": "openai"}, {}, "http://a"),
        ({"interface": "openai_endpoint", "endpoint_base_url": "http://b"}, {}, "http://b/v1"),
        ({"model_provider": "scripted"}, {}, None),
    ],
)
def test_a_trace_names_the_endpoint_that_requests_go_to(
    settings: dict[str, Any],
    variables: dict[str, str],
    endpoint: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    model = ModelConfig.model_validate({"id": "m", "model_name": "x", **settings})
    run = AgentRun(model, AgentConfig(), [Message.user("q")], Recorder(), Redactor(), None)
    run.temperature = None

    run.begin("x")

    started = run.recorder.trace.started
    assert started is not None
    assert started.settings.get("endpoint") == endpoint
    assert "temperature" not in started.settings
