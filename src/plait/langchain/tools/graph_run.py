"""Which run of a graph a tool is called in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import HumanMessage

from plait.client.calls.tool_call import RunIdentity
from plait.client.run_identity import thread_of

_RUNTIME = "__pregel_runtime"
_RESUMING = "__pregel_resuming"


def run_mark(config: Mapping[str, Any], runtime: object | None = None) -> RunIdentity:
    """Find out which run, and which conversation, a call belongs to.

    LangGraph gives every run one control object, which graphs inside of it share; its run ids are
    not handed down to tools. A run that is resumed has a new one, says so in its first step only,
    and has the same last message of a person.
    """
    asked: Mapping[str, Any] = config.get("configurable") or {}
    return RunIdentity(
        key=getattr(asked.get(_RUNTIME), "control", None),
        thread=thread_of(config),
        turn=_last_of_person(getattr(runtime, "state", None)),
        resumed=bool(asked.get(_RESUMING)),
    )


def _last_of_person(state: object) -> str | None:
    """Return the id of the last message of a person, where the state of a graph has messages."""
    named: Any = (
        cast("Mapping[str, Any]", state)
        if isinstance(state, Mapping)
        else getattr(state, "__dict__", {})
    )
    messages = named.get("messages")
    if not isinstance(messages, Sequence):
        return None
    newest_first = reversed(cast("Sequence[object]", messages))
    return next((one.id for one in newest_first if isinstance(one, HumanMessage)), None)
