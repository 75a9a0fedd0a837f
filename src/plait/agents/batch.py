"""Many tasks at once: with a cap, one trace each, and without those that are done."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plait.agents.config import AgentConfig
from plait.agents.program_tools import ToolLike
from plait.agents.servers import AgentServers
from plait.errors import ConfigError, PlaitError, TraceFormatError
from plait.traces.file import read_traces
from plait.traces.messages.message import Message, to_prompt_string
from plait.traces.recorder import hash_question

if TYPE_CHECKING:
    from plait.agents.port import AgentPort, AgentResult

_DONE: Final = ("completed", "truncated", "refused", "limit")
"""The statuses of runs that are not repeated when a batch is resumed."""

_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTask:
    """One task of a batch."""

    id: str
    """Unique in the batch; the trace has it as `task_id`, and its file as its name."""
    messages: Sequence[Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutcome:
    """The result of one task, or the error that ended it."""

    id: str
    result: AgentResult | None = None
    error: PlaitError | None = None
    resumed: bool = False
    """Whether the result is that of an earlier batch."""
    trace: Path | None = None


async def run_batch(
    agent: AgentPort,
    tasks: Sequence[BatchTask],
    tools: Sequence[ToolLike] | None = None,
    mcp_servers: AgentServers | None = None,
    config: AgentConfig | None = None,
    *,
    max_concurrency: int = 4,
    traces: str | Path | None = None,
    on_outcome: Callable[[BatchOutcome], None] | None = None,
) -> list[BatchOutcome]:
    """Run tasks at the same time, at most `max_concurrency`; a failed one ends no other.

    With the folder `traces`, each task has a trace of its own there, and one that has come to its
    end in it, with the same messages, is not run again. Outcomes are in the order of the tasks.

    Raises:
        ConfigError: Two tasks have the same id, or the cap is not positive.
    """
    if max_concurrency < 1:
        raise ConfigError(f"max_concurrency is {max_concurrency}: use at least 1")
    counts = Counter(task.id for task in tasks)
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise ConfigError(f"the ids of tasks must be unique: {', '.join(twice)}")
    folder = None if traces is None else Path(traces)
    cap = asyncio.Semaphore(max_concurrency)
    settings = config or AgentConfig()

    async def run_one(task: BatchTask) -> BatchOutcome:
        file = None if folder is None else folder / f"{_ILLEGAL.sub('_', task.id)}.jsonl"
        async with cap:
            outcome = _earlier(task, file)
            if outcome is None:
                own = replace(
                    settings,
                    trace=file,
                    question_hash=_hash_of(task),
                    extra={**settings.extra, "task_id": task.id},
                )
                try:
                    result = await agent.arun(task.messages, tools, mcp_servers, own)
                    outcome = BatchOutcome(id=task.id, result=result, trace=file)
                except PlaitError as error:
                    outcome = BatchOutcome(id=task.id, error=error, trace=file)
        if on_outcome is not None:
            on_outcome(outcome)
        return outcome

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(run_one(task)) for task in tasks]
    return [task.result() for task in running]


def _earlier(task: BatchTask, file: Path | None) -> BatchOutcome | None:
    """Return the outcome of an earlier batch, if the same task has come to its end there."""
    from plait.agents.port import result_from_trace  # noqa: PLC0415  # which imports this module

    if file is None or not file.exists():
        return None
    try:
        recorded = read_traces(file)
    except TraceFormatError:
        return None
    question = _hash_of(task)
    done = [
        trace
        for trace in recorded
        if trace.status in _DONE
        and trace.started
        and trace.started.task_id == task.id
        and trace.started.question_hash == question
    ]
    if not done:
        return None
    return BatchOutcome(id=task.id, result=result_from_trace(done[-1]), resumed=True, trace=file)


def _hash_of(task: BatchTask) -> str:
    return hash_question(to_prompt_string(task.messages))
