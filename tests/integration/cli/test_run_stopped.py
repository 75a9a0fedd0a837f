"""`plait run`, stopped at every stage of a streamed run: what was shown is in the trace.

A few cells of the table are run by default; `PLAIT_TEST_EVERY_STOP=1` runs all of them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from plait.testing import AnthropicServer, Call, OpenAIServer, Say
from plait.testing.llm.turns import Cut, Hang, Script
from plait.traces import Delta, ToolCalled, ToolReturned, Trace, Turn, read_trace
from tests.nursery import fault_server, python

pytestmark = pytest.mark.timeout(240)

Engine = Literal["langchain", "openai", "claude_tool"]
Stop = Literal["kill", "once", "twice", "cut"]

SLOW = (
    "plait.agents.engines.claude_tool.agent",
    "plait.agents.engines.langchain.agent",
    "langchain_anthropic",
    "langchain_openai",
)
TEXT = "I look at it now and say one two three four five"
CALLING = Say("I call it.", calls=(Call("echo", {"text": "one two three"}),))
WAITING = Say("I wait.", calls=(Call("hang"),))
ANSWER = "It is done."
ALL = 10_000
"""More events than an answer has."""

STAGES = ("before", "text", "call", "tool", "between", "end")


def script_of(stage: str, stop: Stop, engine: Engine) -> Script:
    """Return what the model answers until the stage is reached, and after the stream was cut."""
    # What comes last says why the answer stopped: without it the answer is not complete.
    last = -2 if engine != "openai" else -3
    is_cut = stop == "cut"

    def part(say: str | Say, after: int) -> Cut:
        return Cut(after, say, stalls=not is_cut)

    begun: dict[str, Any] = {
        "before": [Cut() if is_cut else Hang()],
        "text": [part(TEXT, 8)],
        "call": [part(CALLING, last)],
        "tool": [WAITING],
        "between": [CALLING, Cut() if is_cut else Hang()],
        "end": [CALLING, part(ANSWER, last)],
    }
    return [*begun[stage], ANSWER]


REACHED: dict[str, Callable[[Any, Trace], bool]] = {
    "before": lambda api, trace: len(api.bodies) == 1,
    "text": lambda api, trace: bool(texts_of(trace)),
    "call": lambda api, trace: any(part.part == "call" for part in deltas_of(trace)),
    "tool": lambda api, trace: any(isinstance(event, ToolCalled) for event in trace.events),
    "between": lambda api, trace: len(api.bodies) == 2,
    "end": lambda api, trace: trace.partial_text != "" and trace.turns == 1,
}


def deltas_of(trace: Trace) -> list[Delta]:
    return [event for event in trace.events if isinstance(event, Delta)]


def texts_of(trace: Trace) -> str:
    return "".join(part.text for part in deltas_of(trace) if part.part == "text")


@pytest.fixture(scope="module")
def faults() -> Iterator[str]:
    with fault_server() as server:
        yield server.url


@pytest.fixture(scope="module")
def anthropic() -> Iterator[AnthropicServer]:
    with AnthropicServer(only_with_tools=False) as server:
        yield server


@pytest.fixture(scope="module")
def openai() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


ENGINES: tuple[Engine, ...] = ("langchain", "openai", "claude_tool")
STOPS: tuple[Stop, ...] = ("kill", "once", "twice", "cut")
EVERY = [
    (engine, stage, stop)
    for engine in ENGINES
    for stage in STAGES
    for stop in STOPS
    if (stage, stop) != ("tool", "cut")  # there is no stream
]
SOME = [
    *(("claude_tool", stage, "kill") for stage in STAGES),
    ("claude_tool", "end", "once"),
    ("claude_tool", "tool", "twice"),
    ("langchain", "text", "kill"),
    ("langchain", "call", "once"),
    ("langchain", "text", "cut"),
    ("openai", "text", "once"),
    ("openai", "call", "kill"),
]


@pytest.mark.parametrize(
    ("engine", "stage", "stop"), EVERY if os.environ.get("PLAIT_TEST_EVERY_STOP") else SOME
)
def test_all_that_a_stopped_run_has_shown_is_in_its_trace(
    engine: Engine,
    stage: str,
    stop: Stop,
    anthropic: AnthropicServer,
    openai: OpenAIServer,
    faults: str,
    tmp_path: Path,
) -> None:
    api = openai if engine == "openai" else anthropic
    api.play(script_of(stage, stop, engine))
    path = tmp_path / "run.jsonl"

    with start(engine, api, faults, path) as process:
        if stop != "cut":
            wait_until(lambda: path.exists() and has_reached(stage, api, path))
            number = signal.SIGKILL if stop == "kill" else signal.SIGINT
            process.send_signal(number)
            if stop == "twice":
                process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)

    trace = read_trace(path)
    assert trace.damaged == 0
    assert "Traceback" not in stderr
    shown = [json.loads(line) for line in stdout.splitlines()]
    events = [one for one in shown if "id" in one]
    recorded = {event.id: event for event in trace.events}
    assert [one["id"] for one in events] == list(range(len(events)))
    for one in events:
        assert recorded[one["id"]].kind == one["event"]
        if isinstance(delta := recorded[one["id"]], Delta):
            assert delta.text == one["text"]
    check_stage(stage, stop, trace)
    check_end(stop, trace, process.returncode, shown)


def check_stage(stage: str, stop: Stop, trace: Trace) -> None:
    """Check that what the model had written and tools had answered is in the trace."""
    match stage:
        case "text":
            assert TEXT.startswith(texts_of(trace).removesuffix(ANSWER))
            assert texts_of(trace).removesuffix(ANSWER)
        case "call":
            assert texts_of(trace).startswith("I call it.")
            # Not made: nothing says that the answer is complete.
            assert trace.calls == []
        case "tool":
            assert [call.tool for call, _ in trace.calls] == ["hang"]
        case "between" | "end":
            results = [one for one in trace.events if isinstance(one, ToolReturned)]
            assert [one.content for one in results] == ["one two three"]
            assert trace.turns == (2 if stop == "cut" else 1)
        case _:
            assert trace.started is not None


def check_end(stop: Stop, trace: Trace, code: int, shown: list[dict[str, Any]]) -> None:
    match stop:
        case "kill":
            assert (trace.status, code) == ("unfinished", -signal.SIGKILL)
        case "once":
            assert (trace.status, code) == ("cancelled", 130)
            assert "id" not in shown[-1]  # the result
        case "twice":
            # The second may come when the first is done.
            assert (trace.status, code) in {
                ("cancelled", 130),
                ("cancelled", -signal.SIGINT),
                ("unfinished", -signal.SIGINT),
            }
        case "cut":
            assert (trace.status, code) == ("completed", 0)
            assert [turn.message.text for turn in trace.events if isinstance(turn, Turn)][-1] == (
                ANSWER
            )


def start(
    engine: Engine, api: AnthropicServer | OpenAIServer, faults: str, path: Path
) -> subprocess.Popen[str]:
    (path.parent / "mcp.json").write_text(json.dumps({"mcpServers": {"faults": {"url": faults}}}))
    model = {"openai": f"{api.url}/v1#test-model"}.get(engine, "anthropic:claude-test")
    options = [] if engine == "openai" else ["--engine", engine, "--base-url", api.url]
    environment = {**os.environ, "HOME": str(path.parent), "PLAIT_TRUST": "1"}
    return subprocess.Popen(
        [
            *(*python(*SLOW), "-m", "plait.cli", "run", "Go on.", "--json", "--trace", str(path)),
            *("--model", model, *options, "-c", "mcp.json"),
        ],
        cwd=path.parent,
        env={**environment, "ANTHROPIC_API_KEY": "key", "OPENAI_API_KEY": "key"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def has_reached(stage: str, api: AnthropicServer | OpenAIServer, path: Path) -> bool:
    data = path.read_bytes()
    return b'"event":"run"' in data and REACHED[stage](api, read_trace(path))


def wait_until(condition: Callable[[], bool], seconds: float = 150) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
