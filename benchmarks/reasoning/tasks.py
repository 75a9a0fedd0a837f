"""Run a set of tasks without and with the reasoning tools, on the same model.

    python benchmarks/reasoning/tasks.py --model anthropic:claude-haiku-5-5
    python benchmarks/reasoning/tasks.py --harness-check

Each task has one right answer. Three ways are compared: the model alone, one linear step before
the answer, and a tree that is reflected on. For each way the share of right answers and the tokens
are printed. Scores are printed only for a real model; the harness check runs the same code on
scripted replies, and says so.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plait.reasoning.backends.choose import choose, completer_for, detect_models
from plait.reasoning.backends.port import Completer, Completion, Prompt
from plait.reasoning.backends.scripted import ScriptedCompleter
from plait.reasoning.backends.settings import BackendPreference, read_settings
from plait.reasoning.prompts import PROMPTS
from plait.reasoning.reasoner import Reasoner
from plait.reasoning.results import result_data
from plait.reasoning.storage.engine import database_from_text
from plait.reasoning.storage.sql import SqlStorage


@dataclass(frozen=True)
class Task:
    """A question with one right answer."""

    question: str
    answer: str


TASKS = (
    Task(
        "A bat and a ball cost 1.10 together. The bat costs 1 more. What does the ball cost?",
        "0.05",
    ),
    Task("5 machines make 5 parts in 5 minutes. How many minutes for 100 machines and parts?", "5"),
    Task(
        "A lily doubles each day and fills the pond on day 48. On which day is it half full?", "47"
    ),
    Task("How many squares of any size are on a 4 by 4 board?", "30"),
    Task("What is the next number: 2, 6, 12, 20, 30?", "42"),
    Task(
        "A snail climbs 3 m by day and slips 2 m by night in a 10 m well. On which day is it out?",
        "8",
    ),
    Task("Three friends pay 30, get 5 back, keep 1 each and tip 2. How much is missing?", "0"),
    Task("How many times a day do the hands of a clock overlap?", "22"),
    Task("You pass the runner in second place. In which place are you?", "2"),
    Task("How many trailing zeros has 25 factorial?", "6"),
)

ASK = "Answer with the number alone, after the word ANSWER."


class Counting:
    """Counts the tokens that a completer reports."""

    def __init__(self, inner: Completer) -> None:
        self.name = inner.name
        self._inner = inner
        self.tokens = 0

    def describe(self) -> str:
        """Say what answers."""
        return self._inner.describe()

    async def open(self) -> None:
        """Open the one inside."""
        await self._inner.open()

    async def complete(self, prompt: Prompt) -> Completion:
        """Ask the one inside, and count."""
        done = await self._inner.complete(prompt)
        self.tokens += (done.input_tokens or 0) + (done.output_tokens or 0)
        return done

    async def aclose(self) -> None:
        """Close the one inside."""
        await self._inner.aclose()


async def final(completer: Completer, task: Task, notes: str) -> str:
    """Ask for the answer, with what was thought before."""
    user = f"{task.question}\n\n{notes}\n\n{ASK}".replace("\n\n\n\n", "\n\n")
    prompt = Prompt(
        pipe="answer",
        system="You solve puzzles.",
        user=user,
        temperature=0.0,
        max_tokens=300,
        json=False,
    )
    return (await completer.complete(prompt)).text


async def plain(_reasoner: Reasoner, _task: Task) -> str:
    """Think nothing beforehand."""
    return ""


async def line(reasoner: Reasoner, task: Task) -> str:
    """Take one step beforehand."""
    step = await _call(reasoner, "linear", content=task.question)
    return f"Notes: {step['content']}"


async def tree(reasoner: Reasoner, task: Task) -> str:
    """Open ways, and reflect on the best, beforehand."""
    ways = await _call(reasoner, "tree", content=task.question, num_branches=2)
    best = ways["child_branches"][ways["recommended_branch_index"]]
    thoughts = await reasoner.store.get_session_thoughts(ways["session_id"])
    (thought,) = (one for one in thoughts if one.branch_id == best["id"])
    found = await _call(reasoner, "reflection", thought_id=thought.id, max_iterations=1)
    better = found["improved_thought"]
    return f"Notes: {better['content'] if better else thought.content}"


async def _call(reasoner: Reasoner, tool: str, **arguments: Any) -> dict[str, Any]:
    return result_data(await reasoner.call(f"reasoning_{tool}", arguments))


WAYS: dict[str, Callable[[Reasoner, Task], Awaitable[str]]] = {
    "model alone": plain,
    "linear": line,
    "tree + reflection": tree,
}


def is_right(task: Task, said: str) -> bool:
    """Compare the number after the last ANSWER."""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", said.rpartition("ANSWER")[2])
    return bool(numbers) and float(numbers[-1]) == float(task.answer)


def scripted() -> ScriptedCompleter:
    """Make replies of the right shape that mean nothing."""
    return ScriptedCompleter(
        {
            "answer": "ANSWER 5",
            "linear-reasoning-v1": {"thought": "t"},
            "tree-reasoning-v1": {"branches": [{"thought": "a"}, {"thought": "b"}]},
            "reflection-v1": {"analysis": "a", "quality_score": 0.5, "improved_thought": "c"},
        }
    )


async def chosen(model: str | None) -> Completer:
    """Choose the model as the server does."""
    settings = read_settings(
        os.environ, dotenv=Path(".env"), preference=BackendPreference(model=model)
    )
    choice = choose(settings, await detect_models(settings))
    if choice.backend in ("host", "sampling"):
        raise SystemExit("no model is configured: give --model, or set a key")
    return completer_for(choice, settings, prompts=PROMPTS)


async def main() -> None:
    """Run every task in every way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--harness-check", action="store_true")
    options = parser.parse_args()
    inner = scripted() if options.harness_check else await chosen(options.model)
    await inner.open()
    with tempfile.TemporaryDirectory() as folder:
        store = SqlStorage(database_from_text(str(Path(folder) / "tasks.db")))
        await store.open()
        for name, way in WAYS.items():
            completer = Counting(inner)
            reasoner = Reasoner(store, completer)
            right = 0
            for task in TASKS:
                right += is_right(task, await final(completer, task, await way(reasoner, task)))
            if options.harness_check:
                print(f"{name}: harness check, {len(TASKS)} tasks ran")
            else:
                print(f"{name}: {right}/{len(TASKS)} right, {completer.tokens} tokens")
        await store.aclose()
    await inner.aclose()


asyncio.run(main())
