"""Servers that the runs of a suite share: one world for each model, open until the suite ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plait.errors import ConfigError
from plait.testing import running_server
from plait.verification import read_suite
from tests.integration.verification.suites import ADD, NOTES, Watched, suite_in
from tests.nursery import entry

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

NOTE: list[Any] = [{"calls": [{"name": "add_note", "arguments": {"text": "milk"}}]}, "Noted."]
DIE: list[Any] = [{"calls": [{"name": "die_once", "arguments": {"file": "died"}}]}, "It is alive."]
LISTED = {"server": "notes", "tool": "list_notes", "path": "$.notes"}


def shared(folder: Path, names: list[str], script: list[Any], **case: Any) -> Path:
    servers = {"notes": entry(str(NOTES), cwd="{workdir}")}
    case.setdefault("checks", [{"no_tool_errors": True}])
    cases = [{"name": name, **case} for name in names]
    return suite_in(folder, cases, script, servers=servers, scope="suite")


async def test_the_runs_of_a_model_share_servers(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(json.dumps(NOTE))
    checks = [{"world": {**LISTED, "contains": "milk"}}, {"tool_called": "add_note"}]
    suite = shared(tmp_path, ["one", "two", "three"], NOTE, checks=checks)
    models = ["scripted:script.json", "scripted:other.json"]
    watched = await Watched(suite, models=models, concurrency=1).run()
    assert [result.outcome for result in watched.results] == ["passed"] * 6
    assert [result.turns for result in watched.results] == [2] * 6
    seen = [_notes_after(tmp_path / "plait-report", result.trace) for result in watched.results]
    # The models alternate with the cases; each has a server that remembers its earlier runs.
    assert sorted(map(len, seen)) == [1, 1, 2, 2, 3, 3]


def _notes_after(report: Path, trace: str | None) -> list[str]:
    world = json.loads((report / f"{str(trace).removesuffix('.jsonl')}.world.json").read_text())
    (text,) = world["after"].values()
    return json.loads(text)["notes"]


async def test_runs_at_the_same_time_record_what_is_theirs(tmp_path: Path) -> None:
    slow = [{**NOTE[0], "delay": 0.05}, {"text": "Noted.", "delay": 0.05}]
    suite = shared(tmp_path, [f"case-{n}" for n in range(6)], slow)
    watched = await Watched(suite, concurrency=4).run()
    assert watched.most == 4
    for result in watched.results:
        assert (result.outcome, result.turns) == ("passed", 2)
        assert result.agent_metrics["tool_calls"] == 1


async def test_a_shared_server_that_was_healed_is_an_event(tmp_path: Path) -> None:
    suite = shared(tmp_path, ["one", "two"], DIE)
    watched = await Watched(suite, concurrency=1).run()
    assert [(one.outcome, one.heals) for one in watched.results] == [("passed", 1), ("passed", 0)]


async def test_a_shared_server_that_is_gone_is_no_wrong_answer(tmp_path: Path) -> None:
    with running_server() as server:
        servers = {"faults": {"url": server.url, "connect_timeout": 0.5}}
        cases = [{"name": name, "checks": [{"no_tool_errors": True}]} for name in ("one", "two")]
        suite = suite_in(tmp_path, cases, [ADD, "No idea."], servers=servers, scope="suite")
        watched = Watched(suite, concurrency=1)
        watched.on_result = lambda result: server.kill()
        await watched.run()
        assert watched.outcomes == {"one": "passed", "two": "error"}
        assert "the server faults could not be used" in watched.results[1].failure
        server.restart()
        again = await Watched(suite, resume=True).run()
    assert (again.asked, set(again.outcomes.values())) == (["two"], {"passed"})


def test_files_need_a_folder_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "menu.txt").write_text("soup")
    suite = shared(tmp_path, ["one"], NOTE, files={"menu.txt": "menu.txt"})
    with pytest.raises(ConfigError, match="files need `scope: case`"):
        read_suite(suite)
