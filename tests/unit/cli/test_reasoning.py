"""`plait reasoning` shows what was thought, and enters the server where it is wanted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from plait.cli import main
from plait.cli.exits import Exit
from plait.reasoning.backends.port import HostCompleter
from plait.reasoning.reasoner import Reasoner
from plait.reasoning.results import result_data
from plait.reasoning.storage.database import database_from_text
from plait.reasoning.storage.sql import SqlStorage
from plait.reasoning.values import Changes, Session, Thought

Run = Callable[..., Result]

STEPS: list[tuple[str, dict[str, Any]]] = [
    ("linear", {"content": "Why does it \x1b[31mrain?", "session_id": "rain-1"}),
    (
        "tree",
        {
            "content": "look for causes",
            "session_id": "rain-1",
            "branches": [{"thought": "clouds", "confidence": 0.9}, {"thought": "gods"}],
        },
    ),
    ("got_init", {"content": "root cause", "session_id": "rain-1", "problem": "rain"}),
    (
        "got_generate",
        {"session_id": "rain-1", "continuations": [{"thought": "cold air", "confidence": 0.4}]},
    ),
    ("linear", {"content": "Something else", "session_id": "other"}),
    ("session_conclude", {"session_id": "other", "conclusion": "nothing"}),
]


@pytest.fixture(scope="module")
def thought_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a database in which something was thought."""
    path = tmp_path_factory.mktemp("reasoning") / "reasoning.db"

    async def think() -> None:
        store = SqlStorage(database_from_text(str(path)))
        await store.open()
        reasoner = Reasoner(store, HostCompleter())
        for tool, arguments in STEPS:
            result_data(await reasoner.call(f"reasoning_{tool}", arguments))
        await store.aclose()

    asyncio.run(think())
    return path


@pytest.fixture
def run(thought_out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    copy = tmp_path / "reasoning.db"
    copy.write_bytes(thought_out.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_PATH", str(copy))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    def invoke(*arguments: str, **options: Any) -> Result:
        return CliRunner().invoke(main, ["reasoning", *arguments], **options)

    return invoke


def test_sessions_are_listed(run: Run) -> None:
    shown = run("sessions").stdout
    found = json.loads(run("sessions", "--json", "--status", "concluded").stdout)

    lines = [line.split()[0] for line in shown.splitlines()]
    assert lines == ["session", "other", "rain-1"]
    assert "\x1b[31m" not in shown
    assert [one["session_id"] for one in found] == ["other"]


def test_a_session_is_drawn_with_its_scores(run: Run) -> None:
    shown = run("show", "rain").stdout

    assert "0.90 tree: clouds [Option 1: clouds]" in shown
    assert "generates → 0.40 thought: cold air ●" in shown
    assert shown.startswith("rain-1  linear, open")
    assert "conclusion: nothing" in run("show", "last").stdout


def test_a_session_that_is_not_there_is_said_to_be_missing(run: Run) -> None:
    missing = run("show", "snow")

    assert missing.exit_code == Exit.USAGE
    assert "there is no session 'snow'" in missing.stderr


def test_thoughts_are_found(run: Run) -> None:
    assert run("search", "CLOUDS").stdout.split() == ["rain-1", "clouds"]
    assert json.loads(run("search", "nowhere", "--json").stdout) == []


@pytest.mark.parametrize(
    ("kind", "sign"),
    [
        ("markdown", "# Reasoning session rain-1"),
        ("mermaid", "flowchart TD"),
        ("dot", "digraph reasoning {"),
        ("svg", "<svg xmlns="),
        ("json", "{"),
    ],
)
def test_a_session_is_exported(run: Run, tmp_path: Path, kind: str, sign: str) -> None:
    shown = run("export", "rain-1", "--format", kind).stdout
    run("export", "rain-1", "--format", kind, "--output", "out")

    assert shown.startswith(sign)
    assert (tmp_path / "out").read_text().strip() == shown.strip()
    if kind == "json":
        assert len(json.loads(shown)["thoughts"]) == 4


def test_a_session_becomes_one_page_that_only_its_owner_may_read(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "session.html"
    page.touch(0o644)

    done = run("export", "rain-1", "--html", "--output", "session.html")

    assert done.exit_code == 0, done.output
    assert page.stat().st_mode & 0o777 == 0o600
    text = page.read_text("utf-8")
    assert text.strip() == run("export", "rain-1", "--html").stdout.strip()
    assert text.count('<article id="t') == 4
    assert len(text) < 300_000


def test_a_session_is_deleted_only_when_that_is_confirmed(run: Run) -> None:
    asked = run("delete", "other", input="n\n")
    assert asked.exit_code == Exit.INTERRUPTED
    assert "other" in run("sessions").stdout

    assert run("delete", "other", "--yes").exit_code == 0
    assert "other" not in run("sessions").stdout


def test_old_sessions_are_pruned(run: Run) -> None:
    assert "deleted 0 sessions" in run("prune", "--older-than", "1", "--yes").stderr
    assert "deleted 2 sessions" in run("prune", "--older-than", "0", "--yes").stderr


def test_stats_count_the_calls_of_each_tool_and_backend(run: Run) -> None:
    found = json.loads(run("stats", "--json").stdout)
    counted = {(one["tool_name"], one["backend"]): one["requests"] for one in found}

    assert run("stats").stdout.split()[:3] == ["tool", "backend", "model"]
    assert counted["reasoning_linear", "host"] >= 1
    assert all(one["failures"] == 0 for one in found)


def test_tables_are_made_and_then_up_to_date(run: Run, tmp_path: Path) -> None:
    fresh = str(tmp_path / "fresh" / "new.db")

    assert "upgraded from nothing to 0007" in run("migrate", "--db", fresh).stderr
    assert "is up to date" in run("migrate", "--db", fresh).stderr


def test_looking_for_sessions_makes_no_database(run: Run, tmp_path: Path) -> None:
    missing = tmp_path / "nothing.db"

    looked = run("sessions", "--db", str(missing))

    assert looked.exit_code == Exit.CONFIG
    assert not missing.exists()


def test_the_server_is_entered_beside_others(run: Run, tmp_path: Path) -> None:
    path = tmp_path / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"time": {"command": "time"}}, "other": 1}')

    assert run("install", "cursor", "--db", "my.db").exit_code == 0
    again = run("install", "cursor")

    written = json.loads(path.read_text())
    assert set(written["mcpServers"]) == {"time", "reasoning"}
    assert written["mcpServers"]["reasoning"]["args"][-4:] == [
        "reasoning",
        "serve",
        "--db",
        "my.db",
    ]
    assert written["other"] == 1
    assert "time" in json.loads((tmp_path / ".cursor" / "mcp.json.bak").read_text())["mcpServers"]
    assert again.exit_code == Exit.CONFIG
    assert run("install", "cursor", "--force").exit_code == 0


def test_a_file_with_comments_is_left_as_it_is(run: Run, tmp_path: Path) -> None:
    path = tmp_path / ".vscode" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"servers": {} /* mine */}')

    refused = run("install", "vscode")

    assert refused.exit_code == Exit.CONFIG
    assert path.read_text() == '{"servers": {} /* mine */}'
    assert "reasoning" in json.loads(run("install", "vscode", "--print").stdout)


