"""Reports with files that are none, or contain anything, are shown as far as they can be."""

from __future__ import annotations

import os
from pathlib import Path

from plait.cli.commands.view import ReportFiles
from plait.verification.results import ResultFile
from plait.viewer.library import MAX_FILE_BYTES
from tests.unit.verification.sample_reports import case

ODD = [
    '{"key": "a", "case": {}, "model": "m", "engine": "e", "repeat": 1, "outcome": "failed"}',
    '{"key": "b", "case": "b", "model": "m", "engine": "e", "repeat": 1e999, "outcome": "failed"}',
    "[" * 100_000,
]


def test_files_that_would_block_or_fill_the_memory_are_no_reports(tmp_path: Path) -> None:
    for name in ("fifo", "folder", "large", "loop"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "fifo" / "results.jsonl")
    (tmp_path / "folder" / "results.jsonl").mkdir()
    (tmp_path / "large" / "results.jsonl").touch()
    os.truncate(tmp_path / "large" / "results.jsonl", MAX_FILE_BYTES + 1)
    loop = tmp_path / "loop" / "results.jsonl"
    loop.symlink_to(loop)

    assert ReportFiles().find(tmp_path) == []
    line = ReportFiles().summary(tmp_path / "fifo")
    assert (line.suite, line.passed, line.rate) == ("fifo", 0, None)


def test_lines_that_are_no_results_are_left_out(tmp_path: Path) -> None:
    file = ResultFile(tmp_path)
    file.append(case("good", "passed"))
    with file.path.open("a") as lines:
        lines.write("\n".join(ODD) + "\n")

    assert ReportFiles().find(tmp_path) == [tmp_path]
    line = ReportFiles().summary(tmp_path)
    assert (line.passed, line.failed, line.models) == (1, 0, ["langchain:small"])


def test_a_trace_that_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "trace.jsonl")
    ResultFile(tmp_path).append(case("bad", "failed", trace="trace.jsonl"))

    assert "the trace is not there: trace.jsonl" in str(ReportFiles().body(tmp_path))
