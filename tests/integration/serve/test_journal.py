"""The trace of every call, and the state that `plait serve --status` and `plait view` show."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from plait.cli import main
from plait.serve.journal import read_states, state_folder
from plait.testing import StateDir, eventually
from plait.traces.events import Healed
from plait.traces.file import read_traces
from plait.viewer.app import ViewerOptions
from tests import nursery
from tests.integration.serve.conftest import connected, serving_http, text_of, write_config
from tests.integration.viewer.conftest import viewing

pytestmark = pytest.mark.anyio

SECRET = "a-secret-of-the-server"


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests leave traces in the home of all tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "own"))


def _faults(state: StateDir) -> dict[str, object]:
    entry: dict[str, Any] = nursery.stdio_config(state_dir=state.path)
    return {**entry, "env": {**entry.get("env", {}), "API_KEY": SECRET}}


def _state() -> dict[str, Any] | None:
    states = read_states()
    return states[0] if states else None


def _feed(kind: str) -> list[dict[str, Any]]:
    state = _state() or {"feed": []}
    return [one for one in state["feed"] if one["kind"] == kind]


async def test_every_call_and_heal_is_in_a_trace_and_in_the_status(
    tmp_path: Path, state: StateDir
) -> None:
    config = write_config(tmp_path, {"faults": _faults(state)})
    async with connected("stdio", "legacy", config) as client:
        pid = text_of(await client.call_tool("faults__pid"))
        await client.call_tool("faults__fail", {"text": f"no luck with {SECRET}"})
        os.kill(int(pid), signal.SIGKILL)
        await client.call_tool("faults__echo", {"text": "again"})
        await eventually(
            lambda: (len(_feed("call")), len(_feed("heal"))) == (3, 1), timeout_seconds=20
        )
        shown = CliRunner().invoke(main, ["serve", "--status"]).output
        as_json = json.loads(CliRunner().invoke(main, ["serve", "--status", "--json"]).output)
        seen = _state()
    await eventually(lambda: _state() is None, timeout_seconds=20)
    (trace,) = [run for file in state_folder().glob("*.jsonl") for run in read_traces(file)]
    stored = "".join(file.read_text() for file in state_folder().rglob("*.jsonl"))

    assert seen is not None
    assert [call.tool for call, _ in trace.calls] == ["pid", "fail", "echo"]
    assert [event.server for event in trace.events if isinstance(event, Healed)] == ["faults"]
    assert "faults/echo" in shown
    assert "healed faults" in shown
    assert as_json[0]["clients"][0]["calls"] == 3
    assert as_json[0]["clients"][0]["failed"] == 1
    assert SECRET not in stored + shown + json.dumps(seen)


async def test_a_process_that_was_killed_is_not_shown(tmp_path: Path, state: StateDir) -> None:
    config = write_config(tmp_path, {"faults": _faults(state)})
    with serving_http(config) as server:
        await eventually(lambda: _state() is not None, timeout_seconds=20)
        server.kill()
        await eventually(lambda: _state() is None, timeout_seconds=20)

    assert "no plait serve is running" in CliRunner().invoke(main, ["serve", "--status"]).output


async def test_the_viewer_shows_clients_and_their_calls(tmp_path: Path, state: StateDir) -> None:
    config = write_config(tmp_path, {"faults": _faults(state)})
    async with connected("http", "legacy", config) as client:
        await client.call_tool("faults__echo", {"text": "seen in the trace"})
        await eventually(lambda: bool(_feed("call")), timeout_seconds=20)
        async with viewing(ViewerOptions(paths=(tmp_path,))) as browser:
            page = (await browser.get("/clients")).text
            link = page.split('href="/runs/')[1].split('"')[0]
            run = (await browser.get(f"/runs/{link}")).text

    assert "called faults/echo" in page
    assert "ready" in page
    assert "seen in the trace" in run
