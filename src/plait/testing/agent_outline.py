"""What an agent did, without what differs from run to run: ids, times and usage."""

from __future__ import annotations

import re
from collections.abc import Iterable

from plait.agents.result import AgentResult
from plait.traces.messages.message import Message, Role

_CALL_ID = re.compile(r"\(call_id: (?P<result>[^)]*)\) ---|   Call ID: (?P<call>.*)")


def outline(messages: Iterable[Message]) -> list[str]:
    """Write messages as lines that are the same in every engine.

    `AI: text -> tool({...})` is what the model said and asked for, `tool = text` what a tool
    answered, and `tool ! text` how it failed; which tool that was is known by the id of its call.
    """
    names: dict[str, str] = {}
    lines: list[str] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            names.update((call.id, call.name) for call in message.tool_calls)
            wishes = ", ".join(f"{call.name}({call.input})" for call in message.tool_calls)
            thought = f"({message.thinking}) " if message.thinking else ""
            lines.append(f"AI: {thought}{message.text}" + (f" -> {wishes}" if wishes else ""))
        elif message.tool_results:
            lines += [
                f"{names.get(one.tool_use_id, '?')} {'!' if one.is_error else '='} {one.content}"
                for one in message.tool_results
            ]
        else:
            lines.append(f"{message.role}: {message.text}")
    return lines


def without_ids(result: AgentResult) -> str:
    """Return the raw trace with the ids of calls numbered in the order in which they come."""
    text = result.raw_trace
    ids = [found["result"] or found["call"] for found in _CALL_ID.finditer(text)]
    for number, call_id in enumerate(dict.fromkeys(ids), 1):
        text = text.replace(call_id, f"c{number}")
    return text
