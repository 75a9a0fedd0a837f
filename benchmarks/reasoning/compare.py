"""Compare ways of reasoning on the frozen tasks, with the same budget of written tokens for each.

    python -m benchmarks.reasoning.compare --backend local
    python -m benchmarks.reasoning.compare --table --write docs/reasoning/evaluation.md
    python -m benchmarks.reasoning.compare --backend local --seed 5 --wording a --tasks 2

Tasks, wordings, checkers and the list of ways are in `frozen`; the prompts are those of this file
and of plait, and `prompts.digest` holds them. Every finished task is a line of the results file, so
a run goes on where it was interrupted, on any machine. Other seeds are for trying things out.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from benchmarks.reasoning.frozen.tasks import (
    DRINKS,
    FAMILIES,
    FOLDER,
    NAMES,
    PETS,
    SEED,
    TASKS_PER_FAMILY,
    TOWNS,
    check,
    frozen_tasks,
    tasks_of,
)
from plait import Toolbox
from plait.errors import RefusedError, ReplyError
from plait.models.weights import WEIGHTS, models_folder, weights_named
from plait.reasoning.backends.ask_json import schema_of
from plait.reasoning.backends.choose import choose, completer_for, detect_models
from plait.reasoning.backends.http import LocalCompleter, RetryPolicy
from plait.reasoning.backends.port import Completer, Completion, Prompt, ScriptedCompleter
from plait.reasoning.backends.settings import BackendPreference, read_settings
from plait.reasoning.prompts import PROMPTS
from plait.reasoning.reasoner import Reasoner
from plait.reasoning.results import result_data
from plait.reasoning.solving.run import MAX_SECONDS
from plait.reasoning.solving.statement import STATEMENT_KINDS, StatedKind
from plait.reasoning.storage.database import database_from_text
from plait.reasoning.storage.sql import SqlStorage
from plait.verification.statistics import mcnemar_p_value, wilson_interval

BEGIN, END = "<!-- comparison -->", "<!-- end of comparison -->"
"""What is around the results in the page."""

HERE = Path(__file__).parent
SEQUENTIAL = HERE.parents[1] / ".node/node_modules/.bin/mcp-server-sequential-thinking"
RESULTS = HERE / "results.jsonl"
PROMPTS_DIGEST = HERE / "prompts.digest"
RULES: dict[str, Any] = json.loads((FOLDER / "ways.json").read_text("utf-8"))
BUDGET: int = RULES["budget_tokens"]
ANSWER_TOKENS = 160
"""Kept for the answer while notes are made."""
SAMPLE_STEPS_TOKENS = 150
"""For the steps before a sampled answer: a budget has room for four or five of them."""
THOUGHT_TOKENS = 200
LEAST_TOKENS = 24
"""With less than this a model is not asked for a note."""
SAMPLING_TEMPERATURE = 0.8
PATIENCE_SECONDS = 86_400.0
"""For one reply of a local model: it may be paused, and a process that has ended is noticed."""
SHORT = {"maxLength": 240, "maxItems": 2}
"""Bounds of a reply by schema: JSON that is cut off by the budget is worth nothing."""
MAX_CANDIDATES = 2_000_000
AT_ONCE = 4

STEPS_SYSTEM = "You solve puzzles. Think step by step, in short sentences, and reach a result."
ANSWER_SYSTEM = (
    "You write down the answer to a question, as JSON. If there are notes, follow their result."
)
THOUGHT_SYSTEM = "You solve a problem step by step. Write the next thought only."
BRIEF = "Write results, not plans."


def digest_of_prompts() -> str:
    """Return the digest of everything that the ways tell a model."""
    texts = [STEPS_SYSTEM, ANSWER_SYSTEM, THOUGHT_SYSTEM, BRIEF]
    shapes = [StatedKind, *(kind.reply_type for kind in STATEMENT_KINDS.values())]
    texts += [json.dumps(schema_of(shape), sort_keys=True) for shape in shapes]
    texts += [kind.prompt for kind in STATEMENT_KINDS.values()]
    texts += [PROMPTS[mode] for mode in ("linear", "tree", "solve")]
    limits = (ANSWER_TOKENS, SAMPLE_STEPS_TOKENS, THOUGHT_TOKENS, SAMPLING_TEMPERATURE, BUDGET)
    return hashlib.sha256("\0".join([*texts, str(limits)]).encode()).hexdigest()


def digest_of_tasks() -> str:
    """Return the digest of the frozen folder."""
    return (FOLDER / "digest.txt").read_text("utf-8").split()[-2]


class BudgetEndedError(Exception):
    """No tokens are left for thinking."""


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
        # Answers and statements have limits of their own; the thoughts of the modes are cut short,
        # so that they end as JSON.
        is_whole = prompt.pipe in ("answer", "problem-statement-v1")
        schema = prompt.schema if is_whole else short(prompt.schema)
        most = min(prompt.max_tokens, allowed)
        done = await self._inner.complete(replace(prompt, max_tokens=most, schema=schema))
        written = done.output_tokens or math.ceil(len(done.text.encode()) / 4)
        self.left -= written
        self.calls += 1
        self.input_tokens += done.input_tokens or 0
        self.output_tokens += written
        return done


@dataclass
class Bench:
    """What a way of reasoning has to work with, and what came of it."""

    task: dict[str, Any]
    completer: Budgeted
    reasoner: Reasoner
    box: Toolbox | None
    notes: list[str] = field(default_factory=list[str])
    cause: str = ""
    """Why `solve` could not be right, if it was not."""
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def question(self) -> str:
        """The question of the task."""
        return self.task["question"]

    async def text(self, system: str, user: str, tokens: int, temperature: float) -> str:
        """Have the model write a text."""
        prompt = Prompt(
            pipe="thought",
            system=system,
            user=user,
            temperature=temperature,
            max_tokens=tokens,
            json=False,
        )
        return (await self.completer.complete(prompt)).text.strip()

    async def answer(self, notes: Sequence[str], temperature: float = 0.0) -> Any:
        """Have the model write the answer; nonsense is no answer."""
        known = "\n".join(note for note in notes if note)
        schema = {"type": "object", "properties": {"answer": answer_schema(self.task)}}
        prompt = Prompt(
            pipe="answer",
            system=ANSWER_SYSTEM,
            user=self.question + (f"\n\nNotes:\n{known}" if known else ""),
            temperature=temperature,
            max_tokens=min(ANSWER_TOKENS, self.completer.left),
            schema={**schema, "required": ["answer"], "additionalProperties": False},
        )
        try:
            reply: Any = json.loads((await self.completer.complete(prompt)).text)
        except ValueError:
            return None
        return cast("dict[str, Any]", reply).get("answer") if isinstance(reply, dict) else None

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a reasoning tool."""
        return result_data(await self.reasoner.call(f"reasoning_{tool}", arguments))


