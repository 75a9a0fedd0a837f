"""What a stand-in says without a script: it does the calls that the user writes down.

Everything follows from the one request, so that requests in between do not disturb it.
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
class Heard:
    """What a request says, in whatever protocol it came."""

    question: str
    """The last text of the user."""

    rounds: int
    """How often the model called tools since the question."""

    results: Sequence[str]
    """What these calls gave."""

    tools: Sequence[str]
    """The names of the tools that are offered."""


def think(heard: Heard) -> Say:
    """Take the next step of the question, or say what the steps gave.

    The lines `CALL tool {json}` are one step, each line `THEN CALL tool {json}` is another. Lines
    that name no tool on offer are skipped; `mcp__server__tool` may be called `tool`.
    """
    steps = _steps(heard)
    if heard.rounds < len(steps):
        return Say(calls=steps[heard.rounds])
    if heard.rounds:
        return Say("; ".join(heard.results))
    return Say(f"echo: {heard.question}")


def heard_by_anthropic(body: Mapping[str, Any]) -> Heard:
    """Read a request of Anthropic's Messages API."""
    messages = [message for message in body["messages"] if message["role"] != "system"]
    begin = _last(
        message["role"] == "user" and not _blocks(message, "tool_result") for message in messages
    )
    since = messages[begin + 1 :]
    return Heard(
        question=_text_of(messages[begin]["content"]) if begin >= 0 else "",
        rounds=sum(bool(_blocks(message, "tool_use")) for message in since),
        results=[
            ("ERROR: " if block.get("is_error") else "") + _text_of(block.get("content"))
            for message in since
            for block in _blocks(message, "tool_result")
        ],
        tools=[tool["name"] for tool in body.get("tools") or () if "name" in tool],
    )


def heard_by_openai(body: Mapping[str, Any]) -> Heard:
    """Read a request for a chat completion."""
    messages: list[Mapping[str, Any]] = list(body["messages"])
    begin = _last(message["role"] == "user" for message in messages)
    since = messages[begin + 1 :]
    functions: list[Mapping[str, Any]] = [tool["function"] for tool in body.get("tools") or ()]
    return Heard(
        question=_text_of(messages[begin].get("content")) if messages else "",
        rounds=sum(bool(message.get("tool_calls")) for message in since),
        results=[_text_of(one.get("content")) for one in since if one["role"] == "tool"],
        tools=[function["name"] for function in functions],
    )


def _steps(heard: Heard) -> list[tuple[Call, ...]]:
    first: list[Call] = []
    later: list[tuple[Call, ...]] = []
    for line in _LINE.finditer(heard.question):
        name = offered(line["tool"], heard.tools)
        arguments = _object(line["arguments"])
        if name is None or arguments is None:
            continue
        call = Call(name, arguments)
        if line["then"]:
            later.append((call,))
        else:
            first.append(call)
    return [tuple(first), *later] if first else later


def offered(name: str, tools: Sequence[str]) -> str | None:
    """Find the tool that is meant; Claude's command line offers `mcp__server__tool` for `tool`."""
    if name in tools:
        return name
    return next((tool for tool in tools if tool.rpartition("__")[2] == name), None)


def _object(text: str) -> dict[str, Any] | None:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


def _last(holds: Iterable[bool]) -> int:
    return max((index for index, held in enumerate(holds) if held), default=-1)


def _blocks(message: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
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
