"""Answers in OpenAI's protocol: a completion, or its chunks."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from plait.models.scripts import Call, Say
from plait.testing.llm.events import pieces, words

_PIECE = 7
"""Characters of arguments per chunk; few, so that they split at odd places."""


def completion(say: Say, usage: Mapping[str, int], model: str) -> dict[str, Any]:
    """Make a complete answer."""
    choice = {"index": 0, "message": message_of(say), "finish_reason": finish_of(say)}
    return {
        **_head("chat.completion", model),
        "choices": [choice],
        "usage": counts_of(usage),
    }


def chunks(
    say: Say, usage: Mapping[str, int], model: str, *, with_usage: bool
) -> Iterator[dict[str, Any]]:
    """Yield the chunks of an answer; `with_usage`, the last has the usage, the others null."""
    head = {**_head("chat.completion.chunk", model), **({"usage": None} if with_usage else {})}

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for word in words(say.thinking or ""):
        yield chunk({"reasoning_content": word})
    for word in words(say.text):
        yield chunk({"content": word})
    for index, call in enumerate(say.calls):
        start = _call(call)
        arguments = start["function"].pop("arguments")
        start["function"]["arguments"] = ""
        yield chunk({"tool_calls": [{"index": index, **start}]})
        for piece in pieces(arguments, _PIECE):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, finish_of(say))
    if with_usage:
        yield {**head, "choices": [], "usage": counts_of(usage)}


def encode_event(chunk: Mapping[str, Any]) -> str:
    """Encode a chunk as a server-sent event."""
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"


DONE = "data: [DONE]\n\n"
"""The event after the last chunk."""


def message_of(say: Say) -> dict[str, Any]:
    """Make the message of the assistant."""
    message: dict[str, Any] = {"role": "assistant", "content": say.text}
    if say.thinking:
        message["reasoning_content"] = say.thinking
    if say.calls:
        message["content"] = say.text or None
        message["tool_calls"] = [_call(call) for call in say.calls]
    return message


def finish_of(say: Say) -> str:
    """Return the finish reason."""
    return "tool_calls" if say.calls else "stop"


def counts_of(usage: Mapping[str, int]) -> dict[str, Any]:
    """Encode usage as OpenAI does; cached tokens are part of the prompt."""
    read, written = usage["input_tokens"], usage["output_tokens"]
    counts: dict[str, Any] = {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
    }
    if usage["cache_read_tokens"]:
        counts["prompt_tokens_details"] = {"cached_tokens": usage["cache_read_tokens"]}
    return counts


def _head(kind: str, model: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid.uuid4().hex[:24]}", "object": kind, "created": 0, "model": model}


def _call(call: Call) -> dict[str, Any]:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }
