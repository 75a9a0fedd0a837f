"""Which run of a graph a tool is called in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plait.execution.call import RunMark
from plait.execution.identity import thread_of

_RUNTIME = "__pregel_runtime"
_RESUMING = "__pregel_resuming"


def run_mark(config: Mapping[str, Any]) -> RunMark:
    """Find out which run, and which conversation, a call belongs to.

    LangGraph gives every run one control object, which graphs inside of it share; its run ids are
    not handed down to tools. A run that is resumed has a new one, and says so.
    """
    asked: Mapping[str, Any] = config.get("configurable") or {}
    control = getattr(asked.get(_RUNTIME), "control", None)
    return RunMark(key=control, thread=thread_of(config), goes_on=bool(asked.get(_RESUMING)))
