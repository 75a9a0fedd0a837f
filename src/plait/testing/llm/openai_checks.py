"""Checks of OpenAI's protocol on the messages and tools of a request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plait.testing.llm.turns import Refuse

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_ROLES = ("system", "developer", "user", "assistant", "tool")


def fault_of(body: Mapping[str, Any]) -> Refuse | None:
    """Return the first fault in the messages and tools of a request."""
    return next(_faults(body), None)


def _faults(body: Mapping[str, Any]) -> Iterator[Refuse]:
    messages: Sequence[Mapping[str, Any]] = body["messages"]
    tools: Sequence[Mapping[str, Any]] | None = body.get("tools")
    if not messages:
        yield _refuse("messages: must have at least one message", "messages")
    yield from _message_faults(messages)
    yield from _tool_faults(tools)


def _message_faults(messages: Sequence[Mapping[str, Any]]) -> Iterator[Refuse]:
    waiting: list[str] = []
    for index, message in enumerate(messages):
        param = f"messages.[{index}]"
        role = message.get("role")
        if role not in _ROLES:
            yield _refuse(f"{param}.role: must be one of {', '.join(_ROLES)}", f"{param}.role")
        elif role == "tool":
            answered = message.get("tool_call_id")
            if answered not in waiting:
                yield _refuse(
                    f"{param}: a message with role 'tool' must answer a tool call of the message "
                    f"before it; {answered!r} is none",
                    f"{param}.tool_call_id",
                )
            waiting = [call for call in waiting if call != answered]
        elif waiting:
            yield _unanswered(waiting, param)
        if role == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
    if waiting:
        yield _unanswered(waiting, "messages")


def _unanswered(calls: list[str], param: str) -> Refuse:
    return _refuse(
        "an assistant message with 'tool_calls' must be followed by tool messages for each "
        f"'tool_call_id'; missing: {', '.join(calls)}",
        param,
    )


def _tool_faults(tools: Sequence[Mapping[str, Any]] | None) -> Iterator[Refuse]:
    if tools is not None and not tools:
        yield _refuse("tools: must not be empty", "tools")
    seen: set[object] = set()
    for index, tool in enumerate(tools or ()):
        param = f"tools[{index}].function.name"
        function: Mapping[str, object] = tool.get("function") or {}
        name = function.get("name")
        if tool.get("type") != "function":
            yield _refuse(f"tools[{index}].type: must be 'function'", f"tools[{index}].type")
        elif not isinstance(name, str) or not _NAME.fullmatch(name):
            yield _refuse(f"{param}: must match ^[a-zA-Z0-9_-]{{1,64}}$, got {name!r}", param)
        elif name in seen:
            yield _refuse(f"{param}: names must be unique, {name!r} is not", param)
        seen.add(name)


def _refuse(message: str, param: str) -> Refuse:
    return Refuse(status=400, message=message, param=param)
