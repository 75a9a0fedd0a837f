"""Compare ways of reasoning on generated tasks, with the same model and the same token budget.

    python -m benchmarks.reasoning.evaluate --backend local
    python -m benchmarks.reasoning.evaluate --table --results FILE
    python -m benchmarks.reasoning.evaluate --harness-check

The tasks are generated from a fixed seed. Each way may have a model write at most `--budget` tokens
on a task, its answer included. Every finished task is a line of the results file, so a run that is
interrupted goes on where it was. Scores are printed for real models only: the harness check runs
the same code on scripted replies, and says so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from benchmarks.reasoning.puzzles import LEVELS, MOST_LEVEL, Puzzle, puzzles
from plait import Toolbox
from plait.errors import RefusedError, ReplyError
from plait.models.weights import WEIGHTS, models_folder, weights_named
from plait.reasoning.backends.choose import (
    BackendChoice,
    choose,
    completer_for,
    detect_models,
)
from plait.reasoning.backends.http import LocalCompleter, RetryPolicy
from plait.reasoning.backends.port import Completer, Completion, Prompt, ScriptedCompleter
from plait.reasoning.backends.settings import (
    BackendPreference,
    ReasoningSettings,
    read_settings,
)
from plait.reasoning.prompts import PROMPTS
from plait.reasoning.reasoner import Reasoner
from plait.reasoning.results import result_data
from plait.reasoning.storage.database import database_from_text
from plait.reasoning.storage.sql import SqlStorage

ROOT = Path(__file__).resolve().parents[2]
SEQUENTIAL = ROOT / ".node/node_modules/.bin/mcp-server-sequential-thinking"
ANSWER_TOKENS = 130
"""Kept for the answer while notes are made."""
LEAST_TOKENS = 24
"""With less than this a model is not asked for a note."""
SEED = 20
PATIENCE_SECONDS = 86_400.0
"""For one reply of a local model: it may be paused, and a process that has ended is noticed."""
BUDGET = 400
"""The tokens that each way may write on a task, its answer included."""

BATCH = 4
"""The tasks of a kind after which the next way has its turn: a part of a run compares all ways."""

CALIBRATION_SEED = 7
CALIBRATION_TASKS = 8
LEAST_SHARE, MOST_SHARE = 0.2, 0.8
"""What the model alone must get right, so that a way can be better or worse."""

SHORT = {"maxLength": 240, "maxItems": 2}
"""Bounds of a reply by schema: JSON that is cut off by the budget is worth nothing."""

BEGIN, END = "<!-- results -->", "<!-- end of results -->"
"""What is around the results in a page."""

ANSWER_SYSTEM = "You solve puzzles. Answer with a JSON object as in the example."


class BudgetEndedError(Exception):
    """No tokens are left for thinking."""


class Budgeted(Completer):
    """Lets a model write a limited number of tokens, and keeps some of them for the answer."""

    def __init__(self, inner: Completer, tokens: int) -> None:
        self.name = inner.name
        self._inner = inner
        self.left = tokens
        self.calls = self.input_tokens = self.output_tokens = 0

    def describe(self) -> str:
        """Describe the model."""
        return self._inner.describe()

    async def complete(self, prompt: Prompt) -> Completion:
        """Ask the model for what the budget allows."""
        allowed = self.left - (0 if prompt.pipe == "answer" else ANSWER_TOKENS)
        if allowed < LEAST_TOKENS:
            raise BudgetEndedError
        done = await self._inner.complete(
            replace(
                prompt,
                max_tokens=min(prompt.max_tokens, allowed),
                temperature=0.0,
                schema=short(prompt.schema),
            )
        )
        written = done.output_tokens or math.ceil(len(done.text.encode()) / 4)
        self.left -= written
        self.calls += 1
        self.input_tokens += done.input_tokens or 0
        self.output_tokens += written
        return done


def short(schema: Any) -> Any:
    """Return a schema whose texts and lists are short enough for the budget."""
    if isinstance(schema, list):
        return [short(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    made = {key: short(item) for key, item in cast("dict[str, Any]", schema).items()}
    for key, most in SHORT.items():
        if isinstance(made.get(key), int):
            made[key] = min(made[key], most)
    return made


@dataclass(frozen=True)
class Bench:
    """What a way of reasoning has to work with."""

    reasoner: Reasoner
    completer: Budgeted
    box: Toolbox | None
    notes: list[str] = field(default_factory=list[str])
    """What was thought so far; it counts when the budget ends, too."""

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a reasoning tool."""
        return result_data(await self.reasoner.call(f"reasoning_{tool}", arguments))


