"""Makes a case from the trace of a run that went wrong."""

from __future__ import annotations

import re
from typing import Any

import yaml

from plait.errors import ConfigError
from plait.traces.messages.message import Role, messages_to_dicts
from plait.traces.trace import Trace

_TODO = "REPLACE: a text that a right answer contains"


def case_from_trace(
    trace: Trace, *, name: str | None = None, expect: str | None = None
) -> dict[str, Any]:
    """Return a case that asks what the run was asked, with checks of what went wrong.

    Raises:
        ConfigError: The trace has no question.
    """
    started = trace.started
    messages = [] if started is None else list(started.messages)
    asked = [message for message in messages if message.role is not Role.SYSTEM]
    if started is None or not asked:
        raise ConfigError("the trace has no question: it does not begin with the start of a run")
    last = next((one.text for one in reversed(asked) if one.role is Role.USER), "")
    words = "-".join(re.findall(r"\w+", last.casefold())[:6])
    case: dict[str, Any] = {"name": name or words[:60] or "from-trace"}
    if len(asked) == 1 and asked[0].role is Role.USER:
        case["question"] = asked[0].text
    else:
        case["conversation"] = [
            {"role": one["role"], "content": one["content"]} for one in messages_to_dicts(asked)
        ]
    if system := "\n\n".join(one.text for one in messages if one.role is Role.SYSTEM):
        case["system"] = system
    limits: dict[str, Any] = {"turns": started.max_turns, "seconds": started.timeout_seconds}
    if known := {key: value for key, value in limits.items() if value is not None}:
        case["limits"] = known
    case["tags"] = ["regression"]
    checks: list[dict[str, Any]] = [{"contains": expect or _TODO}]
    if any(result is None or result.is_error for _, result in trace.calls):
        checks.append({"no_tool_errors": True})
    good = [
        call.tool or call.name for call, result in trace.calls if result and not result.is_error
    ]
    if good:
        checks.append({"tools_in_order": list(dict.fromkeys(good))})
    case["checks"] = checks
    return case


def case_as_yaml(case: dict[str, Any], trace: Trace, servers: str | None) -> str:
    """Return a suite with one case, as YAML with comments."""
    started = trace.started
    names = ", ".join(started.servers) if started else ""
    answer = " ".join(trace.final_response.split())
    defaults = {} if servers is None else {"defaults": {"servers": servers}}
    suite = {"name": "from-trace", **defaults, "cases": [case]}
    lines = [
        f"# From the run {trace.run}, which ended as {trace.status}.",
        f"# It answered: {answer[:200]}",
    ]
    if names and servers is None:
        lines.append(f"# Its servers were: {names}. Add `servers` to the case, or its defaults.")
    text = yaml.safe_dump(suite, sort_keys=False, allow_unicode=True, width=100)
    return "\n".join(lines) + "\n" + text
