"""The frozen evaluation is what it was, and its checkers know right from wrong by the question."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from benchmarks.reasoning.frozen.freeze import DIGEST, digest
from benchmarks.reasoning.frozen.tasks import (
    FAMILIES,
    FOLDER,
    SEED,
    check,
    frozen_tasks,
    tasks_of,
)

TASKS = frozen_tasks()


def test_nothing_in_the_folder_has_changed_since_it_was_frozen() -> None:
    assert DIGEST.read_text() == digest()


def test_there_are_120_tasks_of_six_families_in_two_levels_and_two_wordings() -> None:
    counts = Counter((task["family"], task["level"], task["wording"]) for task in TASKS)

    assert len(TASKS) == 120
    assert set(counts.values()) == {5}
    assert len(counts) == 6 * 2 * 2
    assert sum(not family.has_form for family in FAMILIES.values()) == 2
    assert len({task["question"] for task in TASKS}) == 120


@pytest.mark.parametrize("family", FAMILIES)
def test_the_tasks_are_those_of_the_seed(family: str) -> None:
    own = [task for task in TASKS if task["family"] == family]

    assert tasks_of(SEED, family, 2) == own[:2]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_task_has_an_answer_most_candidates_are_wrong_and_nonsense_is_never_right(
    family: str,
) -> None:
    nonsense: list[Any] = [None, 1, "", "24", [], {}, [1], {"Ann": 1}, ["Ann"] * 6, "1+" * 3000]
    for task in (one for one in TASKS if one["family"] == family):
        candidates = FAMILIES[family].answers(task["data"])
        tried = [check(task, candidate) for candidate, _ in zip(candidates, range(400))]  # noqa: B905
        right = next(
            (one for one in FAMILIES[family].answers(task["data"]) if check(task, one)), None
        )
        assert right is not None, task["id"]
        assert check(task, json.loads(json.dumps(right)))  # as a model sends it
        if family not in {"twenty_four", "jugs"}:  # there every candidate is an answer
            assert sum(tried) <= max(3, len(tried) // 4), task["id"]
        assert not any(check(task, one) for one in nonsense if one != right), task["id"]


def test_no_task_holds_a_key_and_the_ways_are_listed_with_their_budget() -> None:
    ways = json.loads((FOLDER / "ways.json").read_text())

    assert {name for task in TASKS for name in task} == {
        *("id", "family", "level", "wording", "question", "data")
    }
    names = [way["name"] for way in ways["ways"]]
    assert {"plain", "sample-and-check", "solve", "enumeration"} <= set(names)
    assert ways["budget_tokens"] > 0
    assert ways["seed"] == SEED
