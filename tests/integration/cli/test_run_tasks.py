"""`plait run --tasks`: many tasks with a cap, resumed after a kill, one trace each."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from plait.testing import AnthropicServer
from plait.testing.llm.turns import Hang, Refuse, Turn
from plait.traces.file import read_traces
from tests.nursery import python

from .conftest import Plait
from .test_chat import MODEL
from .test_interrupt import wait_until


@pytest.fixture(scope="module")
def api() -> Iterator[AnthropicServer]:
    """A stand-in for Anthropic's API, started once."""
    with AnthropicServer([], only_with_tools=False) as server:
        yield server


def question(body: Mapping[str, Any]) -> str:
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[0]["text"]


def start(plait: Plait, api: AnthropicServer, *arguments: str) -> subprocess.Popen[str]:
    key = {"ANTHROPIC_API_KEY": "sk-canary-tasks", "ANTHROPIC_BASE_URL": api.url}
    return subprocess.Popen(
        [*python(), "-m", "plait.cli", "run", *MODEL, "--tasks", "tasks.jsonl", *arguments],
        cwd=plait.folder,
        env={**plait.environment, **key},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.timeout(120)
def test_tasks_that_are_done_are_not_run_again_after_a_kill(
    plait: Plait, api: AnthropicServer
) -> None:
    lines = ['"one"', '{"id": "b/2", "task": "two"}', "", '{"task": "three", "system": "Short."}']
    (plait.folder / "tasks.jsonl").write_text("\n".join(lines))
    folder = plait.folder / "tasks.jsonl.runs"

    def first_time(body: Mapping[str, Any]) -> Turn:
        return Hang() if question(body) == "three" else f"re: {question(body)}"

    api.play(first_time)
    killed = start(plait, api, "--jobs", "2")
    done = [folder / "0001.jsonl", folder / "b_2.jsonl"]
    wait_until(lambda: all(one.exists() and b'"completed"' in one.read_bytes() for one in done), 60)
    wait_until(lambda: len(api.bodies) == 3)
    killed.kill()
    killed.communicate(timeout=30)

    api.play([Refuse(status=400, message="not so")])
    resumed = start(plait, api, "--json")
    stdout, stderr = resumed.communicate(timeout=60)

    assert [question(body) for body in api.bodies] == ["three"]
    results = {line["id"]: line for line in map(json.loads, stdout.splitlines())}
    assert {name: (one["status"], one["resumed"]) for name, one in results.items()} == {
        "0001": ("completed", True),
        "b/2": ("completed", True),
        "0004": ("failed", False),
    }
    assert results["b/2"]["final_response"] == "re: two"
    assert "not so" in results["0004"]["error"]["message"]
    assert (resumed.returncode, stderr) == (9, "")
    assert [trace.status for trace in read_traces(folder / "0004.jsonl")] == [
        "unfinished",
        "failed",
    ]


def test_bad_lines_are_named_before_anything_runs(plait: Plait, api: AnthropicServer) -> None:
    lines = ['{"id": "a", "task": "x"}', "{", '{"task": 3}', '{"task": "x", "id": "a"}', '{"t": 1}']
    (plait.folder / "tasks.jsonl").write_text(
        "\n".join([*lines, '{"task":"x","images":["no.gif"]}'])
    )
    api.play(["never"])

    process = start(plait, api)
    _, stderr = process.communicate(timeout=60)

    assert process.returncode == 2
    for number in (2, 3, 4, 5, 6):
        assert f"tasks.jsonl, line {number}: " in stderr
    assert "line 1:" not in stderr
    assert not api.bodies
    assert not Path(plait.folder / "tasks.jsonl.runs").exists()
