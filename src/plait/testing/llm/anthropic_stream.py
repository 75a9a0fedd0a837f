"""Answers of Anthropic's Messages API: a message, or its stream events."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from plait.models.scripts import Say
from plait.testing.llm.events import pieces, words

_PIECE = 9
"""Characters of arguments per event; few, so that they split at odd places."""


def message(say: Say, usage: Mapping[str, int], model: str) -> dict[str, Any]:
    """Make a complete answer."""
    return {
        "id": f"msg_{uuid.uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": list(_blocks(say)),
        "stop_reason": "tool_use" if say.calls else "end_turn",
        "stop_sequence": None,
        "usage": {**_counts(usage), "service_tier": "standard"},
    }


def events(whole: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of a message; the last but one has the complete usage."""
    usage: Mapping[str, Any] = whole["usage"]
    begun: dict[str, Any] = {"content": [], "stop_reason": None}
    first = {**usage, "output_tokens": 1}
    yield {"type": "message_start", "message": {**whole, **begun, "usage": first}}
    yield {"type": "ping"}
    for index, block in enumerate(whole["content"]):
        yield {"type": "content_block_start", "index": index, "content_block": _empty(block)}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
        "usage": {name: count for name, count in usage.items() if name.endswith("_tokens")},
    }
    yield {"type": "message_stop"}


def encode_event(event: Mapping[str, Any]) -> str:
    """Encode a server-sent event."""
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"


def signature_of(thinking: str) -> str:
    """Sign a thinking block, so that a changed one can be detected."""
    return base64.b64encode(hashlib.sha256(thinking.encode()).digest()).decode()


def _blocks(say: Say) -> Iterator[dict[str, Any]]:
    if say.thinking is not None:
        signature = signature_of(say.thinking)
        yield {"type": "thinking", "thinking": say.thinking, "signature": signature}
    if say.text:
        yield {"type": "text", "text": say.text}
    for call in say.calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}


def _empty(block: Mapping[str, Any]) -> dict[str, Any]:
    match block["type"]:
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case "text":
            return {"type": "text", "text": ""}
        case _:
            return {**block, "input": {}}


def _deltas(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "thinking":
            for word in words(block["thinking"]):
                yield {"type": "thinking_delta", "thinking": word}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "text":
            for word in words(block["text"]):
                yield {"type": "text_delta", "text": word}
        case _:
            yield {"type": "input_json_delta", "partial_json": ""}
            for piece in pieces(json.dumps(block["input"], ensure_ascii=False), _PIECE):
                yield {"type": "input_json_delta", "partial_json": piece}


def _counts(usage: Mapping[str, int]) -> dict[str, int]:
    return {
        "input_tokens": usage["input_tokens"],
        "cache_creation_input_tokens": usage["cache_creation_tokens"],
        "cache_read_input_tokens": usage["cache_read_tokens"],
        "output_tokens": usage["output_tokens"],
    }