@pytest.mark.parametrize(
    ("database", "text"),
    [
        ("not-a-database", "cannot be used: file is not a database"),
        ("a-folder", "cannot be made: Is a directory"),
        ("mysql://localhost/x", "no database of the kind 'mysql'"),
        ("sqlite://", "must be a file"),
        ("postgresql://nobody:hunter2@127.0.0.1:1/x", "cannot be used"),
    ],
)
def test_a_database_that_cannot_be_used_is_named(
    run: Run, tmp_path: Path, database: str, text: str
) -> None:
    (tmp_path / "not-a-database").write_text("something else, and long enough to be looked at")
    (tmp_path / "a-folder").mkdir()

    refused = run("migrate" if database == "a-folder" else "sessions", "--db", database)

    assert refused.exit_code == Exit.CONFIG, refused.stderr
    assert text in refused.stderr
    assert "hunter2" not in refused.stderr


def test_a_tree_hangs_under_the_thought_before_it(run: Run) -> None:
    lines = run("show", "rain-1").output.splitlines()
    first = next(index for index, line in enumerate(lines) if "t1 " in line)

    assert lines[first].startswith("├── t1 ")
    assert lines[first + 1].startswith("└── t2 ")
    assert lines[first + 2].startswith("    ├── t3 ")


def test_a_long_chain_is_shown_without_a_staircase(run: Run, tmp_path: Path) -> None:
    async def think() -> None:
        store = SqlStorage(database_from_text(str(tmp_path / "reasoning.db")))
        await store.open()
        await store.create_session(Session(id="long", mode="linear"))
        thoughts: list[Thought] = []
        for number in range(1200):
            before = thoughts[-1].id if thoughts else None
            text = f"step {number}"
            thoughts.append(
                Thought(session_id="long", content=text, mode="linear", parent_id=before)
            )
        await store.write(Changes(thoughts=(*thoughts,)))
        await store.aclose()

    asyncio.run(think())
    result = run("show", "long")

    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == "└── t1200 0.80 linear: step 1199"
