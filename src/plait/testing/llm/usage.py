"""Token counts of requests and answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from plait.models.scripts import USAGE_KEYS, Say
from plait.traces.messages.usage import UsageMetadata

_COUNTED = ("system", "messages", "tools")
"""The parts of a request body that count as input."""


def tokens(value: object) -> int:
    """Count the tokens of a value: four bytes of its JSON are a token."""
    return -(-len(json.dumps(value, ensure_ascii=False).encode()) // 4)


def tokens_read(body: Mapping[str, Any]) -> int:
    """Count the tokens of a request."""
    return sum(tokens(body[part]) for part in _COUNTED if body.get(part))


def usage_of(say: Say, body: Mapping[str, Any]) -> dict[str, int]:
    """Count the usage of an answer, by the names in `USAGE_KEYS`; counts of the turn win."""
    texts = [text for text in (say.thinking, say.text) if text]
    called = [{"name": call.name, "arguments": dict(call.arguments)} for call in say.calls]
    counted = {
        **dict.fromkeys(USAGE_KEYS, 0),
        "input_tokens": tokens_read(body),
        "output_tokens": sum(map(tokens, [*texts, *called])),
    }
    return {**counted, **(say.usage or {})}


def total_of(reported: Sequence[Mapping[str, int]]) -> UsageMetadata:
    """Add up usages; the total is input and output tokens, without the caches."""
    read, written, cache_read, cache_made = (
        sum(usage[key] for usage in reported) for key in USAGE_KEYS
    )
    return UsageMetadata(
        input_tokens=read,
        output_tokens=written,
        total_tokens=read + written,
        cache_read_tokens=cache_read,
        cache_creation_tokens=cache_made,
    )
