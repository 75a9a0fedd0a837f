"""Suites are read with all of their problems at once."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from plait.errors import ConfigError
from plait.verification.read import read_suite, suite_schema

SUITE = """\
name: shop
defaults:
  model: scripted:a.json
  tags: smoke
  limits: {turns: 3}
matrix:
  engine: [langchain, claude_tool]
cases:
  - name: open
    question: Is the shop open?
    tags: [hours]
    checks:
      - contains: open
  - rows: days.csv
    case:
      name: "{{day}}"
      question: Is the shop open on {{day}}?
      checks: [{equals: "{{answer}}"}]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "suite.yaml"
    path.write_text(text)
    return path


def test_defaults_matrix_and_rows_are_filled_in(tmp_path: Path) -> None:
    (tmp_path / "days.csv").write_text("day,answer\nmonday,yes\nsunday,no\n")
    suite = read_suite(written(tmp_path, SUITE))
    assert [(case.name, case.engine) for case in suite.cases] == [
        ("open[engine=langchain]", ["langchain"]),
        ("open[engine=claude_tool]", ["claude_tool"]),
        ("monday[engine=langchain]", ["langchain"]),
        ("monday[engine=claude_tool]", ["claude_tool"]),
        ("sunday[engine=langchain]", ["langchain"]),
        ("sunday[engine=claude_tool]", ["claude_tool"]),
    ]
    first, *_, last = suite.cases
    assert (first.model, first.tags, first.limits.turns) == (
        ["scripted:a.json"],
        ["smoke", "hours"],
        3,
    )
    assert (last.question, last.checks) == ("Is the shop open on sunday?", [{"equals": "no"}])


def test_rows_of_json_lines_keep_their_types(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"n": 3}) + "\n")
    text = """\
cases:
  - rows: rows.jsonl
    case: {question: "{{n}}?", checks: [{max_turns: "{{n}}"}]}
"""
    (case,) = read_suite(written(tmp_path, text)).cases
    assert (case.name, case.question, case.checks) == ("rows-1", "3?", [{"max_turns": 3}])


def test_all_problems_are_reported_with_their_lines(tmp_path: Path) -> None:
    text = """\
name: shop
caes: []
defaults: {scope: world, repeat: 2}
matrix: {engine: [langchain], limits: [{seconds: .inf}]}
cases:
  - name: one
    question: Is it?
    checks:
      - contain: open
      - max_turns: many
  - name: two
    qestion: typo
  - name: three
    question: Is it?
    repeat: 0
    checks: [{matches: "["}]
"""
    with pytest.raises(ConfigError) as raised:
        read_suite(written(tmp_path, text))
    found = [
        (problem.file.rsplit(":", 1)[-1], problem.path)
        for problem in raised.value.problems
        if problem.file
    ]
    assert found[0] == ("2", "caes")
    assert found[1:] == [
        ("3", "defaults.scope"),
        ("4", "matrix.limits.0.seconds"),
        ("9", "cases.0.checks.0"),
        ("10", "cases.0.checks.1"),
        ("12", "cases.1.qestion"),
        ("11", "cases.1"),
        ("15", "cases.2.repeat"),
        ("16", "cases.2.checks.0"),
    ]
    assert "contains" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cases: [", "is not YAML"),
        ("", "is not a suite"),
        ("cases: {}", "not a list"),
        ("cases: []\ncases: []", "is there twice"),
        ("cases: [{rows: no.csv, case: {}}]", "cannot be read"),
        ("matrix: {color: [a]}\ncases: [{name: a, question: b, checks: [{equals: c}]}]", "matrix"),
        ("cases: [{name: a, question: b}]", "checks, a template or a rubric"),
        ("cases: [{name: a, checks: [{equals: c}]}]", "a question, or a conversation"),
        (
            "cases: [&a {name: a, question: b, checks: [{equals: c}]}, *a]",
            "two cases have the name 'a'",
        ),
    ],
)
def test_a_wrong_suite_says_what_is_wrong(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=problem):
        read_suite(written(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        read_suite(tmp_path / "none.yaml")


def test_the_schema_accepts_what_is_read() -> None:
    schema = suite_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    case = {"name": "a", "question": "b", "model": "m", "checks": [{"equals": "c"}]}
    jsonschema.validate({"cases": [case, {"rows": "a.csv", "case": case}]}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"cases": [{**case, "qestion": "typo"}]}, schema)
