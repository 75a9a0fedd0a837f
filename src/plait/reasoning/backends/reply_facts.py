"""Reading what an answer of a provider says about itself: model and tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from plait.reasoning.backends.port import Completion


def completion_with(text: str, facts: Mapping[str, Any]) -> Completion:
    """Make a completion of a text and of the `model` and `usage` that came with it."""
    model = facts.get("model")
    usage = facts.get("usage")
    counts = cast("Mapping[str, object]", usage if isinstance(usage, Mapping) else {})
    return Completion(
        text=text,
        model=model if isinstance(model, str) else None,
        input_tokens=_whole(counts.get("prompt_tokens")),
        output_tokens=_whole(counts.get("completion_tokens")),
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
