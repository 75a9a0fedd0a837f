"""The evaluation of ways of reasoning has checkable tasks, keeps to its budget, and resumes."""

from __future__ import annotations

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
    one, two, other = puzzles(12), puzzles(12), puzzles(12, seed=21)

    assert [task.question for task in one] == [task.question for task in two]
    assert [task.question for task in one] != [task.question for task in other]
    assert {task.kind for task in one} == {"game of 24", "constraints", "route", "logic"}


@pytest.mark.parametrize("level", [1, 2, 3])
def test_answers_are_checked(level: int) -> None:
    tasks = {task.kind: task for task in puzzles(4, levels=dict.fromkeys(LEVELS, level))}
    words = tasks["logic"].question.rpartition("Is Zed a ")[2].strip("?").split(" or a ")
    people = tasks["constraints"].question.partition(" have ")[0].split(", ")

    assert sum(tasks["logic"].check(f"It is {word}.") for word in words) == 1
    assert not tasks["logic"].check(", ".join(words))
    assert sum(tasks["route"].check(f"B 4 + 3 = 7, so {place}") for place in "BCDF") == 1
    assert sum(tasks["constraints"].check(f"{person} has it") for person in people) == 1
    assert not tasks["constraints"].check(", ".join(people))
    assert not tasks["game of 24"].check("24")
    assert not tasks["game of 24"].check("__import__('os')")


def test_an_expression_is_read_as_models_write_it() -> None:
    task = game_of_24(random.Random(7), 0, level=1)

    assert task.question.endswith("3, 8:")
    assert task.check("8 * 3")
    assert task.check("`3 × 8 = 24`")
    assert not task.check("(3 * 8) + 0")


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
    assert "Model scripted; seed 20, 1 tasks, budget 200 tokens." in capsys.readouterr().out


def test_intervals_are_those_of_wilson() -> None:
    low, high = wilson(8, 10)

    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)
    assert wilson(0, 0) == (0.0, 1.0)
    assert Budgeted(scripted(), 600).left == 600
