"""Problems are read, and what is malformed in them is named with its place."""

from __future__ import annotations

import json
import time
from typing import Any

import jsonschema
import pytest

from plait.reasoning.solving.engine import Deadline, answers, check
from plait.reasoning.solving.expressions import FUNCTIONS
from plait.reasoning.solving.problem import EXAMPLES, Answer, problem_schema, read_problem


def solved(problem: object) -> Answer:
    read = read_problem(problem)  # pyright: ignore[reportArgumentType]
    if isinstance(read, Answer):
        return read
    *_, answer = answers(read, Deadline(time.monotonic() + 60))
    return answer


def about(*rules: str, **more: Any) -> dict[str, Any]:
    variables = {"a, b": {"min": 0, "max": 5}, "mon, tue": ["Ann", "Ben", "Cleo"], "ok": "boolean"}
    return {"variables": variables, "constraints": [*rules], **more}


@pytest.mark.parametrize("form", EXAMPLES)
def test_the_examples_are_valid_by_the_published_schema_and_have_answers(form: str) -> None:
    jsonschema.Draft202012Validator(problem_schema()).validate(EXAMPLES[form])

    assert solved(EXAMPLES[form]).status in ("one", "several", "best")
    assert solved(json.dumps(EXAMPLES[form])).status == solved(EXAMPLES[form]).status


