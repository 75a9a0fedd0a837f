"""What a tool call needs to know of its LangGraph run: its identity, and whether it can pause."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from cachetools import LRUCache
from langchain_core.messages import HumanMessage

from plait._support.mappings import entries_of
from plait._support.threads import in_thread
from plait.client.call_pipeline import thread_of
from plait.client.calls.tool_call import Pause, RunIdentity

logger = logging.getLogger("plait.langchain")

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


def pause_of(config: Mapping[str, Any], tool_call_id: str | None) -> Pause | None:
    """Return how a call is recognized when its graph resumes; `None` if it cannot pause."""
    if not may_interrupt(config):
        return None
    configurable = configurable_of(config)
    task = str(configurable.get("checkpoint_ns") or "")
    key = (str(configurable.get("thread_id")), tool_call_id or task)
    return Pause(key, resumed=_has_responses(configurable.get(_SCRATCHPAD)))


def _has_responses(scratchpad: Any) -> bool:
    """Return whether the resume value of the task's next interrupt answers an elicitation."""
    if scratchpad is None:
        return False
    # Other interrupts of the task come first.
    resumed: list[Any] = scratchpad.resume
    values = resumed[_interrupt_count(scratchpad) :]
    next_value = scratchpad.get_null_resume(False)
    if not any(value is next_value for value in resumed):
        values.append(next_value)
    return any(isinstance(value, Mapping) and "responses" in value for value in values)


def _interrupt_count(scratchpad: Any) -> int:
    """Return how many interrupts of the task there were so far; only its counter knows."""
    counter = getattr(scratchpad.interrupt_counter, "_counter", None)
    count = re.fullmatch(r"count\((\d+)\)", repr(getattr(counter, "__self__", None)))
    return int(count[1]) if count else 0


class ShownInterrupts:
    """What the interrupts of a task showed, when it ran before: which answer is one to what.

    A checkpointer has the last one, in any process. Its value has the digests of the approvals
    before it, and so have those of this process in memory.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        configurable = configurable_of(config)
        self._saver: Any = configurable.get(CHECKPOINTER)
        self._scratchpad: Any = configurable.get(_SCRATCHPAD)
        self._thread = str(configurable.get("thread_id"))
        self._task = str(configurable.get("checkpoint_ns") or "")
        self._is_loaded = False
        self.last: Mapping[str, Any] = {}
        """The value of the last interrupt of the run before, if it was a mapping."""
        self.last_index: int | None = None
        self._earlier: list[str | None] = []

    @property
    def next_index(self) -> int:
        """The place of the next interrupt among those of the task."""
        return _interrupt_count(self._scratchpad) if self._scratchpad is not None else 0

    async def load(self) -> None:
        """Read the last interrupt of a task that is resumed, once."""
        pad = self._scratchpad
        if self._is_loaded or pad is None:
            return
        self._is_loaded = True
        if not pad.resume and pad.get_null_resume(False) is None:
            return
        outer, _, own = self._task.rpartition("|")
        where = {"configurable": {"thread_id": self._thread, "checkpoint_ns": outer}}
        try:
            saved = await self._saved(where)
        except Exception:  # boundary: a checkpointer may raise anything
            logger.warning("cannot read what the graph was interrupted with", exc_info=True)
            return
        answered = 0
        for task, channel, value in (saved and saved.pending_writes) or ():
            if task == own.rpartition(":")[2]:
                if channel == _RESUME:
                    answered = len(value)
                elif channel == _INTERRUPT and value:
                    self.last = entries_of(value[-1].value)
        if self.last:
            self.last_index = answered
            self._earlier = list(self.last.get(EARLIER) or ())

    async def _saved(self, where: Mapping[str, Any]) -> Any:
        try:
            return await self._saver.aget_tuple(where)
        except NotImplementedError:
            return await in_thread(self._saver.get_tuple, where)

    def digest_before(self, index: int) -> str | None:
        """Return the digest of the approval at a place before the last one, if it is known."""
        known = shown_interrupts.get((self._thread, self._task, index))
        if known is None and index < len(self._earlier):
            return self._earlier[index]
        return known

    def earlier(self) -> dict[str, Any]:
        """Return what the value of the next interrupt says of the approvals before it."""
        digests = [self.digest_before(index) for index in range(self.next_index)]
        return {EARLIER: digests} if any(digests) else {}

    def remember(self, index: int, digest: str) -> None:
        """Remember the digest of the approval that is shown at a place."""
        shown_interrupts[self._thread, self._task, index] = digest


EARLIER = "earlier"
"""The key of the digests of earlier approvals in the value of an interrupt."""

shown_interrupts: LRUCache[tuple[str, str, int], str] = LRUCache(1000)
"""The digests of recent approvals, by thread, task and place."""


def last_resume_value(config: Mapping[str, Any]) -> object | None:
    """Return the latest value that the task was resumed with, or `None`."""
    scratchpad = configurable_of(config).get(_SCRATCHPAD)
    if scratchpad is None:
        return None
    values = (*scratchpad.resume, scratchpad.get_null_resume(False))
    return next((value for value in reversed(values) if value is not None), None)
