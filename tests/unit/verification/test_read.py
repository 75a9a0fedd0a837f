"""Suites are read with all of their problems at once."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from inline_snapshot import snapshot

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


def test_the_setup_of_the_defaults_comes_before_that_of_a_case(tmp_path: Path) -> None:
    text = """\
defaults: {setup: [{run: make db}], files: {a: b}}
cases:
  - {name: a, question: b, checks: [{equals: c}], setup: [{run: x}], files: {c: d}}
  - {name: b, question: b, checks: [{equals: c}]}
  - {name: c, question: b, checks: [{equals: c}], setup: [{call: {server: s, tool: t}, run: x}]}
"""
    with pytest.raises(
        ConfigError, match=r":5: cases\.2\.setup\.1: .*a step of the setup is `run`, or `call`"
    ):
        read_suite(written(tmp_path, text))
    first, second = read_suite(written(tmp_path, text[: text.index("  - {name: c")])).cases
    assert [step.run for step in first.setup] == [["make", "db"], ["x"]]
    for command in ("'a \"'", '""', "[]"):
        with pytest.raises(ConfigError, match=r":1: defaults\.setup\.0\.run"):
            read_suite(written(tmp_path, text.replace("make db", command)))
    assert (first.files, second.files) == ({"a": "b", "c": "d"}, {"a": "b"})
    assert [step.run for step in second.setup] == [["make", "db"]]


def test_objects_of_the_matrix_are_named_by_their_values(tmp_path: Path) -> None:
    text = """\
matrix: {limits: [{turns: 2, seconds: 9}, {turns: 5}]}
cases: [{name: a, question: b, checks: [{equals: c}]}]
"""
    names = [case.name for case in read_suite(written(tmp_path, text)).cases]
    assert names == ["a[limits.turns=2,limits.seconds=9]", "a[limits.turns=5]"]


def test_values_of_rows_may_contain_any_line_break(tmp_path: Path) -> None:
    text = """\
cases:
  - rows: rows.csv
    case: {name: "csv {{n}}", question: "{{q}}", checks: [{max_turns: 1}]}
  - rows: rows.jsonl
    case: {name: "json {{n}}", question: "{{q}}", checks: [{max_turns: 1}]}
"""
    (tmp_path / "rows.csv").write_text('n,q\n1,"two\nlines"\n\n2,one\u2028line\n')
    (tmp_path / "rows.jsonl").write_text('{"n": 1, "q": "one\u2028line\x85"}\r\n')

    cases = read_suite(written(tmp_path, text)).cases

    assert [(case.name, case.question) for case in cases] == [
        ("csv 1", "two\nlines"),
        ("csv 2", "one\u2028line"),
        ("json 1", "one\u2028line\x85"),
    ]


def test_problems_of_rows_are_reported_with_the_lines_of_their_file(tmp_path: Path) -> None:
    case = '{name: "{{id}}", question: "{{q}}", checks: [{max_turns: "{{turns}}"}]}'
    text = f"cases:\n  - {{rows: a.csv, case: {case}}}\n  - {{rows: b.jsonl, case: {case}}}\n"
    (tmp_path / "a.csv").write_text('id,q,turns\na,"two\nlines",x\nb,q,y,z\nc,q\nd,q,many\n')
    row = {"id": "e", "q": "?", "turns": 2}
    lines = [row, "{", [1], {"id": "f", "turns": 2}, {**row, "q": 5}, row, {"id": "g"}]
    (tmp_path / "b.jsonl").write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )

    with pytest.raises(ConfigError) as raised:
        read_suite(written(tmp_path, text))

    found = [
        (Path(str(problem.file)).name, problem.path, problem.message)
        for problem in raised.value.problems
    ]
    assert found == snapshot(
        [
            ("a.csv:2", "cases.0.case.checks.0", "max_turns takes a number, not 'x'"),
            ("a.csv:4", "cases.0.rows", "the row has 4 values for 3 columns"),
            ("a.csv:5", "cases.0.rows", "the row has 2 values for 3 columns"),
            ("a.csv:6", "cases.0.case.checks.0", "max_turns takes a number, not 'many'"),
            (
                "b.jsonl:2",
                "cases.1.rows",
                "is not JSON: Expecting property name enclosed in double quotes, column 2",
            ),
            ("b.jsonl:3", "cases.1.rows", "is not an object"),
            ("b.jsonl:4", "cases.1.case", "there is no column 'q' (and in another row)"),
            ("b.jsonl:5", "cases.1.case.question", "Input should be a valid string"),
            ("b.jsonl:6", "cases.1.case.name", "two cases have the name 'e'"),
        ]
    )


def test_a_problem_of_all_rows_is_reported_once(tmp_path: Path) -> None:
    text = "cases: [{rows: a.csv, case: {question: '{{q}}', checks: [{contain: x}]}}]"
    (tmp_path / "a.csv").write_text("q\n" + "What?\n" * 50)

    with pytest.raises(ConfigError) as raised:
        read_suite(written(tmp_path, text))

    (problem,) = raised.value.problems
    assert str(problem.file).endswith("a.csv:2")
    assert problem.message.endswith("(and in 49 more rows)")


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
    assert found == [
        ("3", "defaults.scope"),
        ("2", "caes"),
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
        ("cases: [", "cannot be read as YAML"),
        ("", "is not a suite"),
        ("cases: {}", "valid list"),
        ("setup: []\ncases: []", ":1: setup: goes into `defaults`, or into a case"),
        ("caes: []\ncases: []", r':1: caes: is no key of a suite; did you mean "cases"\?'),
        ("defaults: {repeats: 2}\ncases: []", r'is no key of a case; did you mean "repeat"\?'),
        ("colour: 1\ncases: []", r"colour: is no key of a suite$"),
        ("cases: []\ncases: []", "is there twice"),
        ("cases: [{rows: no.csv, case: {}}]", "cannot be read"),
        ("matrix: {color: [a]}\ncases: [{name: a, question: b, checks: [{equals: c}]}]", "matrix"),
        ("cases: [{name: a, question: b}]", "checks, a template or a rubric"),
        ("cases: [{question: b, checks: [{equals: c}]}]", "name: Field required"),
        ("cases: [{name: a, checks: [{equals: c}]}]", "a question, or a conversation"),
        ("cases:\n- &a {name: a, checks: [*a]}", ":2: cannot be read as YAML: it contains itself"),
        (
            "".join(
                f"x{n}: &x{n} [{', '.join([f'*x{n - 1}' if n else '1'] * 9)}]\n" for n in range(9)
            ),
            ":1: cannot be read as YAML: aliases repeat more than 100,000 values",
        ),
        (f"cases: {'[' * 1200}", "nested too deeply"),
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
