"""A run that is stopped from outside leaves a trace of all that had happened, and no process."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

import anyio
import psutil
import pytest

from plait.agents import result_from_trace
from plait.testing import AnthropicServer, Call, Say, eventually
from plait.traces import ToolCalled, read_trace
from tests.integration.agents.agent_suite import outline
from tests.nursery import python, stdio_config

PROGRAM = Path(__file__).with_name("stopped_run.py")
SLOW = (
    "claude_agent_sdk",
    "plait.agents.engines.claude_tool.agent",
    "plait.agents.engines.langchain.agent",
)
SCRIPT = [
    Say("I look.", calls=(Call("echo", {"text": "one"}),), usage={"output_tokens": 5}),
    Say("I wait.", calls=(Call("hang"),), usage={"output_tokens": 7}),
]


@pytest.fixture
def api() -> Generator[AnthropicServer]:
    with AnthropicServer(SCRIPT) as server:
        yield server


@pytest.mark.parametrize("interface", ["langchain", "claude_tool", "claude_agent_sdk"])
@pytest.mark.parametrize(("number", "status"), [("SIGINT", "cancelled"), ("SIGKILL", "unfinished")])
def test_a_run_that_is_stopped_leaves_its_trace_and_nothing_else(
    interface: str, number: str, status: str, api: AnthropicServer, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.jsonl"
    server = json.dumps(stdio_config(state_dir=tmp_path))
    command = [*python(*SLOW), str(PROGRAM), interface, api.url, str(tmp_path), server]

    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        _wait_until(lambda: _hangs(trace))
        run = psutil.Process(int((tmp_path / "pid").read_text()))
        children = run.children(recursive=True)
        run.send_signal(getattr(signal, number))
        process.wait(30)

    recorded = read_trace(trace)
    result = result_from_trace(recorded)
    assert recorded.status == status
    assert outline(recorded.messages) == [
        "AI: I look. -> echo({'text': 'one'})",
        "echo = one",
        "AI: I wait. -> hang({})",
    ]
    assert (result.turns, result.final_response) == (2, "I wait.")
    assert result.usage.output_tokens == 12
    assert children
    _wait_until(lambda: not any(map(_is_alive, children)))


def _wait_until(condition: Callable[[], bool]) -> None:
    anyio.run(partial(eventually, condition, timeout_seconds=60))


def _hangs(trace: Path) -> bool:
    if not trace.exists() or b'"hang"' not in trace.read_bytes():
        return False
    return any(
        isinstance(event, ToolCalled) and event.name == "hang" for event in read_trace(trace).events
    )


def _is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