def answer_schema(task: dict[str, Any]) -> dict[str, Any]:
    """Return the form of an answer, the same for every way; it does not tell which is right."""
    data = task["data"]

    def one_of(names: Sequence[str]) -> dict[str, Any]:
        return {"type": "string", "enum": [*names]}

    def list_of(item: dict[str, Any], most: int) -> dict[str, Any]:
        return {"type": "array", "items": item, "maxItems": most}

    def object_of(names: Sequence[str], value: dict[str, Any]) -> dict[str, Any]:
        properties = dict.fromkeys(names, value)
        return {"type": "object", "properties": properties, "required": [*names]}

    match task["family"], task["level"]:
        case "puzzle", 1:
            pair = {**list_of(one_of((*DRINKS, *PETS)), 2), "minItems": 2}
            return object_of(NAMES[:4], pair)
        case "puzzle", _:
            return list_of(one_of(NAMES), len(NAMES))
        case "route", _:
            return list_of(one_of(TOWNS), len(TOWNS))
        case "rota", _:
            return object_of(data["days"], one_of(data["staff"]))
        case "rules", _:
            return list_of(one_of(data["asked"]), len(data["asked"]))
        case "jugs", _:
            jugs = "ABC"[: len(data["sizes"])]
            moves = [f"{word} {jug}" for word in ("fill", "empty") for jug in jugs]
            moves += [f"pour {a} {b}" for a in jugs for b in jugs if a != b]
            return list_of(one_of(moves), 20)
        case _:
            return {"type": "string", "maxLength": 60}


