"""Results and replies of judges are appended to files, and read back as they were."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from plait.verification.answers import JudgmentStore
from plait.verification.results import CaseResult, ResultFile, read_results

BREAKS = "one\u2028two\u2029three\x85four\x0bfive\r\nsix\x1cseven"
"""Everything that Python takes for the end of a line."""


def result(key: str, answer: str = "") -> CaseResult:
    return CaseResult(
        key=key, case="a", model="m", engine="e", repeat=1, outcome="passed", answer=answer
    )


def test_an_answer_with_any_line_break_is_kept(tmp_path: Path) -> None:
    for key in ("first", "second"):
        ResultFile(tmp_path).append(result(key, BREAKS))

    assert [(one.key, one.answer) for one in read_results(tmp_path)] == [
        ("first", BREAKS),
        ("second", BREAKS),
    ]


def test_a_reply_of_a_judge_with_any_line_break_is_kept(tmp_path: Path) -> None:
    JudgmentStore(tmp_path).keep("judge", "question", {"quote": BREAKS})

    assert JudgmentStore(tmp_path).find("judge", "question") == {"quote": BREAKS}


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


def test_only_the_owner_may_read_answers_and_judgments(tmp_path: Path) -> None:
    ResultFile(tmp_path).append(result("a"))
    JudgmentStore(tmp_path).keep("judge", "question", {})

    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
