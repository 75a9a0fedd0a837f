"""Replies of a stand-in without a script: it makes the tool calls that the user text lists.

A reply depends only on its own request, so unrelated requests in between do not affect it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from plait.models.scripts import Call, Say

_LINE = re.compile(r"^[ \t]*(?P<then>THEN )?CALL (?P<tool>\S+) (?P<arguments>\{.*\})[ \t]*$", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The part of a request that a default reply depends on, for any protocol."""

    question: str
    """The last text of the user."""
    rounds: int
    """How many turns with tool calls came after the question."""
    results: Sequence[str]
    """The results of these calls."""
    tools: Sequence[str]
    """The names of the tools in the request."""


def default_reply(conversation: Conversation) -> Say:
    """Make the next tool calls of the question, or return the results joined by `; `.

    The lines `CALL tool {json}` are one turn, each line `THEN CALL tool {json}` is another. Lines
    with an unknown tool are skipped; `mcp__server__tool` may be written `tool`.
    """
    steps = _steps(conversation)
    if conversation.rounds < len(steps):
        return Say(calls=steps[conversation.rounds])
    if conversation.rounds:
        return Say("; ".join(conversation.results))
    return Say(f"echo: {conversation.question}")


def conversation_from_anthropic(body: Mapping[str, Any]) -> Conversation:
    """Read a request of Anthropic's Messages API."""
    messages = [message for message in body["messages"] if message["role"] != "system"]
    start = _last(
        message["role"] == "user" and not content_blocks(message, "tool_result")
        for message in messages
    )
    since = messages[start + 1 :]
    return Conversation(
        question=_text_of(messages[start]["content"]) if start >= 0 else "",
        rounds=sum(bool(content_blocks(message, "tool_use")) for message in since),
        results=[
            ("ERROR: " if block.get("is_error") else "") + _text_of(block.get("content"))
            for message in since
            for block in content_blocks(message, "tool_result")
        ],
        tools=[tool["name"] for tool in body.get("tools") or () if "name" in tool],
    )


def conversation_from_openai(body: Mapping[str, Any]) -> Conversation:
    """Read a request for a chat completion."""
    messages: list[Mapping[str, Any]] = list(body["messages"])
    start = _last(message["role"] == "user" for message in messages)
    since = messages[start + 1 :]
    functions: list[Mapping[str, Any]] = [tool["function"] for tool in body.get("tools") or ()]
    return Conversation(
        question=_text_of(messages[start].get("content")) if messages else "",
        rounds=sum(bool(message.get("tool_calls")) for message in since),
        results=[_text_of(reply.get("content")) for reply in since if reply["role"] == "tool"],
        tools=[function["name"] for function in functions],
    )


def _steps(conversation: Conversation) -> list[tuple[Call, ...]]:
    first: list[Call] = []
    later: list[tuple[Call, ...]] = []
    for line in _LINE.finditer(conversation.question):
        name = offered_name(line["tool"], conversation.tools)
        arguments = _object(line["arguments"])
        if name is None or arguments is None:
            continue
        call = Call(name, arguments)
        if line["then"]:
            later.append((call,))
        else:
            first.append(call)
    return [tuple(first), *later] if first else later


def offered_name(name: str, tools: Sequence[str]) -> str | None:
    """Return the full name of a tool; Claude's CLI lists `tool` as `mcp__server__tool`."""
    if name in tools:
        return name
    return next((tool for tool in tools if tool.rpartition("__")[2] == name), None)


def _object(text: str) -> dict[str, Any] | None:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


def _last(flags: Iterable[bool]) -> int:
    return max((index for index, flag in enumerate(flags) if flag), default=-1)


def content_blocks(message: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    """Return the content blocks of one type."""
    content = message.get("content")
    if not isinstance(content, list):
        return []
    return [block for block in cast("list[Any]", content) if block.get("type") == kind]


def _text_of(content: object) -> str:
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    return "\n".join(map(_text_of_block, cast("list[Mapping[str, Any]]", content)))


def _text_of_block(block: Mapping[str, Any]) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "image" | "image_url":
            return "<image>"
        case kind:
            return f"<{kind}>"
