"""Comparisons of two runs, and of judges with labels by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plait.errors import ConfigError
from plait.verification import CaseResult, compare
from plait.verification.agreement import judge_agreement, read_labels
from plait.verification.report import detectable_text, markdown_summary, pass_rate


def results(outcomes: dict[str, str], **fields: Any) -> list[CaseResult]:
    """Return a result for each letter: passed, failed or error."""
    names = {"p": "passed", "f": "failed", "e": "error"}
    return [
        CaseResult(
            key=f"{case}{number}{fields.get('model')}",
            case=case,
            engine="langchain",
            repeat=number,
            outcome=names[letter],  # pyright: ignore[reportArgumentType]
            model=fields.get("model", "m"),
            judge=fields.get("judge", ""),
            traits=fields.get("traits", {}),
        )
        for case, letters in outcomes.items()
        for number, letter in enumerate(letters, 1)
    ]


@pytest.mark.parametrize(
    ("before", "after", "worse", "regressed", "is_worse"),
    [
        ({"a": "p", "b": "p"}, {"a": "f", "b": "p"}, "a", "", False),
        ({"a": "pppppp", "b": "pfpfpf"}, {"a": "ffffff", "b": "ppffff"}, "ab", "a", True),
        (dict.fromkeys("abcdefgh", "p"), dict.fromkeys("abcdefgh", "f"), "abcdefgh", "", True),
        ({"a": "pp", "b": "pp"}, {"a": "pf", "b": "pf"}, "ab", "", False),
        ({"a": "pp"}, {"a": "ee"}, "", "", False),
    ],
    ids=[
        "a case that fails once may be chance",
        "a case whose runs all fail is worse beyond chance",
        "many cases that fail once are worse together",
        "two cases that fail in one of two runs may be chance",
        "errors are compared with nothing",
    ],
)
def test_what_is_worse_beyond_chance(
    before: dict[str, str], after: dict[str, str], worse: str, regressed: str, is_worse: bool
) -> None:
    found = compare(results(before), results(after))
    assert (found.worse, found.regressed) == (tuple(worse), tuple(regressed))
    assert found.is_worse is is_worse
    assert found.cases == (0 if "ee" in after.values() else len(after))


def test_equal_reports_do_not_show_that_any_difference_would_be_seen() -> None:
    cases = {f"case-{n}": "p" for n in range(10)}
    found = compare(results(cases), results(cases)).difference
    assert found is not None
    assert detectable_text(found) == "this suite could show a difference of 67.3%"


def test_a_summary_names_runs_that_failed_alike_once_and_fits_into_a_comment() -> None:
    failed = [
        replace(one, error=f"broken | ![a](http://x) @someone <b> `{'x' * 300}`")
        for one in results({"a": "fff"} | {f"case-{n}": "f" for n in range(500)})
    ]
    text = markdown_summary("suite", failed)
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert rows[1].startswith("| `a` | `m` | 1, 2, 3 | failed | `broken \\| ![a](http://x) @")
    assert text.count("`") % 2 == 0
    assert len(text) < 65_536  # the longest comment of GitHub
    assert text.endswith("more rows are in the report.\n")


def test_errors_count_neither_as_passed_nor_as_failed() -> None:
    found = pass_rate("all", results({"a": "ppfe", "b": "eeee"}))
    assert (found.passed, found.failed, found.errors, found.k) == (2, 1, 5, 3)
    assert found.rate == pytest.approx(2 / 3)
    assert found.pass_hat_k == 0.0


def test_runs_of_the_same_models_are_compared_model_by_model() -> None:
    def run(first: str, second: str) -> list[CaseResult]:
        return results({"a": first}, model="x") + results({"a": second}, model="y")

    found = compare(run("p", "f"), run("f", "p"), by_model=True)
    assert (found.better, found.worse) == (("a (y)",), ("a (x)",))
    first, second = results({"a": "p"}, model="x"), results({"a": "f"}, model="y")
    assert compare(first, second, by_model=True).worse == ("a",)


def test_a_judge_is_compared_with_labels(tmp_path: Path) -> None:
    judged = [
        *results({"a": "p", "b": "p", "c": "f", "d": "e"}, judge="j", traits={"polite": True}),
        *results({"a": "f"}, judge="k"),
    ]
    path = tmp_path / "labels.csv"
    path.write_text(
        "case,repeat,passed,polite\na,1,yes,yes\nb,,no,\nc,,yes,no\nd,,yes,yes\nz,,no,\n"
    )
    found = judge_agreement(judged, read_labels(path))
    assert [(one.judge, one.label, one.agreed, one.labels) for one in found] == [
        ("j", "passed", 1, 3),
        ("j", "polite", 1, 2),
        ("k", "passed", 0, 1),
    ]
    assert (found[0].too_kind, found[0].too_strict) == (("b #1",), ("c #1",))
    assert found[0].kappa == pytest.approx(-0.5)


@pytest.mark.parametrize("text", ["passed\nyes\n", "case,passed\na,perhaps\n"])
def test_labels_that_cannot_be_read_are_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"labels\.csv:2: "):
        read_labels(path)
