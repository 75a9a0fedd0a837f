"""Results and replies of judges are appended to files, and read back as they were."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from plait.traces.codec import line_from_event
from plait.verification.answers import JudgmentStore, merge_reports
from plait.verification.html_report import report_page
from plait.verification.results import CaseResult, ResultFile, read_results
from tests.unit.html.sample_runs import full_run

BREAKS = "one\u2028two\u2029three\x85four\x0bfive\r\nsix\x1cseven"
"""Everything that Python takes for the end of a line."""


def result(key: str, answer: str = "") -> CaseResult:
    return CaseResult(
        key=key, case="a", model="m", engine="e", repeat=1, outcome="passed", answer=answer
    )


def test_answers_and_replies_of_judges_with_any_line_break_are_kept(tmp_path: Path) -> None:
    for key in ("first", "second"):
        ResultFile(tmp_path).append(result(key, BREAKS))
    JudgmentStore(tmp_path).keep("judge", "question", {"quote": BREAKS})

    found = [(one.key, one.answer) for one in read_results(tmp_path)]
    assert found == [("first", BREAKS), ("second", BREAKS)]
    assert JudgmentStore(tmp_path).find("judge", "question") == {"quote": BREAKS}


def test_runs_that_failed_alike_in_temporary_folders_have_the_same_reason() -> None:
    texts = [
        f"no file /tmp/plait-{name}/a.txt or C:\\tmp{name}" for name in ("k3_x81aq", "0abcdefg")
    ]
    failures = {replace(result("a"), error=text).failure for text in texts}
    assert failures == {"no file /tmp/…/a.txt or C:\\…"}
    other = "no file /tmp/k3_x81aq, /tmp/tmpk3_x81aqx or tmpk3_x81aq"
    assert replace(result("a"), error=other).failure == other


@pytest.mark.parametrize("cut", [b'{"key": "cut', b'{"key": "cut", "answer": "\xe2\x80', b"\xff\n"])
def test_a_line_that_was_cut_off_loses_nothing_else(cut: bytes, tmp_path: Path) -> None:
    results, judgments = ResultFile(tmp_path), JudgmentStore(tmp_path)
    results.append(result("before"))
    judgments.keep("judge", "before", {})
    for path in (results.path, tmp_path / "judgments.jsonl"):
        with path.open("ab") as file:
            file.write(cut)
    results.append(result("after"))
    JudgmentStore(tmp_path).keep("judge", "after", {})

    assert [one.key for one in read_results(tmp_path)] == ["before", "after"]
    again = JudgmentStore(tmp_path)
    assert again.find("judge", "before") == again.find("judge", "after") == {}
    # Only the owner may read them.
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize("trace", ["../outside.jsonl", "traces/link.jsonl", "{outside}"])
def test_a_report_shows_no_trace_from_elsewhere(trace: str, tmp_path: Path) -> None:
    outside, report = tmp_path / "outside.jsonl", tmp_path / "report"
    outside.write_bytes(b"".join(map(line_from_event, full_run().events)))
    (report / "traces").mkdir(parents=True)
    (report / "traces" / "link.jsonl").symlink_to(outside)
    hostile = replace(result("a"), outcome="failed", trace=trace.format(outside=outside))

    assert "Köln" not in report_page("suite", [hostile], folder=report)
    assert hostile.with_trace(report)["trace_messages"] == []


def test_merged_reports_have_the_traces_of_their_parts_and_no_other_files(tmp_path: Path) -> None:
    part, names = tmp_path / "part", ("0" * 20 + ".jsonl", "1" * 20 + ".jsonl")
    (part / "traces" / "folder").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (part / "traces" / names[0]).write_text("a trace")
    (part / "traces" / names[1]).symlink_to(tmp_path / "secret")
    (part / "traces" / "other.txt").write_text("x")
    ResultFile(part).append(result("a"))
    JudgmentStore(part).keep("judge", "question", {"polite": True})

    merge_reports([part], tmp_path / "whole")

    judged = JudgmentStore(tmp_path / "whole").find("judge", "question")
    assert judged == {"polite": True}
    assert [path.name for path in (tmp_path / "whole" / "traces").iterdir()] == [names[0]]
