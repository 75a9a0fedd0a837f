"""The evaluation of ways of reasoning has checkable tasks, keeps to its budget, and resumes."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest

from benchmarks.reasoning.evaluate import (
    BEGIN,
    BUDGET,
    CALIBRATION_SEED,
    CALIBRATION_TASKS,
    END,
    SEED,
    Budgeted,
    Evaluation,
    Outcome,
    main,
    read_outcomes,
    scripted,
    table,
    table_of_levels,
    wilson,
)
from benchmarks.reasoning.puzzles import LEVELS, MOST_LEVEL, game_of_24, puzzles
from plait.reasoning.storage.database import database_from_text
from plait.reasoning.storage.sql import SqlStorage


@pytest.mark.parametrize("kind", LEVELS)
def test_the_same_seed_makes_the_same_tasks_and_none_twice(kind: str) -> None:
    one, two, other = (puzzles(kind, 8, seed=seed, level=2) for seed in (20, 20, 7))

    assert [task.question for task in one] == [task.question for task in two]
    assert [task.question for task in one] != [task.question for task in other]
    assert len({task.question for task in one}) == 8


@pytest.mark.parametrize("level", range(1, MOST_LEVEL + 1))
def test_one_answer_is_right_and_the_example_is_not_it(level: int) -> None:
    tasks = {kind: puzzles(kind, 1, seed=SEED, level=level)[0] for kind in LEVELS}
    words = tasks["logic"].fields["Zed"]["enum"]
    people = tasks["constraints"].fields
    ways = itertools.permutations(people["Ann"]["enum"])

    assert sum(tasks["logic"].check({"Zed": word}) for word in words) == 1
    assert sum(tasks["route"].check({"km": km}) for km in range(200)) == 1
    assert sum(tasks["constraints"].check(dict(zip(people, way, strict=True))) for way in ways) == 1
    for task in tasks.values():
        example = json.loads(task.question.splitlines()[3])
        assert [*example] == ["steps", *task.fields]
        assert not task.check({})
        assert not task.check(example)


@pytest.mark.parametrize(
    ("expression", "is_right"),
    [
        ("36 - 12", True),
        ("`36 − 12 = 24`", True),
        ("(36 - 12) + 0", False),
        ("24", False),
        ("__import__('os')", False),
        (24, False),
    ],
)
def test_an_expression_is_read_as_models_write_it(expression: object, is_right: bool) -> None:
    task = game_of_24(random.Random(7), 0, level=2)

    assert task.question.endswith("Task: 12, 36")
    assert task.check({"expression": expression}) is is_right


@pytest.mark.anyio
async def test_the_harness_runs_every_way_and_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = ["--results", str(tmp_path / "r.jsonl")]
    arguments = ["--harness-check", *results, "--kind", "route", "--tasks", "1"]
    assert await main(arguments) == 0
    first = read_outcomes(tmp_path / "r.jsonl")
    with (tmp_path / "r.jsonl").open("a") as file:
        file.write('{"cut off')
    assert await main(arguments) == 0

    assert read_outcomes(tmp_path / "r.jsonl") == first
    assert {"plain", "linear", "tree", "got", "reflection + backtrack"} <= {o.way for o in first}
    assert all(outcome.output_tokens <= BUDGET for outcome in first)
    assert "these are no scores" in capsys.readouterr().out
    assert "| plain | 1 |" in table(first)
    page = tmp_path / "page.md"
    page.write_text(f"before {BEGIN} old {END} after")
    assert await main(["--table", *results, "--write", str(page)]) == 0
    assert "Model scripted; seed 20, 1 tasks, budget 400 tokens." in capsys.readouterr().out
    assert "| plain | 1 |" in page.read_text()
    assert "old" not in page.read_text()
    assert page.read_text().startswith(f"before {BEGIN}")
    assert page.read_text().endswith(f"{END} after")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("rights", "chosen"),
    [
        ({2: 4}, 2),
        ({2: 7, 3: 3}, 3),
        ({2: 0, 1: 6}, 1),
        ({2: 8, 3: 1}, 3),
        ({2: 8, 3: 8, 4: 8}, 2),
        ({2: 1, 1: 1}, 2),
    ],
)
async def test_calibration_looks_for_a_level_that_is_neither_too_easy_nor_too_hard(
    tmp_path: Path, rights: dict[int, int], chosen: int
) -> None:
    outcomes = [
        Outcome(
            model="m",
            seed=CALIBRATION_SEED,
            budget=BUDGET,
            way="plain",
            task=task.key,
            kind="route",
            answer="",
            thoughts=[],
            right=number < right,
            calls=1,
            input_tokens=1,
            output_tokens=1,
            seconds=1.0,
        )
        for level, right in rights.items()
        for number, task in enumerate(
            puzzles("route", CALIBRATION_TASKS, seed=CALIBRATION_SEED, level=level)
        )
    ]
    done = {one.run: one for one in outcomes}
    store = SqlStorage(database_from_text(str(tmp_path / "r.db")))
    evaluation = Evaluation("m", scripted(), BUDGET, tmp_path / "r.jsonl", store, None, done)

    assert await evaluation.calibrate("route") == chosen
    assert f"| route | 2 | {rights[2]} of 8 |" in table_of_levels(outcomes)
    assert not (tmp_path / "r.jsonl").exists()


def test_intervals_are_those_of_wilson() -> None:
    low, high = wilson(8, 10)

    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)
    assert wilson(0, 0) == (0.0, 1.0)
    assert Budgeted(scripted(), 600).left == 600
