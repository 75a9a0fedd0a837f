"""Structured content beside text: written out as JSON, and compared with what the text says."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast


def json_text(value: Any) -> str:
    """Write a value as JSON that a model reads well; never fails."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
        if text.isascii() or _can_be_sent(text):
            return text
        return json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):
        return "a value that cannot be written as JSON"


def _can_be_sent(text: str) -> bool:
    """Find halves of surrogate pairs, which no model provider can be sent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_said_by(texts: Sequence[str], structured: Any) -> bool:
    """Ask whether the texts already say what the structured content says.

    Servers repeat it as JSON; for a function that returns no object they wrap it as
    `{"result": value}` and write the bare value, a list as one text for each item.
    """
    if _say(texts, structured):
        return True
    if not isinstance(structured, dict):
        return False
    wrapped = cast("dict[str, Any]", structured)
    return wrapped.keys() == {"result"} and _say(texts, wrapped["result"])


def _say(texts: Sequence[str], value: Any) -> bool:
    if any(_says(text, value) for text in texts):
        return True
    if not isinstance(value, list):
        return False
    items = cast("list[Any]", value)
    return len(items) == len(texts) > 0 and all(
        _says(text, item) for text, item in zip(texts, items, strict=True)
    )


def _says(text: str, value: Any) -> bool:
    try:
        if isinstance(value, str | int | float) and text == str(value):
            return True
        return _canonical(json.loads(text)) == _canonical(value)
    except (TypeError, ValueError, RecursionError):
        return False


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def holds_any(value: Any, texts: Collection[str]) -> bool:
    """Say whether one of these texts stands anywhere in a value."""
    if not texts:
        return False
    rest: list[Any] = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, str):
            if one in texts:
                return True
        elif isinstance(one, Mapping):
            rest += cast("Mapping[str, Any]", one).values()
        elif isinstance(one, list):
            rest += cast("list[Any]", one)
    return False
