"""The comparison on the frozen tasks keeps to its prompts and its budget, and resumes."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.reasoning.compare import (
    ANSWER_TOKENS,
    BEGIN,
    BUDGET,
    END,
    PROMPTS_DIGEST,
    RULES,
    WAYS,
    Bench,
    Budgeted,
    Outcome,
    answer_schema,
    answers_in,
    chosen_tasks,
    digest_of_prompts,
    digest_of_tasks,
    holm,
    main,
    read_outcomes,
    report,
    sample_and_check,
    self_consistency,
    solve,
)
from benchmarks.reasoning.frozen.freeze import DIGEST
from benchmarks.reasoning.frozen.tasks import FAMILIES, SEED, check, tasks_of
from plait.reasoning.backends.port import Completion, Prompt, ScriptedCompleter
from plait.reasoning.reasoner import Reasoner
from tests.unit.reasoning.conftest import Desk, desk, empty_database

__all__ = ["desk", "empty_database"]

pytestmark = pytest.mark.anyio

ROUTE: dict[str, Any] = tasks_of(3, "route", 1)[0]


def test_the_prompts_and_the_ways_are_the_frozen_ones() -> None:
    assert PROMPTS_DIGEST.read_text().strip() == digest_of_prompts()
    assert [*WAYS] == [way["name"] for way in RULES["ways"]]
    assert digest_of_tasks() == DIGEST.read_text().splitlines()[-1].split()[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_form_of_an_answer_has_room_for_the_right_one(family: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    for task in tasks_of(3, family, 2):
        answers = FAMILIES[family].answers(task["data"])
        right = next(answer for answer in answers if check(task, answer))

        jsonschema.validate(right, answer_schema(task))


async def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    options = ["--harness-check", "--seed", "3", "--tasks", "1", "--results", str(path)]
    options += ["--family", "rules", "--way", "plain", "--way", "tree", "--way", "enumeration"]

    assert await main(options) == 0
    first = path.read_text()
    path.write_text(first[:-20])  # the last line was cut off
    assert await main(options) == 0

    again = read_outcomes(path)
    assert {(one.way, one.task) for one in again} == {
        (way, "rules-3-01") for way in ("plain", "tree", "enumeration")
    }
    assert [one.right for one in again if one.way == "enumeration"] == [True]


def bench(desk: Desk, script: Any, task: dict[str, Any] = ROUTE) -> Bench:
    completer = Budgeted(ScriptedCompleter(script), BUDGET)
    return Bench(task, completer, Reasoner(desk.store, completer), None)


async def test_samples_end_with_the_budget_or_with_a_right_answer(desk: Desk) -> None:
    answers = FAMILIES["route"].answers(ROUTE["data"])
    right = next(answer for answer in answers if check(ROUTE, answer))
    drawn: list[Prompt] = []

    def reply(prompt: Prompt) -> Completion:
        drawn.append(prompt)
        if prompt.pipe != "answer":
            return Completion(text="steps", output_tokens=100)
        answer = right if len(drawn) == 4 else ["Ash"]
        return Completion(text=json.dumps({"answer": answer}), output_tokens=50)

    checked = bench(desk, reply)
    assert await sample_and_check(checked) == right
    assert checked.facts["drawn"] == 2

    drawn.clear()
    voted = bench(desk, reply)
    assert await self_consistency(voted) == ["Ash"]
    assert BUDGET - ANSWER_TOKENS - 150 < voted.completer.output_tokens <= BUDGET
    assert {prompt.temperature for prompt in drawn} == {0.8}


async def test_the_form_of_an_answer_is_not_cut_short(desk: Desk) -> None:
    asked: list[Prompt] = []

    def reply(prompt: Prompt) -> dict[str, Any]:
        asked.append(prompt)
        return {"answer": []}

    await bench(desk, reply).answer([])

    (prompt,) = asked
    assert prompt.schema is not None
    assert prompt.schema["properties"]["answer"] == answer_schema(ROUTE)


async def test_a_failure_of_solve_has_its_cause(desk: Desk) -> None:
    data = ROUTE["data"]
    kind = {"each": "trip", "gets": "a route", "kind": "path", "one_way": False}
    stated = {**kind, "start": data["from"], "end": data["to"], "via": [], "avoid": []}
    roads = [{"says": "", "a": a, "b": b, "n": far} for a, b, far in data["roads"]]
    right = {**stated, "roads": roads}
    misread = {**stated, "roads": [{"says": "", "a": data["from"], "b": data["to"], "n": 1}]}
    malformed = {**right, "start": "Nowhere"}
    for statement, cause in ((right, "wrong"), (misread, "misread"), (malformed, "malformed")):
        tried = bench(desk, {"problem-statement-v1": statement, "answer": {"answer": []}})
        assert await solve(tried) == []
        assert tried.cause == cause


def test_a_part_of_a_run_has_every_family_in_both_wordings_and_levels() -> None:
    options = argparse.Namespace(seed=5, family=None, tasks=4, wording=None)

    first = chosen_tasks(options)[: 2 * len(FAMILIES)]

    assert {task["family"] for task in first} == {*FAMILIES}
    for family in FAMILIES:
        own = [task for task in first if task["family"] == family]
        assert {task["wording"] for task in own} == {"a", "b"}
        assert {task["level"] for task in own} == {1, 2}


def test_solutions_are_recognized_as_answers() -> None:
    found = [*answers_in({"tea": "Ann", "cat": "Ann", "milk": "Ben"})]

    assert {"Ann": ["tea", "cat"], "Ben": ["milk"]} in found
    assert ["A", "B"] in answers_in({"order": ["A", "B"]})
    assert ["B", "A"] in answers_in({"A": 2, "B": 1})


def test_p_values_are_corrected_for_their_number() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "c": 0.06, "b": 0.06}
    )


async def test_the_tables_show_what_was_won_and_both_digests(tmp_path: Path) -> None:
    def outcome(way: str, task: int, *, right: bool) -> Outcome:
        return Outcome(
            model="m",
            seed=3,
            prompts="p" * 64,
            way=way,
            task=f"t{task}",
            family="rules",
            level=1,
            wording="a",
            right=right,
            answer=[],
            cause="" if right else "misread",
            facts={},
            notes=[],
            calls=2,
            input_tokens=30,
            output_tokens=20,
            seconds=1.0,
        )

    path = tmp_path / "results.jsonl"
    ways = (("plain", False), ("solve", True))
    outcomes = [outcome(way, n, right=right) for n in range(8) for way, right in ways]
    outcomes.append(outcome("solve", 9, right=False))
    path.write_text("".join(json.dumps(vars(one)) + "\n" for one in outcomes))

    shown = report(path)

    assert f"tasks {digest_of_tasks()[:16]}, prompts {'p' * 16}" in shown
    assert "| solve | 9 | 89% | 57%–98% | 8, 0 | 0.00781 | 20 | 30 | 2.0 | 1.0 |" in shown
    assert "| solve | 8/9 | 8/9 |" in shown
    assert "Failures of `solve`: misread 1." in shown
    assert "of the 120 tasks" not in shown

    frozen = [replace(one, seed=SEED) for one in outcomes]
    path.write_text("".join(json.dumps(vars(one)) + "\n" for one in frozen))
    page = tmp_path / "page.md"
    page.write_text(f"before {BEGIN} old {END} after")
    assert await main(["--table", "--results", str(path), "--write", str(page)]) == 0
    written = page.read_text()
    assert "8 of the 120 tasks are done in 2 of 7 ways." in written
    assert "| solve | 8/9 | 8/9 |" in written
    assert "old" not in written
    assert written.startswith(f"before {BEGIN}")
    assert written.endswith(f"{END} after")