@pytest.mark.parametrize(
    ("rule", "position", "nearest"),
    [
        ("aa == 2", 1, "did you mean 'a'?"),
        ("mon == An", 8, "did you mean 'Ann'"),
        ("a + == 2", 5, "names, numbers"),
        ("a ** 2 == 4", 3, "a * a"),
        ("a / b == 2", 3, "a == b * c"),
        ("al_different(a, b)", 1, "did you mean 'all_different'"),
        ("abs(a, b) == 1", 1, "abs(a)"),
        ("(a == 1", 8, "a closing parenthesis"),
        ("a + b", 3, "a + b == …"),
        ("mon == 1", 5, "position(…)"),
        ("mon + 1 == 2", 1, "position(a)"),
        ("a == b and a", 12, "a == b"),
        ("a b", 3, "an operator before it"),
        ("a.__class__ == 1", 1, "did you mean"),
        ("__import__('os').system('true')", 17, "names, numbers"),
        ("a == 12345678901234567890", 6, "smaller units"),
        ("a[0] == 1", 2, "names, numbers"),
        ('mon == "Ann', 8, "close it"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_the_nearest_form(
    rule: str, position: int, nearest: str
) -> None:
    answer = solved(about(rule))

    assert answer.status == "malformed"
    (mistake,) = answer.mistakes
    assert mistake.place == "constraints[0].rule"
    assert f"at character {position}:" in mistake.problem, mistake
    assert nearest in mistake.nearest


@pytest.mark.parametrize(
    ("change", "place", "nearest"),
    [
        ({"variables": {}}, "variables", '"variables"'),
        ({"constraint": ["a == 1"]}, "constraint", '"constraints"'),
        ({"variables": {"a": {"min": 3, "max": 1}}}, "variables.a", '{"min": 1, "max": 3}'),
        ({"variables": {"a": {"min": 1}}}, "variables.a.max", '"variables"'),
        ({"variables": {"a": "bool"}}, "variables.a", '"variables"'),
        ({"variables": {"a": ["x", 1]}}, "variables.a", '["x", "1"]'),
        ({"lists": {"days": ["mo"]}}, "lists.days", "did you mean 'mon'?"),
        ({"minimize": "a", "maximize": "b"}, "maximize", "minimize: a - b"),
        ({"minimize": "ok and a"}, "minimize", "a == b"),
        ({"form": "paths"}, "form", "did you mean 'path'?"),
        (
            {"constraints": [{"name": "x", "rule": "ok"}, {"name": "x", "rule": "ok"}]},
            "constraints[1].name",
            "x_2",
        ),
        ({"constraints": [{"rul": "ok"}]}, "constraints[0].rule", '"constraints"'),
    ],
)
def test_a_malformed_field_is_named(change: dict[str, Any], place: str, nearest: str) -> None:
    answer = solved({**about(), **change})

    assert answer.status == "malformed"
    mistake = answer.mistakes[0]
    assert mistake.place == place, answer
    assert nearest in mistake.nearest
    assert mistake.place in answer.text


@pytest.mark.parametrize(
    ("rules", "solution"),
    [
        (["a == 1 => b == 2", "a = 1", "mon == tue"], {"a": 1, "b": 2}),
        (["1 <= a < b <= 2"], {"a": 1, "b": 2}),
        (["exactly(2, a == 1, b == 2, a + b == 9)"], {"a": 1, "b": 2}),
        (["a * b == 2 && !(a ≥ b)"], {"a": 1, "b": 2}),
        (["sum(a, b) == 3", "max(a, b) - min(a, b) == 1", "before(a, b)"], {"a": 1, "b": 2}),
        (["if(ok, a == 1, a == 2)", "ok", "b == 2 * a"], {"a": 1, "b": 2, "ok": True}),
        (["a + 0.5 == b / 2 + 0.5", "b == 2"], {"a": 1, "b": 2}),
        (["mon == 'Ben'", "after(tue, mon)"], {"mon": "Ben", "tue": "Cleo"}),
        (["mon in [Ben]", "tue not in [Ben, Cleo]"], {"mon": "Ben", "tue": "Ann"}),
        (["position(mon) == 2", "count([mon, tue], Ben) == 2"], {"mon": "Ben", "tue": "Ben"}),
        (["count(days, Ben) == 2"], {"mon": "Ben", "tue": "Ben"}),
        (["mon > Ben", "right_after(mon, tue)"], {"mon": "Cleo", "tue": "Ben"}),
        (["ok iff a == 3", "a > 2", "a % 2 == 1", "a // 3 == 1", "ok"], {"a": 3, "ok": True}),
    ],
)
def test_expressions_mean_what_they_say(rules: list[str], solution: dict[str, Any]) -> None:
    answer = solved(about(*rules, lists={"days": ["mon", "tue"]}))

    assert answer.status in ("one", "several"), answer
    for found in filter(None, (answer.solution, answer.other)):
        assert {name: found[name] for name in solution} == solution


def test_names_that_are_words_of_the_language_are_written_in_quotes() -> None:
    words = ["and", "sum", "true", "New York", "del", "__class__"]
    problem = {
        "variables": {word: {"min": 1, "max": 6} for word in words},
        "constraints": ['"and" == "sum" + 1', '"New York" == 6', "del < __class__", '"true" == 4'],
    }

    answer = solved(problem)

    assert answer.status == "several"
    again = solved({**problem, "constraints": [*problem["constraints"], answer.tell_apart]})
    assert again.status in ("one", "several")


def test_a_sentence_is_shown_where_its_constraint_contradicts_others() -> None:
    says = "Ann is ill on Monday."
    answer = solved(
        about(
            {"name": "ill", "rule": "mon != Ann", "says": says},  # pyright: ignore[reportArgumentType]
            "mon == Ann",
            "a < b",
        )
    )

    assert answer.status == "none"
    assert [one.name for one in answer.conflict] == ["ill", "c2"]
    assert says in answer.text


def test_two_solutions_come_with_a_constraint_that_one_of_them_breaks() -> None:
    problem = about("a + b == 1", "mon == Ann", "tue == Ann", "ok")
    answer = solved(problem)

    assert answer.status == "several"
    chosen = {**problem, "constraints": [*problem["constraints"], answer.tell_apart]}
    assert solved(chosen).status == "one"


def test_a_check_names_the_constraints_that_fail() -> None:
    read = read_problem(about("a < b", {"name": "pair", "rule": "mon != tue"}))  # pyright: ignore[reportArgumentType]
    assert not isinstance(read, Answer)
    proposed = {"a": 1, "b": 2, "mon": "Ann", "tue": "Ann", "ok": True}
    deadline = Deadline(time.monotonic() + 60)

    failed = check(read, proposed, deadline)
    assert (failed.status, [one.name for one in failed.conflict]) == ("fails", ["pair"])
    assert check(read, {**proposed, "tue": "Ben"}, deadline).status == "holds"
    for wrong, place in (
        ({"a": 9}, "solution.a"),
        ({"x": 1}, "solution.x"),
        ({"ok": 1}, "solution.ok"),
    ):
        malformed = check(read, {**proposed, **wrong}, deadline)
        assert [one.place for one in malformed.mistakes] == [place]


def test_a_check_of_an_amount_says_whether_more_is_possible() -> None:
    read = read_problem(about("a + b <= 6", maximize="2 * a + b"))
    assert not isinstance(read, Answer)
    proposed = {"a": 5, "b": 1, "mon": "Ann", "tue": "Ann", "ok": True}
    deadline = Deadline(time.monotonic() + 60)

    assert check(read, proposed, deadline).status == "holds"
    worse = check(read, {**proposed, "b": 0}, deadline)
    assert (worse.status, worse.value, worse.bound) == ("fails", 10, 11)


def test_every_function_is_described_as_it_is_called() -> None:
    variables = {name: {"min": 0, "max": 3} for name in ("a", "b", "k")} | {"condition": "boolean"}
    variables |= {"value": {"min": 0, "max": 3}}
    for name, shown in FUNCTIONS.items():
        call = shown.partition(" or ")[0].replace(", …", "")
        if name in ("position", "opposite"):
            continue
        rule = call.replace("(k", "(1")
        answer = solved({"variables": variables, "constraints": [rule]})
        if answer.status == "malformed":
            answer = solved({"variables": variables, "constraints": [f"{rule} >= 0"]})
        assert answer.status != "malformed", (name, answer.text)


class ShortDeadline(Deadline):
    """Ends after so many looks at the clock."""

    __slots__ = ()
    looks = 0

    @property
    def left_ms(self) -> int:
        ShortDeadline.looks -= 1
        return 1000 if ShortDeadline.looks > 0 else 0


def test_a_question_that_was_not_decided_in_time_is_not_called_open() -> None:
    read = read_problem({"facts": ["wet"], "rules": ["wet -> cold"], "ask": ["cold", "dark"]})
    assert not isinstance(read, Answer)
    # Two looks find that the facts do not contradict each other.
    ShortDeadline.looks = 3

    *_, answer = answers(read, ShortDeadline(0))

    assert answer.status == "undecided"
    assert [one.verdict for one in answer.conclusions] == ["follows", "unknown"]
    assert "These were not decided in time: dark." in answer.text
