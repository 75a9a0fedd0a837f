"""What a tool call needs to know of its LangGraph run: its identity, and whether it can pause."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.messages import HumanMessage

from plait._support.mappings import entries_of
from plait._support.threads import in_thread
from plait.client.call_pipeline import thread_of
from plait.client.calls.tool_call import RunIdentity

CHECKPOINTER = "__pregel_checkpointer"
_RESUMING = "__pregel_resuming"
_RUNTIME = "__pregel_runtime"
_SCRATCHPAD = "__pregel_scratchpad"
_RESUME = "__resume__"
_INTERRUPT = "__interrupt__"

CALL_OPTIONS = frozenset({"timeout", "deadline"})
"""Options of calls in the `configurable` part of a config."""


def configurable_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the `configurable` part of a run's config."""
    return config.get("configurable") or {}


def run_identity(config: Mapping[str, Any], runtime: object | None = None) -> RunIdentity:
    """Identify the run and the conversation of a call.

    LangGraph gives every run one control object, which subgraphs share; tools do not get its run
    id. A resumed run has a new one, is marked as resumed in its first step only, and has the same
    last human message.
    """
    configurable = configurable_of(config)
    return RunIdentity(
        key=getattr(configurable.get(_RUNTIME), "control", None),
        thread=thread_of(config),
        turn=_last_human_message_id(getattr(runtime, "state", None)),
        resumed=bool(configurable.get(_RESUMING)),
    )


def _last_human_message_id(state: object) -> str | None:
    if state is None:
        return None
    fields = entries_of(state) or entries_of(getattr(state, "__dict__", None))
    messages = fields.get("messages")
    if not isinstance(messages, Sequence):
        return None
    newest_first = reversed(cast("Sequence[object]", messages))
    return next((item.id for item in newest_first if isinstance(item, HumanMessage)), None)


def may_interrupt(config: Mapping[str, Any]) -> bool:
    """Return whether a run can pause and resume: its graph has a checkpointer."""
    return bool(configurable_of(config).get(CHECKPOINTER))


def task_of(config: Mapping[str, Any]) -> TaskFacts | None:
    """Return the task that makes a call; `None` if its graph cannot pause."""
    configurable = configurable_of(config)
    saver, scratchpad = configurable.get(CHECKPOINTER), configurable.get(_SCRATCHPAD)
    if not saver or scratchpad is None:
        return None
    info = getattr(configurable.get(_RUNTIME), "execution_info", None)
    attempt: int = getattr(info, "node_attempt", 1)
    return TaskFacts(
        saver=saver,
        scratchpad=scratchpad,
        thread=str(configurable.get("thread_id")),
        namespace=str(configurable.get("checkpoint_ns") or ""),
        checkpoints=configurable.get("checkpoint_map") or {},
        attempt=attempt,
        runs_again=bool(configurable.get(_RESUMING)) or attempt > 1 or bool(scratchpad.resume),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """A task of a graph, and what its checkpointer has of it."""

    saver: Any = field(repr=False)
    scratchpad: Any = field(repr=False)
    thread: str
    namespace: str
    """The path of the task in its graph, the same in each of its runs."""
    checkpoints: Mapping[str, str] = field(repr=False)
    """The ids of the checkpoints of the graphs around it."""
    attempt: int
    """How often the node was tried in this run of the graph."""
    runs_again: bool
    """Whether the node may have run before."""

    @property
    def identity(self) -> object:
        """An object that lives as long as this run of the task."""
        return self.scratchpad.get_null_resume

    def next_index(self) -> int:
        """Return the place of the next interrupt among those of the task; only a counter knows."""
        counter = getattr(self.scratchpad.interrupt_counter, "_counter", None)
        count = re.fullmatch(r"count\((\d+)\)", repr(getattr(counter, "__self__", None)))
        return int(count[1]) if count else 0

    async def writes(self) -> list[tuple[str, str, Any]]:
        """Return what was written for the tasks of the checkpoint: task, channel and value."""
        saved = await self._asked("get_tuple", self._where)
        return list((saved and saved.pending_writes) or ())

    async def write(self, task: str, channel: str, value: object) -> None:
        """Write a value for a task."""
        await self._asked("put_writes", self._where, [(channel, value)], task)

    def last_interrupt(self, writes: Sequence[tuple[str, str, Any]]) -> tuple[int, Any] | None:
        """Return the place and the value of the interrupt that the task ended with."""
        own = self.namespace.rpartition("|")[2].rpartition(":")[2]
        by_channel = {channel: value for task, channel, value in writes if task == own}
        interrupts = by_channel.get(_INTERRUPT)
        if not interrupts:
            return None
        return len(by_channel.get(_RESUME) or ()), interrupts[-1].value

    @property
    def _where(self) -> dict[str, Any]:
        outer = self.namespace.rpartition("|")[0]
        where = {"thread_id": self.thread, "checkpoint_ns": outer}
        if (checkpoint := self.checkpoints.get(outer)) is not None:
            # A task of the functional API is one of the graph that runs the function.
            around = [name for name, id_ in self.checkpoints.items() if id_ == checkpoint]
            where |= {"checkpoint_ns": min(around, key=len), "checkpoint_id": checkpoint}
        return {"configurable": where}

    async def _asked(self, method: str, *arguments: Any) -> Any:
        """Call a method of the checkpointer, in the way it can be called here."""
        here = asyncio.get_running_loop()
        if getattr(self.saver, "loop", here) is here:
            with contextlib.suppress(NotImplementedError):
                return await getattr(self.saver, f"a{method}")(*arguments)
        return await in_thread(getattr(self.saver, method), *arguments)
