"""`plait run --tasks`: the tasks of a file at the same time, one trace each, without those done."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import click
from rich.text import Text

from plait.agents.batch import BatchOutcome, BatchTask, run_batch
from plait.agents.factory import get_agent
from plait.agents.live_agent import LiveAgent
from plait.agents.port import AgentPort
from plait.cli.exits import Exit, exit_code_for
from plait.cli.run_agent import (
    STATUS_EXITS,
    RunPlan,
    SignalName,
    client_config,
    stopped_by_signals,
    tool_callbacks,
)
from plait.cli.run_options import read_image
from plait.cli.run_screen import RunScreen
from plait.cli.terminal import count_label, print_text, visible, visible_line
from plait.cli.trace_view import usage_label
from plait.traces.messages.message import Message, UsageMetadata

_KEYS = frozenset({"id", "task", "system", "images"})


def read_tasks(file: str) -> list[BatchTask]:
    """Read a file of tasks: each line is a JSON text, or an object with `task`.

    Raises:
        BadParameter: Lines are wrong; all of them are named.
    """
    problems: list[str] = []
    tasks: dict[str, BatchTask] = {}
    for number, line in enumerate(Path(file).read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            task = _task_from_line(line, number, Path(file).parent)
            if task.id in tasks:
                raise ValueError(f"the id {task.id!r} is used before")
            tasks[task.id] = task
        except (ValueError, OSError, click.BadParameter) as error:
            problems.append(f"{file}, line {number}: {getattr(error, 'message', error)}")
    if not tasks and not problems:
        problems.append(f"{file} has no task")
    if problems:
        raise click.BadParameter("\n".join(problems), param_hint="--tasks")
    return list(tasks.values())


def _task_from_line(line: bytes, number: int, folder: Path) -> BatchTask:
    value: object = json.loads(line)
    if isinstance(value, str):
        value = {"task": value}
    if not isinstance(value, dict):
        raise ValueError("write a text, or an object with 'task'")  # noqa: TRY004  # as the others
    data = cast("dict[str, Any]", value)
    if unknown := sorted(data.keys() - _KEYS):
        raise ValueError(f"unknown keys: {', '.join(unknown)}")
    task, system, images = data.get("task"), data.get("system"), data.get("images", [])
    if not isinstance(task, str) or not task.strip():
        raise ValueError("'task' must be a text that is not empty")
    if system is not None and not isinstance(system, str):
        raise ValueError("'system' must be a text")
    paths: list[object] = cast("list[object]", images) if isinstance(images, list) else [None]
    if not all(isinstance(path, str) for path in paths):
        raise ValueError("'images' must be a list of files")
    shown = [read_image(str(folder / str(path))) for path in paths]
    prompt = [] if system is None else [Message.system(system)]
    name = data.get("id", f"{number:04d}")
    if not isinstance(name, str | int) or isinstance(name, bool) or not str(name).strip():
        raise ValueError("'id' must be a text or a whole number")
    return BatchTask(id=str(name), messages=[*prompt, Message.user(task, shown)])


def run_tasks(
    plan: RunPlan,
    tasks: Sequence[BatchTask],
    screen: RunScreen,
    *,
    jobs: int,
    traces: Path,
    as_json: bool,
) -> Exit:
    """Run the tasks, print each outcome when it is there, and return the exit code."""
    agent = get_agent(plan.choice.config, auto_fallback=False)
    signals: list[SignalName] = []
    settings = replace(plan.settings, tool_options=tool_callbacks(plan, screen))
    servers = client_config(plan)
    outcomes: list[BatchOutcome] = []

    def show(outcome: BatchOutcome) -> None:
        outcomes.append(outcome)
        _print_outcome(outcome, screen, as_json=as_json)

    async def run(agent: AgentPort) -> None:
        await run_batch(
            agent, tasks, None, servers, settings, max_concurrency=jobs, traces=traces,
            on_outcome=show,
        )  # fmt: skip

    async def main() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101  # this is a coroutine
        with stopped_by_signals(signals, lambda: loop.call_soon_threadsafe(task.cancel)):
            try:
                if isinstance(agent, LiveAgent):
                    async with agent.keep_servers(servers, settings):
                        await run(agent)
                else:
                    await run(agent)
            finally:
                await agent.aclose()

    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        if not signals:
            raise
    screen.show(_summary(outcomes, len(tasks), traces))
    if signals:
        return Exit.INTERRUPTED if signals[0] == "SIGINT" else Exit.TERMINATED
    by_id = {outcome.id: outcome for outcome in outcomes}
    codes = (exit_code_of(by_id[task.id]) for task in tasks)
    return next((code for code in codes if code is not Exit.OK), Exit.OK)


def exit_code_of(outcome: BatchOutcome) -> Exit:
    """Return the exit code for the outcome of a task."""
    if outcome.error is not None:
        return exit_code_for(outcome.error)
    return STATUS_EXITS.get(_status(outcome), Exit.OK)


def _status(outcome: BatchOutcome) -> str:
    return "failed" if outcome.result is None else outcome.result.status


def _print_outcome(outcome: BatchOutcome, screen: RunScreen, *, as_json: bool) -> None:
    result = outcome.result
    if as_json:
        line = json.dumps(_object(outcome), ensure_ascii=False, default=str)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        return
    text = str(outcome.error) if result is None else result.final_response
    print_text(f"{outcome.id}\t{' '.join(text.split())}")
    facts = [_status(outcome), *(["from an earlier run"] if outcome.resumed else [])]
    if result is not None:
        facts += [count_label(result.turns, "turn"), usage_label(result.usage)]
    line = " · ".join(fact for fact in facts if fact)
    screen.show(Text.assemble((visible_line(outcome.id), "bold"), ("  " + visible(line), "dim")))


def _object(outcome: BatchOutcome) -> Mapping[str, object]:
    result = outcome.result
    fields: dict[str, object] = {
        "id": outcome.id,
        "status": _status(outcome),
        "resumed": outcome.resumed,
        "trace": outcome.trace,
    }
    if result is not None:
        fields |= {
            "final_response": result.final_response,
            "stop_reason": result.stop_reason,
            "turns": result.turns,
            "usage": result.usage.to_dict(),
            "actual_model": result.actual_model,
        }
    if outcome.error is not None:
        fields["error"] = outcome.error.to_dict()
    return fields


def _summary(outcomes: Sequence[BatchOutcome], total: int, traces: Path) -> Text:
    def facts() -> Iterator[str]:
        done = sum(_status(outcome) == "completed" for outcome in outcomes)
        yield f"{done} of {count_label(total, 'task')} completed"
        if earlier := sum(outcome.resumed for outcome in outcomes):
            yield f"{earlier} in an earlier run"
        new = [one.result.usage for one in outcomes if one.result and not one.resumed]
        usage = UsageMetadata(cost_usd=0.0)
        for one in new:
            usage += one
        is_known = all(one.cost_usd is not None for one in new)
        yield usage_label(usage if is_known else replace(usage, cost_usd=None))
        yield f"traces {traces}"

    return Text(visible(" · ".join(fact for fact in facts() if fact)), "dim")
