"""JSON values: their types, equality, and how to show them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard, cast

Schema = dict[str, Any]
"""A JSON Schema that is not a boolean."""

MAX_DEPTH_LEVELS = 64
"""Deeper levels allow anything, because Python's stack is finite."""
MAX_SHOWN_CHARS = 400
"""Longer JSON is cut in a text."""
_SCALARS = frozenset({str, int, float, bool, type(None)})
_NO_MAPPINGS = _SCALARS | {list}
"""Recognized at once: asking the abstract class of mappings takes ten times as long."""


def is_schema(value: object) -> TypeGuard[Schema]:
    """Return whether a value is an object, and so may be a schema."""
    return isinstance(value, dict)


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is a mapping of any kind, as long as its keys are texts."""
    return type(value) is dict or (type(value) not in _NO_MAPPINGS and isinstance(value, Mapping))


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value is a list."""
    return isinstance(value, list)


def as_schema(value: object) -> Schema:
    """Return a schema as an object: `True` allows anything, `False` nothing."""
    if is_schema(value):
        return value
    return {"not": {}} if value is False else {}


def entries_of(value: object) -> Mapping[str, Any]:
    """Return a mapping as it is, and anything else as an empty one."""
    return value if is_mapping(value) else {}


def as_list(value: object) -> list[Any]:
    """Return a list as it is, and anything else as an empty one."""
    return value if is_list(value) else []


def holds_ref(value: object, depth: int = 0) -> bool:
    """Return whether there is a key `$ref` in a value that is not a schema."""
    if depth > MAX_DEPTH_LEVELS:
        return False
    if is_mapping(value):
        return "$ref" in value or any(holds_ref(inner, depth + 1) for inner in value.values())
    return is_list(value) and any(holds_ref(inner, depth + 1) for inner in value)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a finite JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def json_type(value: object) -> str:
    """Name the JSON type of a value; a whole number is an integer, however it is written."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def plain(value: Any, above: tuple[int, ...] = ()) -> Any:
    """Copy a JSON value, so that the copy can be changed; what lies too deep is left out."""
    if not isinstance(value, list | tuple) and not is_mapping(value):
        return value
    address = id(cast("object", value))
    if len(above) > MAX_DEPTH_LEVELS or address in above:
        return None
    inside = (*above, address)
    if isinstance(value, list | tuple):
        return [plain(inner, inside) for inner in cast("Iterable[Any]", value)]
    return {
        key: inner if type(inner) in _SCALARS else plain(inner, inside)
        for key, inner in value.items()
        if isinstance(key, str)  # pyright: ignore[reportUnnecessaryIsInstance]  # not JSON
    }


def canonical(value: Any) -> str:
    """Write a value so that equal JSON values, and only they, are written alike."""
    return json.dumps(_comparable(value, 0), sort_keys=True, default=repr)


def same(first: Any, second: Any) -> bool:
    """Return whether two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    return first is second or canonical(first) == canonical(second)


def distinct(values: Iterable[Any]) -> list[Any]:
    """Keep the first of each group of equal JSON values."""
    first: dict[str, Any] = {}
    for value in values:
        first.setdefault(canonical(value), value)
    return list(first.values())


def short_json(value: Any) -> str:
    """Write a value as JSON for a reader, cut where it gets long."""
    try:
        text = json.dumps(plain(value), ensure_ascii=False, default=str)
    except ValueError:  # Python refuses to write an integer of thousands of digits
        return "…"
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"


def _comparable(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH_LEVELS:
        return "…"
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[object, Any]", value).items()
        return {str(key): _comparable(inner, depth + 1) for key, inner in items}
    if isinstance(value, list | tuple):
        return [_comparable(inner, depth + 1) for inner in cast("Iterable[Any]", value)]
    return value