async def plain(_bench: Bench, _puzzle: Puzzle) -> None:
    """Think nothing beforehand."""


async def linear(bench: Bench, puzzle: Puzzle) -> None:
    """Take two steps."""
    session = f"linear-{puzzle.key}"
    content = brief(puzzle)
    for _ in range(2):
        step = await bench.call("linear", content=content, session_id=session)
        bench.notes.append(step["content"])
        content = "Take the next step towards the answer."


async def tree(bench: Bench, puzzle: Puzzle) -> None:
    """Open two ways, follow the better one for a step."""
    session = f"tree-{puzzle.key}"
    opened = await bench.call("tree", content=brief(puzzle), session_id=session, num_branches=2)
    best = opened["child_branches"][opened["recommended_branch_index"]]
    bench.notes.extend([best["name"], best["rationale"]])
    await bench.call("tree_focus", session_id=session, branch_id=best["id"])
    step = await bench.call("linear", content="Work this way out.", session_id=session)
    bench.notes.append(step["content"])


async def got(bench: Bench, puzzle: Puzzle) -> None:
    """Grow a small graph, and join its two nodes."""
    question = brief(puzzle)
    begun = await bench.call("got_init", content=question, problem=question)
    session = begun["session_id"]
    grown = await bench.call("got_generate", session_id=session, k=2)
    nodes = grown["continuations"]
    bench.notes.extend(node["content"] for node in nodes)
    if len(nodes) > 1:
        ids = [node["node_id"] for node in nodes]
        joined = await bench.call("got_aggregate", session_id=session, node_ids=ids)
        bench.notes[:] = [joined["content"]]


async def reflection(bench: Bench, puzzle: Puzzle) -> None:
    """Take a step, examine it, and go back and take another if it is weak."""
    session = f"reflection-{puzzle.key}"
    step = await bench.call("linear", content=brief(puzzle), session_id=session)
    bench.notes.append(step["content"])
    point = await bench.call("checkpoint_create", session_id=session, name="first step")
    found = await bench.call("reflection", thought_id=step["thought_id"], max_iterations=1)
    if found["quality_score"] < 0.7:
        again = await bench.call(
            "backtrack", checkpoint_id=point["id"], new_direction=f"Mind this: {found['analysis']}"
        )
        bench.notes[:] = [again["content"]]


async def sequential(bench: Bench, puzzle: Puzzle) -> None:
    """Think with the sequential-thinking server, two thoughts."""
    assert bench.box is not None
    for number in (1, 2):
        before = "\n".join(bench.notes)
        prompt = Prompt(
            pipe="thought",
            system="You solve a problem step by step. Write the next thought only.",
            user=f"{brief(puzzle)}\n\nThoughts so far:\n{before or 'none'}",
            temperature=0.0,
            max_tokens=100,
            json=False,
        )
        thought = (await bench.completer.complete(prompt)).text.strip() or "…"
        arguments = {
            "thought": thought,
            "thoughtNumber": number,
            "totalThoughts": 2,
            "nextThoughtNeeded": number < 2,
        }
        await bench.box.call("sequential", "sequentialthinking", arguments)
        bench.notes.append(thought)


def brief(puzzle: Puzzle) -> str:
    """Return the question as it is thought about; the budget has no room for long texts."""
    return f"{puzzle.question}\n\nWrite results, not plans: at most two short sentences a text."


