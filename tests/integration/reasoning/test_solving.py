"""Problems are solved in a process with limits, whatever they ask for."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from plait.reasoning.solving.problem import MAX_CONSTRAINTS
from plait.reasoning.solving.run import GRACE_SECONDS, asolve, check_solution, solve
from plait.testing import eventually

pytestmark = pytest.mark.anyio

START_SECONDS = 20
"""For a Python process to start on a busy machine."""

SECONDS = 1.5

NUMBERS = {"a, b, c, d": {"min": 1, "max": 10**12}}

PIGEONS = {
    "variables": {", ".join(f"p{i}" for i in range(40)): {"min": 1, "max": 39}},
    "constraints": [f"all_different({', '.join(f'p{i}' for i in range(40))})"],
}
"""More pigeons than holes, which a search goes through without end."""

HOSTILE: dict[str, Any] = {
    "a search without end": PIGEONS,
    "huge domains": {
        "variables": NUMBERS,
        "constraints": ["a*a*a + b*b*b == c*c*c", "a*b*c*d % 1000003 == 17"],
    },
    "deep parentheses": {"variables": NUMBERS, "constraints": ["(" * 9000 + "a" + ")" * 9000]},
    "a deep chain": {"variables": NUMBERS, "constraints": ["a" + "*b//2" * 3000 + " == 1"]},
    "many negations": {"variables": {"x": "boolean"}, "constraints": ["not " * 4000 + "x"]},
    "a million constraints": {"variables": NUMBERS, "constraints": ["a == 1"] * 1_000_000},
    "many constraints": {"variables": NUMBERS, "constraints": ["a * b != c"] * MAX_CONSTRAINTS},
    "a long number": {"variables": NUMBERS, "constraints": ["a == " + "9" * 10_000]},
    "a million digits": '{"variables": {"a": {"min": 0, "max": ' + "9" * 900_000 + "}}}",
    "a huge number": {"variables": {"a": {"min": 0, "max": 10**5000}}},
    "nested data": '{"variables": ' + "[" * 100_000,
    "a tower of powers": {
        "variables": NUMBERS,
        "constraints": ["*".join("abcd" * 60) + " == 3"],
        "maximize": "*".join("abcd" * 60),
    },
    "long rules": {"variables": NUMBERS, "constraints": ["a == 1" + " " * 90_000] * 100},
    "code": {"variables": NUMBERS, "constraints": ["__import__('os')._exit(3)", "exec('1')"]},
    "names of code": {"variables": {"import, class, lambda": "boolean"}, "constraints": ["class"]},
    "no object": "[1, 2]",
    "no text": 3,
    "strange names": {"variables": {"\x00": "boolean", "": "boolean"}},
    "many roads": {
        "form": "path",
        "roads": [[f"t{i % 24}", f"t{(i * 7 + 1) % 25}", i % 13 + 1] for i in range(300)],
        "start": "t1",
        "end": "t20",
    },
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_problem_is_answered_in_time_while_the_loop_is_free(name: str) -> None:
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            began = time.monotonic()
            await anyio.sleep(0.01)
            longest = max(longest, time.monotonic() - began)

    began = time.monotonic()
    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        answer = await asolve(HOSTILE[name], seconds=SECONDS)
        assert time.monotonic() - began < SECONDS + GRACE_SECONDS + START_SECONDS
        assert answer.status
        assert len(answer.text) < 20_000
        group.cancel_scope.cancel()

    # A blocked loop waits for the whole search.
    assert longest < SECONDS


async def test_a_process_that_needs_too_much_memory_ends_alone() -> None:
    many = ", ".join(f"v{i}" for i in range(1900))
    problem = {
        "variables": {many: {"min": 0, "max": 10**9}},
        "constraints": [f"v{i} * v{i + 1} * v{i + 2} % 9973 == {i}" for i in range(1800)],
    }

    answer = await asolve(problem, seconds=4)

    assert answer.status == "undecided"


async def test_a_cancelled_call_ends_its_process() -> None:
    this = psutil.Process()

    def workers() -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for child in this.children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it has ended
                if any("solving.worker" in part for part in child.cmdline()):
                    found.append(child)
        return found

    async with anyio.create_task_group() as group:
        group.start_soon(asolve, PIGEONS)
        await eventually(lambda: len(workers()) == 1, timeout_seconds=START_SECONDS)
        group.cancel_scope.cancel()

    await eventually(lambda: not workers(), timeout_seconds=START_SECONDS)


async def test_what_is_known_when_the_time_ends_is_the_answer() -> None:
    names = [f"x{i}" for i in range(60)]
    weights = [(i * 7919 + 13) % 997 + 1000 for i in range(60)]
    terms = [f"{weight} * {name}" for weight, name in zip(weights, names, strict=True)]
    gains = [f"{weight + 100} * {name}" for weight, name in zip(weights, names, strict=True)]
    # A knapsack whose gains are like its weights: good solutions are near, a proof is far.
    problem = {
        "variables": {", ".join(names): {"min": 0, "max": 1}},
        "constraints": [f"{' + '.join(terms)} <= 44321"],
        "maximize": " + ".join(gains),
    }

    answer = await asolve(problem, seconds=3)

    assert answer.status == "best"
    assert answer.value is not None
    assert answer.bound is not None
    assert answer.value <= answer.bound
    assert str(answer.bound) in answer.text
    assert (await check_solution(problem, answer.solution or {}, seconds=1)).status != "malformed"


def test_the_same_without_an_event_loop() -> None:
    problem = {"variables": {"a": [1, 2, 3]}, "constraints": ["a > 1", "a < 3"]}

    assert solve(problem).solution == {"a": 2}
    assert solve(json.dumps(problem)).status == "one"


def test_a_module_in_the_current_folder_is_not_run_as_the_solver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "z3.py").write_text('raise SystemExit("this is not the solver")')
    monkeypatch.chdir(tmp_path)

    answer = solve({"variables": {"a": ["x", "y"]}, "constraints": ["a == x"]})

    assert answer.solution == {"a": "x"}