async def plain(bench: Bench) -> Any:
    """Write steps, then the answer."""
    bench.notes.append(await bench.text(STEPS_SYSTEM, bench.question, BUDGET, 0.0))
    return await bench.answer(bench.notes)


async def _sample(bench: Bench) -> Any:
    """Draw one answer, with steps of its own."""
    steps = await bench.text(
        STEPS_SYSTEM, bench.question, SAMPLE_STEPS_TOKENS, SAMPLING_TEMPERATURE
    )
    return await bench.answer([steps], SAMPLING_TEMPERATURE)


async def sampled(bench: Bench, is_right: Callable[[Any], bool] | None) -> Any:
    """Draw answers until one passes, or the budget is used; then the most frequent one counts."""
    drawn: list[str] = []
    with suppress(BudgetEndedError):
        while True:
            found = await _sample(bench)
            if found is not None:
                drawn.append(json.dumps(found, sort_keys=True))
            if is_right is not None and is_right(found):
                break
    bench.facts["drawn"] = len(drawn)
    if not drawn:
        return None
    if is_right is not None:
        return json.loads(drawn[-1])
    return json.loads(Counter(drawn).most_common(1)[0][0])


async def self_consistency(bench: Bench) -> Any:
    """Let the most frequent answer count."""
    return await sampled(bench, None)


async def sample_and_check(bench: Bench) -> Any:
    """Draw until the checker of the question is content."""
    return await sampled(bench, lambda found: check(bench.task, found))


async def tree(bench: Bench) -> Any:
    """Open ways, follow the best for as long as the budget lasts."""
    session = f"tree-{bench.task['id']}"
    with suppress(BudgetEndedError, ReplyError, RefusedError):
        question = f"{bench.question}\n\n{BRIEF}"
        opened = await bench.call("tree", content=question, session_id=session, num_branches=3)
        best = opened["child_branches"][opened["recommended_branch_index"]]
        bench.notes.extend([best["name"], best["rationale"]])
        await bench.call("tree_focus", session_id=session, branch_id=best["id"])
        for content in ("Work this way out.", "Take the next step.", "State the result."):
            step = await bench.call("linear", content=content, session_id=session)
            bench.notes.append(step["content"])
    return await bench.answer(bench.notes)


async def sequential(bench: Bench) -> Any:
    """Think with the sequential-thinking server, four thoughts."""
    assert bench.box is not None
    with suppress(BudgetEndedError):
        for number in range(1, 5):
            before = "\n".join(bench.notes) or "none"
            user = f"{bench.question}\n\n{BRIEF}\n\nThoughts so far:\n{before}"
            thought = await bench.text(THOUGHT_SYSTEM, user, THOUGHT_TOKENS, 0.0) or "…"
            arguments = {
                "thought": thought,
                "thoughtNumber": number,
                "totalThoughts": 4,
                "nextThoughtNeeded": number < 4,
            }
            await bench.box.call("sequential", "sequentialthinking", arguments)
            bench.notes.append(thought)
    return await bench.answer(bench.notes)


async def solve(bench: Bench) -> Any:
    """State the problem, have it solved, and write the answer down."""
    solved: dict[str, Any] = {"status": "malformed"}
    try:
        solved = await bench.call("solve", content=bench.question, seconds=MAX_SECONDS)
        bench.facts.update(statement=solved.get("statement"), status=solved["status"])
        bench.notes.append(f"A solver found: {solved['text']}")
    except (BudgetEndedError, ReplyError, RefusedError) as error:
        bench.facts["error"] = type(error).__name__
    found = await bench.answer(bench.notes)
    if solved["status"] == "malformed":
        bench.cause = "malformed"
    elif any(check(bench.task, one) for one in answers_in(solved.get("solution") or {})):
        # The solver had it, and it was written down wrongly.
        bench.cause = "wrong"
    else:
        bench.cause = "misread"
    return found


def answers_in(solution: dict[str, Any]) -> Iterator[Any]:
    """Yield what a solution may be as an answer of a family."""
    for name in ("route", "order", "follows"):
        if name in solution:
            yield solution[name]
    yield solution
    owned: dict[str, list[str]] = {}
    for item, owner in solution.items():
        if isinstance(owner, str):
            owned.setdefault(owner, []).append(item)
    yield owned
    yield [one for one, _place in sorted(solution.items(), key=lambda pair: str(pair[1]))]