WAYS: dict[str, Callable[[Bench, Puzzle], Awaitable[None]]] = {
    "plain": plain,
    "linear": linear,
    "tree": tree,
    "got": got,
    "reflection + backtrack": reflection,
    "sequential-thinking": sequential,
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One task, done one way."""

    model: str
    seed: int
    budget: int
    way: str
    task: str
    kind: str
    answer: str
    thoughts: list[str]
    right: bool
    calls: int
    input_tokens: int
    output_tokens: int
    seconds: float

    @property
    def run(self) -> tuple[str, int, int, str, str]:
        """What is run once only."""
        return self.model, self.seed, self.budget, self.way, self.task

    @property
    def level(self) -> int:
        """How hard the task was."""
        return int(self.task.split("-")[-2])

    def line(self) -> str:
        """Return the outcome for a reader."""
        word = "right" if self.right else "wrong"
        cost = f"{self.output_tokens:4} tokens {self.calls} calls {self.seconds:6.1f} s"
        return f"{self.task:12} {self.way:24} {word} {cost}  {self.answer[:60]}"


async def answer(bench: Bench, puzzle: Puzzle, way: str) -> dict[str, Any]:
    """Think, and return the answer of the model; nothing if it is no JSON."""
    # It thinks as far as it comes; only a model that does not answer ends the run.
    with suppress(BudgetEndedError, ReplyError, RefusedError):
        await WAYS[way](bench, puzzle)
    known = "\n".join(note for note in bench.notes if note)
    fields = {"steps": {"type": "string", "maxLength": 240}, **puzzle.fields}
    prompt = Prompt(
        pipe="answer",
        system=ANSWER_SYSTEM,
        user=puzzle.question + (f"\n\nNotes:\n{known}" if known else ""),
        temperature=0.0,
        max_tokens=bench.completer.left,
        schema={"type": "object", "properties": fields, "required": [*fields]},
    )
    text = (await bench.completer.complete(prompt)).text
    try:
        reply: Any = json.loads(text)
    except ValueError:
        return {}
    return cast("dict[str, Any]", reply) if isinstance(reply, dict) else {}


@dataclass(frozen=True)
class Evaluation:
    """Runs tasks with one model, and keeps the outcomes in a file."""

    model: str
    inner: Completer
    budget: int
    path: Path
    store: SqlStorage
    box: Toolbox | None
    done: dict[tuple[Any, ...], Outcome]
    """By what was run."""

    async def outcome(self, way: str, kind: str, puzzle: Puzzle, seed: int) -> Outcome:
        """Return the outcome of a task; one that is in the file is not run again."""
        if found := self.done.get((self.model, seed, self.budget, way, puzzle.key)):
            return found
        completer = Budgeted(self.inner, self.budget)
        bench = Bench(Reasoner(self.store, completer), completer, self.box)
        began = time.monotonic()
        reply = await answer(bench, puzzle, way)
        outcome = Outcome(
            model=self.model,
            seed=seed,
            budget=self.budget,
            way=way,
            task=puzzle.key,
            kind=kind,
            answer=json.dumps({name: reply.get(name) for name in puzzle.fields}),
            thoughts=[*bench.notes, str(reply.get("steps"))],
            right=puzzle.check(reply),
            calls=completer.calls,
            input_tokens=completer.input_tokens,
            output_tokens=completer.output_tokens,
            seconds=round(time.monotonic() - began, 2),
        )
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
        print(outcome.line(), flush=True)
        return outcome

    async def calibrate(self, kind: str) -> int:
        """Return the level at which the model alone is right most nearly half of the time.

        Other tasks are used for this than for the scores.
        """
        level, shares = LEVELS[kind], dict[int, float]()
        while level not in shares:
            tasks = puzzles(kind, CALIBRATION_TASKS, seed=CALIBRATION_SEED, level=level)
            rights = [
                (await self.outcome("plain", kind, task, CALIBRATION_SEED)).right for task in tasks
            ]
            share = shares[level] = sum(rights) / len(rights)
            if share > MOST_SHARE:
                level = min(level + 1, MOST_LEVEL)
            elif share < LEAST_SHARE:
                level = max(level - 1, 1)
        return min(shares, key=lambda one: abs(shares[one] - 0.5))

    async def compare(
        self, kind: str, ways: Sequence[str], tasks: Sequence[Puzzle], seed: int
    ) -> None:
        """Do tasks of a kind: some in one way, then in the next."""
        for start in range(0, len(tasks), BATCH):
            for way in ways:
                for puzzle in tasks[start : start + BATCH]:
                    await self.outcome(way, kind, puzzle, seed)


async def evaluate(options: argparse.Namespace, inner: Completer, model: str) -> None:
    """Run what is not in the results file yet, the kinds of tasks side by side.

    A model that runs on a CPU writes four texts together in half the time; and as the prompts of
    one way and kind begin alike, it reads that beginning once.
    """
    path = Path(options.results)
    path.parent.mkdir(parents=True, exist_ok=True)
    ways = [way for way in WAYS if not options.way or way in options.way]
    if not SEQUENTIAL.exists() and "sequential-thinking" in ways:
        print(f"without sequential-thinking: {SEQUENTIAL.name} is not in .node", file=sys.stderr)
        ways.remove("sequential-thinking")
    has_peer = "sequential-thinking" in ways
    peer = Toolbox({"sequential": {"command": str(SEQUENTIAL)}}) if has_peer else nullcontext()
    done = {one.run: one for one in read_outcomes(path)}
    count = math.ceil(options.tasks / len(LEVELS))
    with tempfile.TemporaryDirectory() as folder:
        store = SqlStorage(database_from_text(f"{folder}/reasoning.db"))
        await store.open()
        try:
            async with peer as box, asyncio.TaskGroup() as kinds:
                here = Evaluation(model, inner, options.budget, path, store, box, done)

                async def work(kind: str) -> None:
                    level = options.level
                    if level is None:
                        fixed = options.harness_check
                        level = LEVELS[kind] if fixed else await here.calibrate(kind)
                    tasks = puzzles(kind, count, seed=options.seed, level=level)
                    await here.compare(kind, ways, tasks, options.seed)

                for kind in options.kind or LEVELS:
                    kinds.create_task(work(kind))
        finally:
            await store.aclose()


def read_outcomes(path: Path) -> list[Outcome]:
    """Read the results so far; a line that was cut off is left out."""
    found: list[Outcome] = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            found.append(Outcome(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found


def wilson(right: int, count: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a share."""
    if not count:
        return 0.0, 1.0
    z, share = 1.96, right / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count**2))
    spread /= 1 + z * z / count
    return max(0.0, middle - spread), min(1.0, middle + spread)


