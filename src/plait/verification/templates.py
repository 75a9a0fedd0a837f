"""Fields of answers: their types, and whether a value is the expected one."""

from __future__ import annotations

import json
from typing import Any, cast

from plait.verification.suite import TemplateField

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "list": (list,),
}


def has_type(value: object, entry: TemplateField) -> bool:
    """Return whether a value has the type of a field."""
    if isinstance(value, bool) and entry.type != "boolean":
        return False
    return isinstance(value, _PYTHON_TYPES[entry.type])


def is_expected(value: Any, entry: TemplateField) -> bool:
    """Compare a value with the expected one: texts in any case, lists in any order."""
    if not has_type(value, entry):
        return False
    expected = entry.expected
    if entry.type == "text":
        return str(value).strip().casefold() == str(expected).strip().casefold()
    if entry.type == "number" and entry.tolerance is not None:
        return abs(value - expected) <= entry.tolerance
    if entry.type == "list":
        return _as_set(cast("list[Any]", value)) == _as_set(cast("list[Any]", expected))
    return bool(value == expected)


def _as_set(values: list[Any]) -> set[str]:
    return {json.dumps(value, sort_keys=True).casefold() for value in values}


def json_in(text: str) -> dict[str, Any] | None:
    """Find the JSON object in a judge's reply, which may have words around it."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(text, start)
        except ValueError:
            start = text.find("{", start + 1)
            continue
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
        start = text.find("{", start + 1)
    return None
