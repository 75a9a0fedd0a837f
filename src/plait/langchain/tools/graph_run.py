"""What a tool call needs to know of its LangGraph run: its identity, and whether it can pause."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import HumanMessage

from plait._support.mappings import entries_of
from plait.client.call_pipeline import thread_of
from plait.client.calls.tool_call import Pause, RunIdentity

CHECKPOINTER = "__pregel_checkpointer"
_RESUMING = "__pregel_resuming"
_RUNTIME = "__pregel_runtime"
_SCRATCHPAD = "__pregel_scratchpad"

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
    # Other interrupts of the task come first; only the counter knows how many there were.
    counter = getattr(scratchpad.interrupt_counter, "_counter", None)
    count = re.fullmatch(r"count\((\d+)\)", repr(getattr(counter, "__self__", None)))
    resumed: list[Any] = scratchpad.resume
    values = resumed[int(count[1]) if count else 0 :]
    next_value = scratchpad.get_null_resume(False)
    if not any(value is next_value for value in resumed):
        values.append(next_value)
    return any(isinstance(value, Mapping) and "responses" in value for value in values)


def last_resume_value(config: Mapping[str, Any]) -> object | None:
    """Return the latest value that the task was resumed with, or `None`."""
    scratchpad = configurable_of(config).get(_SCRATCHPAD)
    if scratchpad is None:
        return None
    values = (*scratchpad.resume, scratchpad.get_null_resume(False))
    return next((value for value in reversed(values) if value is not None), None)
