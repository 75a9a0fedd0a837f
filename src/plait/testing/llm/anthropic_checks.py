"""Checks of Anthropic's Messages API on the messages and tools of a request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from plait.testing.llm.anthropic_stream import signature_of
from plait.testing.llm.turns import Refuse

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")

_ROLES = ("user", "assistant", "system")


def fault_of(body: Mapping[str, Any]) -> Refuse | None:
    """Return the first fault in the messages and tools of a request."""
    fault = next(_faults(body), None)
    return None if fault is None else Refuse(status=400, message=fault)


def _faults(body: Mapping[str, Any]) -> Iterator[str]:
    limit: object = body.get("max_tokens")
    if not isinstance(limit, int) or limit < 1:
        yield "max_tokens: Field required"
    messages: Sequence[Mapping[str, Any]] = body["messages"]
    for index, message in enumerate(messages):
        if message.get("role") not in _ROLES:
            yield f"messages.{index}.role: must be one of {', '.join(_ROLES)}"
    turns = [
        (index, message) for index, message in enumerate(messages) if message["role"] != "system"
    ]
    if not turns:
        yield "messages: at least one message is required"
    elif turns[0][1]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    yield from _call_faults(turns)
    tools: Sequence[Mapping[str, Any]] = body.get("tools") or ()
    yield from _tool_faults(tools)


def _call_faults(messages: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[str]:
    waiting: list[str] = []
    called: set[str] = set()
    for index, message in messages:
        results = [block["tool_use_id"] for block in _blocks(message, "tool_result")]
        for result in results:
            if result not in waiting:
                yield (
                    f"messages.{index}.content: unexpected `tool_use_id` found in `tool_result` "
                    f"blocks: {result}"
                )
        if len(results) != len(set(results)):
            yield f"messages.{index}.content: each tool_use must have a single result"
        missing = [call for call in waiting if call not in results]
        if missing:
            yield _unanswered(missing, f"messages.{index}")
        waiting = [block["id"] for block in _blocks(message, "tool_use")]
        for call in waiting:
            if call in called:
                yield f"messages.{index}.content: `tool_use` ids must be unique: {call}"
            called.add(call)
        for block in _blocks(message, "thinking"):
            if block.get("signature") != signature_of(block["thinking"]):
                yield f"messages.{index}.content: Invalid `signature` in `thinking` block"
    if waiting:
        yield _unanswered(waiting, "messages")


def _unanswered(calls: Sequence[str], place: str) -> str:
    return (
        f"{place}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(calls)}"
    )


def _tool_faults(tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    seen: set[object] = set()
    for index, tool in enumerate(tools):
        name: object = tool.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"tools.{index}.name: must match ^[a-zA-Z0-9_-]{{1,128}}$, got {name!r}"
        if name in seen:
            yield f"tools: Tool names must be unique, {name!r} is not"
        seen.add(name)
        schema: Mapping[str, object] = tool.get("input_schema") or {}
        # Tools of other types run at the provider and have no schema here.
        if tool.get("type") in (None, "custom") and schema.get("type") != "object":
            yield f"tools.{index}.input_schema.type: must be 'object'"


def _blocks(message: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    content = message.get("content")
    if not isinstance(content, list):
        return []
    return [block for block in cast("list[Any]", content) if block.get("type") == kind]
