"""Metrics of a run: tool calls, and calls that look like failures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from plait.traces.messages.message import Message, Role

_SUSPECT = re.compile(
    r"\b(?:error|failed|exception|traceback|stack trace|404|500|502|503|timeout|invalid|"
    r"unauthorized|forbidden|not found|cannot|unable to)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMetrics:
    """The metrics of an agent."""

    iterations: int = 0
    """How often the model answered."""
    tool_calls: int = 0
    """The number of tool results."""
    tools_used: list[str] = field(default_factory=list[str])
    tool_call_counts: dict[str, int] = field(default_factory=dict[str, int])
    suspect_failed_tool_calls: int = 0
    """Results that are errors, or contain words of errors."""
    suspect_failed_tools: list[str] = field(default_factory=list[str])
    limit_reached: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics as plain data."""
        return asdict(self)


def extract_agent_metrics(
    messages: Iterable[Message], *, limit_reached: bool = False
) -> AgentMetrics:
    """Count turns, tool calls and failures in messages."""
    iterations = 0
    names: dict[str, str] = {}
    used: Counter[str] = Counter()
    suspects: Counter[str] = Counter()
    for message in messages:
        iterations += message.role is Role.ASSISTANT
        names.update((call.id, call.name) for call in message.tool_calls)
        for result in message.tool_results:
            name = names.get(result.tool_use_id, "unknown")
            used[name] += 1
            if result.is_error or _SUSPECT.search(result.content):
                suspects[name] += 1
    return AgentMetrics(
        iterations=iterations,
        tool_calls=used.total(),
        tools_used=sorted(used),
        tool_call_counts=dict(sorted(used.items())),
        suspect_failed_tool_calls=suspects.total(),
        suspect_failed_tools=sorted(suspects),
        limit_reached=limit_reached,
    )
