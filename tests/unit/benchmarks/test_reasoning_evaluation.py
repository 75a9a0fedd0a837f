"""The evaluation of ways of reasoning has checkable tasks, keeps to its budget, and resumes."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest

from benchmarks.reasoning.evaluate import (
    BUDGET,
    Budgeted,
    main,
    read_outcomes,
    scripted,
    table,
    wilson,
)
from benchmarks.reasoning.puzzles import LEVELS, game_of_24, puzzles


def test_the_same_seed_makes_the_same_tasks_of_every_kind() -> None:
    one, two, other = puzzles(32), puzzles(32), puzzles(12, seed=21)

    assert [task.question for task in one] == [task.question for task in two]
    assert [task.question for task in one] != [task.question for task in other]
    assert len({task.question for task in one}) == 32
    assert {task.kind for task in one} == {"game of 24", "constraints", "route", "logic"}


@pytest.mark.parametrize("level", [1, 2, 3])
def test_one_answer_is_right_and_the_example_is_not_it(level: int) -> None:
    tasks = {task.kind: task for task in puzzles(4, levels=dict.fromkeys(LEVELS, level))}
    words = tasks["logic"].fields["Zed"]["enum"]
    people = tasks["constraints"].fields
    ways = itertools.permutations(people["Ann"]["enum"])

    assert sum(tasks["logic"].check({"Zed": word}) for word in words) == 1
    assert sum(tasks["route"].check({"km": km}) for km in range(100)) == 1
    assert sum(tasks["constraints"].check(dict(zip(people, way, strict=True))) for way in ways) == 1
    for task in tasks.values():
        example = json.loads(task.question.splitlines()[3])
        assert [*example] == ["steps", *task.fields]
        assert not task.check({})
        assert not task.check(example)


@pytest.mark.parametrize(
    ("expression", "is_right"),
    [
        ("27 - 3", True),
        ("`27 − 3 = 24`", True),
        ("(27 - 3) + 0", False),
        ("24", False),
        ("__import__('os')", False),
        (24, False),
    ],
)
def test_an_expression_is_read_as_models_write_it(expression: object, is_right: bool) -> None:
    task = game_of_24(random.Random(7), 0, level=1)

    assert task.question.endswith("Task: 3, 27")
    assert task.check({"expression": expression}) is is_right


@pytest.mark.anyio
async def test_the_harness_runs_every_way_and_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--harness-check", "--results", str(tmp_path / "r.jsonl"), "--tasks"]
    assert await main([*arguments, "1"]) == 0
    first = read_outcomes(tmp_path / "r.jsonl")
    with (tmp_path / "r.jsonl").open("a") as file:
        file.write('{"cut off')
    assert await main([*arguments, "1"]) == 0

    assert read_outcomes(tmp_path / "r.jsonl") == first
    assert {"plain", "linear", "tree", "got", "reflection + backtrack"} <= {o.way for o in first}
    assert all(outcome.output_tokens <= BUDGET for outcome in first)
    assert "these are no scores" in capsys.readouterr().out
    assert "| plain | 1 |" in table(first)
    assert await main(["--table", *arguments[1:3]]) == 0
    assert "Model scripted; seed 20, 1 tasks, budget 400 tokens." in capsys.readouterr().out


def test_intervals_are_those_of_wilson() -> None:
    low, high = wilson(8, 10)

    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)
    assert wilson(0, 0) == (0.0, 1.0)
    assert Budgeted(scripted(), 600).left == 600