async def enumeration(bench: Bench) -> Any:
    """Go through candidates in a fixed order, without a model."""
    candidates = FAMILIES[bench.task["family"]].answers(bench.task["data"])
    for number, candidate in enumerate(candidates, 1):
        if check(bench.task, candidate):
            bench.facts["candidates"] = number
            return candidate
        if number >= MAX_CANDIDATES:
            break
    return None


WAYS: dict[str, Callable[[Bench], Awaitable[Any]]] = {
    "plain": plain,
    "self-consistency": self_consistency,
    "sample-and-check": sample_and_check,
    "tree": tree,
    "sequential-thinking": sequential,
    "solve": solve,
    "enumeration": enumeration,
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One task, done one way."""

    model: str
    seed: int
    prompts: str
    way: str
    task: str
    family: str
    level: int
    wording: str
    right: bool
    answer: Any
    cause: str
    facts: dict[str, Any]
    notes: list[str]
    calls: int
    input_tokens: int
    output_tokens: int
    seconds: float

    @property
    def run(self) -> tuple[str, str, str, str]:
        """What is run once only; the control has no model."""
        return self.model if self.way != "enumeration" else "", self.prompts, self.way, self.task


def read_outcomes(path: Path) -> list[Outcome]:
    """Read the results so far; a line that was cut off is left out."""
    found: list[Outcome] = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        with suppress(ValueError, TypeError):
            found.append(Outcome(**json.loads(line)))
    return found


def end_last_line(path: Path) -> None:
    """End the line that was being written when a run was ended, which would swallow the next."""
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        with path.open("a", encoding="utf-8") as file:
            file.write("\n")


@dataclass(frozen=True)
class Evaluation:
    """Runs tasks with one model, and keeps the outcomes in a file."""

    model: str
    inner: Completer
    path: Path
    store: SqlStorage
    box: Toolbox | None
    seed: int
    done: set[tuple[str, str, str, str]]

    async def outcome(self, way: str, task: dict[str, Any]) -> None:
        """Do a task, unless it is in the file."""
        prompts = digest_of_prompts()
        model = self.model if way != "enumeration" else ""
        if (model, prompts, way, task["id"]) in self.done:
            return
        completer = Budgeted(self.inner, BUDGET)
        bench = Bench(task, completer, Reasoner(self.store, completer), self.box)
        began = time.monotonic()
        found: Any = None
        with suppress(BudgetEndedError):
            found = await WAYS[way](bench)
        right = check(task, found)
        outcome = Outcome(
            model=self.model,
            seed=self.seed,
            prompts=prompts,
            way=way,
            task=task["id"],
            family=task["family"],
            level=task["level"],
            wording=task["wording"],
            right=right,
            answer=found,
            cause="" if right else bench.cause,
            facts=bench.facts,
            notes=bench.notes,
            calls=completer.calls,
            input_tokens=completer.input_tokens,
            output_tokens=completer.output_tokens,
            seconds=round(time.monotonic() - began, 2),
        )
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome), ensure_ascii=False) + "\n")
        word = "right" if right else f"wrong {outcome.cause}"
        print(f"{task['id']:20} {way:20} {word:16} {outcome.output_tokens:5} tokens", flush=True)


def holm(p_values: dict[str, float]) -> dict[str, float]:
    """Correct p values for their number, by Holm's method."""
    corrected: dict[str, float] = {}
    highest = 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda one: one[1])):
        highest = max(highest, min(1.0, p * (len(p_values) - rank)))
        corrected[name] = highest
    return corrected


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a Markdown table; each way is compared with plain on the tasks that both did."""
    lines = [
        "| Way | Tasks | Right | Interval | Won, lost | p | Written | Read | Calls | Seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    alone = {one.task: one.right for one in outcomes if one.way == "plain"}
    pairs: dict[str, tuple[int, int]] = {}
    for way in WAYS:
        own = [one for one in outcomes if one.way == way and one.task in alone]
        won = sum(one.right and not alone[one.task] for one in own)
        pairs[way] = won, sum(alone[one.task] and not one.right for one in own)
    # The control is no way of reasoning: it is not among the comparisons.
    tested = [
        way
        for way in WAYS
        if way not in ("plain", "enumeration") and any(one.way == way for one in outcomes)
    ]
    p_values = holm({way: mcnemar_p_value(*pairs[way]) for way in tested})
    for way in WAYS:
        own = [one for one in outcomes if one.way == way]
        if not own:
            continue
        count, right = len(own), sum(one.right for one in own)
        interval = wilson_interval(right, count)
        p = f"{p_values[way]:.3g}" if way in p_values else ""
        means = [
            sum(getattr(one, name) for one in own) / count
            for name in ("output_tokens", "input_tokens", "calls", "seconds")
        ]
        lines.append(
            f"| {way} | {count} | {right / count:.0%} | {interval.low:.0%}–{interval.high:.0%} | "
            f"{pairs[way][0]}, {pairs[way][1]} | {p} | {means[0]:.0f} | {means[1]:.0f} | "
            f"{means[2]:.1f} | {means[3]:.1f} |"
        )
    return "\n".join(lines)


def table_of_groups(outcomes: Sequence[Outcome]) -> str:
    """Return how many answers of each way are right, by family and by wording."""
    groups = [
        *dict.fromkeys(one.family for one in outcomes),
        *sorted({f"wording {one.wording}" for one in outcomes}),
    ]
    lines = [f"| Way | {' | '.join(groups)} |", f"| --- |{' --- |' * len(groups)}"]
    for way in WAYS:
        own = [one for one in outcomes if one.way == way]
        cells: list[str] = []
        for group in groups:
            right = [o.right for o in own if group in (o.family, f"wording {o.wording}")]
            cells.append(f"{sum(right)}/{len(right)}" if right else "–")
        if own:
            lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def report(path: Path) -> str:
    """Return the tables of every run in a results file."""
    outcomes = read_outcomes(path)
    parts: list[str] = []
    for model, seed, prompts in dict.fromkeys((o.model, o.seed, o.prompts) for o in outcomes):
        own = [o for o in outcomes if (o.model, o.seed, o.prompts) == (model, seed, prompts)]
        weights = f", SHA-256 {WEIGHTS[model].sha256}" if model in WEIGHTS else ""
        begun = {one.task for one in own}
        ways = {one.way for one in own}
        ended = sum(ways == {one.way for one in own if one.task == task} for task in begun)
        parts.append(
            f"Model {model}{weights}; seed {seed}, {len(begun)} tasks, budget {BUDGET} tokens; "
            f"tasks {digest_of_tasks()[:16]}, prompts {prompts[:16]}."
        )
        if seed == SEED:
            total = TASKS_PER_FAMILY * len(FAMILIES)
            parts.append(
                f"{ended} of the {total} tasks are done in {len(ways)} of {len(WAYS)} ways."
            )
        parts += [table(own), table_of_groups(own)]
        causes = Counter(one.cause for one in own if one.way == "solve" and not one.right)
        if causes:
            told = ", ".join(f"{cause} {number}" for cause, number in causes.items())
            parts.append(f"Failures of `solve`: {told}.")
    return "\n\n".join(parts)


def write(page: Path, tables: str) -> None:
    """Replace the results in a page, and name the machine."""
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    machine = f"Machine: {platform.system()}, {platform.machine()}, {os.cpu_count()} cores."
    page.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{machine}\n\n{END}{after}", "utf-8")


def chosen_tasks(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the frozen tasks, or those of another seed; families change in turn."""
    families = options.family or [*FAMILIES]
    if options.seed == SEED:
        tasks = frozen_tasks()
    else:
        tasks = [task for family in FAMILIES for task in tasks_of(options.seed, family)]
    by_family = [
        [
            task
            for task in tasks
            if task["family"] == family and options.wording in (None, task["wording"])
        ][: options.tasks]
        for family in families
    ]
    # Of four tasks in turn, the first two have both levels and both wordings.
    order = sorted(range(max(map(len, by_family))), key=lambda n: (n // 4, (0, 2, 3, 1)[n % 4]))
    return [group[n] for n in order for group in by_family if n < len(group)]


async def evaluate(options: argparse.Namespace, inner: Completer, model: str) -> None:
    """Run what is not in the results file yet, a few tasks at once."""
    path = Path(options.results)
    ways = [way for way in WAYS if not options.way or way in options.way]
    if not SEQUENTIAL.exists() and "sequential-thinking" in ways:
        print(f"without sequential-thinking: {SEQUENTIAL.name} is not in .node", file=sys.stderr)
        ways.remove("sequential-thinking")
    has_peer = "sequential-thinking" in ways
    # A machine under load is no failure of a way.
    patient = {"command": str(SEQUENTIAL), "timeout": 3_600}
    peer = Toolbox({"sequential": patient}) if has_peer else nullcontext()
    done = {one.run for one in read_outcomes(path)}
    end_last_line(path)
    slots = asyncio.Semaphore(AT_ONCE)
    with tempfile.TemporaryDirectory() as folder:
        store = SqlStorage(database_from_text(f"{folder}/reasoning.db"))
        await store.open()
        try:
            async with peer as box:
                here = Evaluation(model, inner, path, store, box, options.seed, done)

                async def work(way: str, task: dict[str, Any]) -> None:
                    async with slots:
                        await here.outcome(way, task)

                # In this order, a part of a run compares all ways and families.
                async with asyncio.TaskGroup() as group:
                    for task in chosen_tasks(options):
                        for way in ways:
                            group.create_task(work(way, task))
        finally:
            await store.aclose()


def scripted() -> ScriptedCompleter:
    """Return a stand-in that has nothing to say, to run the same code without a model."""
    view = {"thought": "a way", "confidence": 0.6, "rationale": "why"}
    kind = {"each": "statement", "gets": "true or false", "kind": "rules"}
    statement = {**kind, "about": "b", "facts": ["a"], "rules": [], "ask": ["a"]}
    return ScriptedCompleter(
        {
            "linear-reasoning-v1": {"thought": "a thought", "confidence": 0.6},
            "tree-reasoning-v1": {"branches": [view, view], "recommended_branch": 0},
            "problem-statement-v1": statement,
            "thought": "a thought",
            "answer": {"answer": []},
        }
    )


async def main(arguments: Sequence[str] | None = None) -> int:
    """Run the evaluation, and print its tables."""
    parser = argparse.ArgumentParser(description="Compare ways of reasoning on the frozen tasks.")
    parser.add_argument("--backend", help="the backend of the reasoning server")
    parser.add_argument("--model", help="the model of the backend")
    parser.add_argument("--base-url")
    parser.add_argument("--seed", type=int, default=SEED, help="another one than 370 is a trial")
    parser.add_argument("--tasks", type=int, default=20, help="of each family")
    parser.add_argument("--wording", choices=["a", "b"])
    parser.add_argument("--way", action="append", choices=WAYS, help="this way only; repeatable")
    parser.add_argument("--family", action="append", choices=FAMILIES, help="repeatable")
    parser.add_argument("--results", default=str(RESULTS))
    parser.add_argument("--harness-check", action="store_true")
    parser.add_argument("--table", action="store_true", help="print the results, and run nothing")
    parser.add_argument("--write", metavar="FILE", help="with --table: put them into a page")
    parser.add_argument("--freeze-prompts", action="store_true", help="write prompts.digest")
    options = parser.parse_args(arguments)
    if options.freeze_prompts:
        PROMPTS_DIGEST.write_text(f"{digest_of_prompts()}\n", "utf-8")
        return 0
    if options.table:
        tables = report(Path(options.results))
        print(tables)
        if options.write:
            write(Path(options.write), tables)
        return 0
    if options.seed == SEED and PROMPTS_DIGEST.read_text("utf-8").strip() != digest_of_prompts():
        print("The prompts are not the frozen ones; try them with another seed", file=sys.stderr)
        return 2
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
        name = choice.model or choice.backend
        if choice.backend == "local":
            weights = weights_named(choice.model or "")
            completer = LocalCompleter(
                weights.path_in(models_folder()),
                model=weights.name,
                retry=RetryPolicy(timeout_seconds=PATIENCE_SECONDS),
                at_once=AT_ONCE,
            )
        else:
            completer = completer_for(choice, settings)
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
