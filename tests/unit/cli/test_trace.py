"""`plait trace`: runs as a list, a timeline, a difference and a document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from plait.cli import main
from plait.traces.events import Status
from plait.traces.file import TraceFile
from plait.traces.messages.message import Message, UsageMetadata
from tests.unit.traces.runs import begun


def _run(*arguments: str | Path, columns: int = 300) -> Result:
    runner = CliRunner(env={"COLUMNS": str(columns)})
    return runner.invoke(main, ["trace", *map(str, arguments)])


def _recorded(path: Path, answer: str | None, status: Status = "completed") -> Path:
    file = TraceFile(path)
    recorder = begun(file)
    recorder.elicitation("weather", "May I?", "decline")
    recorder.approval("weather", "now", "reject", "rule 1", by="person", message="too late")
    recorder.approval("weather", "now", "deny", "rule 2", by="policy")
    if answer is not None:
        recorder.turn(Message.assistant(answer), usage=UsageMetadata(20, 4, 24, 0.0012))
        recorder.ended(status)
    file.close()
    return path


def test_the_runs_of_a_folder_are_listed_and_other_files_left_out(tmp_path: Path) -> None:
    _recorded(tmp_path / "a.jsonl", "21 °C.")
    _recorded(tmp_path / "deep.jsonl", None)
    (tmp_path / "other.jsonl").write_text('{"role": "user"}\n')

    header, first, second = _run("list", tmp_path).stdout.splitlines()

    assert header.split()[:3] == ["file", "run", "began"]
    assert first.split()[1:11] == [
        "r1",
        "02-03",
        "04:05",
        "langchain",
        "small-1",
        "completed",
        "2",
        "2",
        "(1",
        "failed)",
    ]
    assert first.endswith("How warm is it in Köln?")
    assert "unfinished" in second


def test_a_list_leaves_out_what_there_is_no_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _recorded(tmp_path / "a.jsonl", "21 °C.")

    header, line = _run("list", columns=65).stdout.splitlines()

    assert header.split() == ["file", "run", "engine", "ended", "turns", "time", "question"]
    assert line.split()[:4] == ["a.jsonl", "r1", "langchain", "completed"]
    assert line.endswith("…")
    assert len(line) <= 65


def test_a_list_shows_the_end_of_long_paths_before_it_cuts_what_is_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "traces-of-many-runs" / "and-another-folder"
    folder.mkdir(parents=True)
    _recorded(folder / "first.jsonl", "Done.")

    heading, row = _run("list", columns=60).stdout.splitlines()

    assert heading.split() == ["file", "run", "ended", "time", "question"]
    assert row.startswith("…")
    assert "first.jsonl  " in row
    assert "  completed  " in row
    assert len(row) <= 60


def test_a_list_can_be_json(tmp_path: Path) -> None:
    path = _recorded(tmp_path / "a.jsonl", "21 °C.", "limit")

    (told,) = json.loads(_run("list", path, "--json").stdout)

    assert told["file"] == str(path)
    assert (told["run"], told["status"], told["turns"]) == ("r1", "limit", 2)
    assert told["usage"] == {
        "input_tokens": 30,
        "output_tokens": 9,
        "total_tokens": 39,
    }


def test_nothing_to_list_is_said_aside(tmp_path: Path) -> None:
    done = _run("list", tmp_path)

    assert done.exit_code == 0
    assert done.stdout == ""
    assert "no traces" in done.stderr


def test_a_run_is_shown_step_by_step(tmp_path: Path) -> None:
    shown = _run("show", _recorded(tmp_path / "a.jsonl", "It is 21 °C.")).stdout

    assert [" ".join(line.split()[2:]) for line in shown.splitlines()[5:]] == [
        "turn 1 10 + 5 tokens · cost unknown",
        "",
        '→ weather/now {"city": "Köln"}',
        '→ weather/now {"city": "Bonn"}',
        "✗ now 1.00 s",
        "city",
        "retry weather/now attempt 2, connection lost",
        "healed weather exited",
        "← now 6.00 s, 2 attempts",
        "",
        "elicitation of weather May I? (decline)",
        "rejected: weather/now rule 1: too late",
        "denied by the policy: weather/now rule 2",
        "turn 2 20 + 4 tokens · $0.0012",
        "21 °C.",
        "ended: completed",
    ]


def test_long_texts_are_whole_only_in_full(tmp_path: Path) -> None:
    path = _recorded(tmp_path / "a.jsonl", "long " * 100 + "end.")

    assert "end." not in _run("show", path).stdout
    assert "end." in _run("show", path, "--full").stdout


def test_a_killed_run_is_shown_as_far_as_it_came(tmp_path: Path) -> None:
    path = _recorded(tmp_path / "a.jsonl", None)
    path.write_bytes(path.read_bytes()[:-10])

    shown = _run("show", path).stdout

    assert "the run was killed, or is still running" in shown
    assert "1 line of the file cannot be read" in shown


def test_a_text_cannot_drive_the_terminal(tmp_path: Path) -> None:
    assert "\x1b" not in _run("show", _recorded(tmp_path / "a.jsonl", "\x1b[2Jgone")).stdout


def test_a_run_can_be_shown_as_json(tmp_path: Path) -> None:
    told = json.loads(_run("show", _recorded(tmp_path / "a.jsonl", "x"), "--json").stdout)

    assert told["status"] == "completed"
    assert [event["event"] for event in told["events"]][:3] == ["run", "turn", "tool_call"]


def test_runs_that_did_the_same_have_no_difference(tmp_path: Path) -> None:
    one, other = (_recorded(tmp_path / name, "21 °C.") for name in ("a.jsonl", "b.jsonl"))

    done = _run("diff", one, other)

    assert (done.exit_code, done.stdout) == (0, "")


def test_runs_that_did_not_are_shown_side_by_side_with_code_1(tmp_path: Path) -> None:
    one = _recorded(tmp_path / "a.jsonl", "21 °C.")
    other = _recorded(tmp_path / "b.jsonl", "22 °C.", "limit")

    done = _run("diff", one, other)
    told = json.loads(_run("diff", one, other, "--json").stdout)

    assert done.exit_code == 1
    assert {"-21 °C.", "+22 °C.", "-ended: completed", "+ended: limit"} < set(
        done.stdout.splitlines()
    )
    assert told == {"same": False, "diff": done.stdout.splitlines()}


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("markdown", "### `now` of `weather`"),
        ("raw", "--- Tool Message (call_id: c1) ---\n21 °C"),
        ("messages", '"tool_use_id": "c1"'),
        ("events", '"event": "heal"'),
        ("metrics", '"suspect_failed_tool_calls": 1'),
    ],
)
def test_a_run_becomes_a_document(tmp_path: Path, kind: str, part: str) -> None:
    path = _recorded(tmp_path / "a.jsonl", "x")

    printed = _run("export", path, "--format", kind).stdout
    _run("export", path, "--format", kind, "--output", tmp_path / "out")

    assert part in printed
    assert (tmp_path / "out").read_text("utf-8").strip() == printed.strip()


def test_a_run_becomes_a_page_and_two_runs_one_page(tmp_path: Path) -> None:
    one = _recorded(tmp_path / "a.jsonl", "21 °C.")
    other = _recorded(tmp_path / "b.jsonl", "22 °C.")
    single, both = tmp_path / "one.html", tmp_path / "both.html"

    single.touch(0o644)
    assert _run("export", "--html", one, "-o", single).exit_code == 0
    assert _run("export", "--html", one, other, "-o", both).exit_code == 0
    assert [path.stat().st_mode & 0o777 for path in (single, both)] == [0o600, 0o600]
    refused = _run("export", one, other)

    text = single.read_text("utf-8")
    assert text == _run("export", one, "--format", "html").stdout.rstrip("\n") + "\n"
    assert "weather healed" in text
    assert len(text) < 300_000
    assert "1 step differs." in both.read_text("utf-8") or "2 steps differ." in both.read_text(
        "utf-8"
    )
    assert "<del>" in both.read_text("utf-8")
    assert refused.exit_code == 2


def test_a_page_has_the_messages_of_its_calls_from_a_tape(tmp_path: Path) -> None:
    file, page = _recorded(tmp_path / "a.jsonl", "x"), tmp_path / "a.html"
    call = {"name": "now", "arguments": {"city": "Köln"}}
    reply = {"content": [{"type": "text", "text": "on the wire"}]}
    lines = [
        {"tape": 1},
        {"server": "weather", "method": "tools/call", "params": call, "result": reply},
    ]
    tape = tmp_path / "tape.jsonl"
    tape.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    done = _run("export", "--html", file, "--tape", tape, "-o", page)

    assert done.exit_code == 0, done.output
    assert page.read_text("utf-8").count("wire, 1 message") == 1
    assert "on the wire" in page.read_text("utf-8")


def test_a_document_has_all_that_happened(tmp_path: Path) -> None:
    printed = _run("export", _recorded(tmp_path / "a.jsonl", None)).stdout

    for part in (
        "| Ended | unfinished |",
        "## System",
        "`now` failed after 1.00 s:",
        "*Attempt 2 of `weather/now`: connection lost*",
        "*`weather` was lost, and reconnected.*",
        "*Elicitation of `weather`: May I? (decline)*",
        "*`weather/now`: reject by a person (rule 1: too late)*",
        "the run was killed",
    ):
        assert part in printed


def test_a_file_that_is_no_trace_is_a_wrong_argument(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text("hello\n")

    done = _run("show", file)

    assert done.exit_code == 2
    assert "no line is an event" in done.stderr