def table(outcomes: Sequence[Outcome]) -> str:
    """Return results as a Markdown table; won and lost are tasks where it differs from plain.

    Written and read are tokens; these, calls and seconds are means of a task.
    """
    lines = [
        "| Way | Tasks | Right | 95 % interval | Won, lost | Written | Read | Calls | Seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    alone = {one.task: one.right for one in outcomes if one.way == "plain"}
    for way in WAYS:
        own = [one for one in outcomes if one.way == way]
        if not own:
            continue
        count, right = len(own), sum(one.right for one in own)
        low, high = wilson(right, count)
        won = sum(one.right and not alone.get(one.task, True) for one in own)
        lost = sum(not one.right and alone.get(one.task, False) for one in own)
        facts = (
            sum(one.output_tokens for one in own) / count,
            sum(one.input_tokens for one in own) / count,
            sum(one.calls for one in own) / count,
            sum(one.seconds for one in own) / count,
        )
        means = f"{facts[0]:.0f} | {facts[1]:.0f} | {facts[2]:.1f} | {facts[3]:.1f}"
        share = f"{right / count:.0%} | {low:.0%}–{high:.0%}"
        lines.append(f"| {way} | {count} | {share} | {won}, {lost} | {means} |")
    return "\n".join(lines)


def table_by_kind(outcomes: Sequence[Outcome]) -> str:
    """Return the right answers of each way and kind of task as a Markdown table."""
    kinds = [*LEVELS]
    lines = [f"| Way | {' | '.join(kinds)} |", f"| --- |{' --- |' * len(kinds)}"]
    for way in WAYS:
        own = [[one.right for one in outcomes if (one.way, one.kind) == (way, k)] for k in kinds]
        if any(own):
            shares = " | ".join(f"{sum(rights)} of {len(rights)}" for rights in own)
            lines.append(f"| {way} | {shares} |")
    return "\n".join(lines)


def report(path: Path) -> str:
    """Return the tables of every run in a results file."""
    outcomes = read_outcomes(path)
    parts: list[str] = []
    for model, seed, budget in dict.fromkeys((o.model, o.seed, o.budget) for o in outcomes):
        own = [o for o in outcomes if (o.model, o.seed, o.budget) == (model, seed, budget)]
        digest = f", SHA-256 {WEIGHTS[model].sha256}" if model in WEIGHTS else ""
        tasks = len({one.task for one in own})
        head = f"Model {model}{digest}; seed {seed}, {tasks} tasks, budget {budget} tokens."
        if seed == CALIBRATION_SEED:
            parts += [f"Calibration. {head}", table_of_levels(own)]
        else:
            parts += [head, table(own), table_by_kind(own)]
    return "\n\n".join(parts)


def write(page: Path, tables: str) -> None:
    """Replace the results in a page, and name the machine."""
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    machine = f"Machine: {platform.system()}, {platform.machine()}, {os.cpu_count()} cores."
    page.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{machine}\n\n{END}{after}", "utf-8")


def table_of_levels(outcomes: Sequence[Outcome]) -> str:
    """Return how often the model alone was right at each level as a Markdown table."""
    lines = ["| Kind | Level | Right |", "| --- | --- | --- |"]
    for kind in LEVELS:
        levels = sorted({o.level for o in outcomes if o.kind == kind})
        for level in levels:
            rights = [o.right for o in outcomes if (o.kind, o.level) == (kind, level)]
            lines.append(f"| {kind} | {level} | {sum(rights)} of {len(rights)} |")
    return "\n".join(lines)


def _completer(choice: BackendChoice, settings: ReasoningSettings) -> Completer:
    if choice.backend != "local":
        return completer_for(choice, settings, prompts=PROMPTS)
    weights = weights_named(choice.model or "")
    return LocalCompleter(
        weights.path_in(models_folder()),
        model=weights.name,
        retry=RetryPolicy(timeout_seconds=PATIENCE_SECONDS),
        at_once=len(LEVELS),
    )


def scripted() -> ScriptedCompleter:
    """Return a stand-in for the harness check: valid replies, and the answer yes."""
    thought = {"thought": "a thought", "confidence": 0.6}
    view = {"thought": "a way", "confidence": 0.6, "rationale": "why"}
    return ScriptedCompleter(
        {
            "linear-reasoning-v1": thought,
            "backtracking-reasoning-v1": thought,
            "tree-reasoning-v1": {"branches": [view, view], "recommended_branch": 0},
            "got-generate-v1": {"continuations": [view, view]},
            "got-aggregate-v1": {"aggregated_thought": "both", "confidence": 0.6},
            "reflection-v1": {"analysis": "weak", "quality_score": 0.3},
            "*": {"steps": "", "km": 1},
        }
    )


async def main(arguments: Sequence[str] | None = None) -> int:
    """Run the evaluation, and print its table."""
    parser = argparse.ArgumentParser(description="Compare ways of reasoning.")
    parser.add_argument("--backend", help="the backend of the reasoning server")
    parser.add_argument("--model", help="the model of the backend")
    parser.add_argument("--base-url")
    parser.add_argument("--tasks", type=int, default=32)
    parser.add_argument(
        "--budget", type=int, default=BUDGET, help="tokens a task and way may write"
    )
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--way", action="append", choices=WAYS, help="this way only; repeatable")
    parser.add_argument("--kind", action="append", choices=LEVELS, help="this kind; repeatable")
    parser.add_argument("--level", type=int, choices=range(1, MOST_LEVEL + 1), help="of all tasks")
    parser.add_argument("--results", default=".bench/reasoning.jsonl")
    parser.add_argument("--harness-check", action="store_true")
    parser.add_argument("--table", action="store_true", help="print the results, and run nothing")
    parser.add_argument("--write", metavar="FILE", help="with --table: put the tables into a page")
    options = parser.parse_args(arguments)
    if options.table:
        tables = report(Path(options.results))
        print(tables)
        if options.write:
            write(Path(options.write), tables)
        return 0
    if options.harness_check:
        completer: Completer = scripted()
        name = "scripted"
    else:
        preference = BackendPreference(
            backend=options.backend, model=options.model, base_url=options.base_url
        )
        settings = read_settings(os.environ, preference=preference)
        choice = choose(settings, await detect_models(settings))
        if choice.backend in ("host", "sampling", "scripted"):
            print("No model is configured: see docs/reasoning/evaluation.md", file=sys.stderr)
            return 2
        completer = _completer(choice, settings)
        name = choice.model or completer.describe()
    await completer.open()
    try:
        await evaluate(options, completer, name)
    finally:
        await completer.aclose()
    if options.harness_check:
        count = len(read_outcomes(Path(options.results)))
        print(f"harness check: {count} tasks ran; these are no scores")
        return 0
    print(f"\n{report(Path(options.results))}")
    return 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
