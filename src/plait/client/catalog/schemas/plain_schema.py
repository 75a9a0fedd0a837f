"""Recognizing schemas in which nothing has to be converted, which are most of them."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final, cast

from plait.client.catalog.schemas.json_schema import (
    ADDRESSES,
    BOUNDS,
    COUNTS,
    FLAGS,
    HOLD_SCHEMAS,
    REFERENCES,
    TEXTS,
    TYPES,
    Schema,
    holds_ref,
    is_schema,
)

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

MAX_PLAIN_LEVELS: Final = 16
"""Deeper schemas are converted, which is bounded in every way."""
_TYPES: Final = frozenset(TYPES)
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_TEXT: Final = frozenset({str})
_FLAG: Final = frozenset({bool})
_PLAIN: Final[dict[str, frozenset[type]]] = {
    **dict.fromkeys((*HOLD_SCHEMAS, *ADDRESSES, *REFERENCES), frozenset[type]()),
    **dict.fromkeys(("dependentRequired", "multipleOf", "$schema"), frozenset()),
    **dict.fromkeys(("type", "required", "enum", "examples"), frozenset()),
    **dict.fromkeys(TEXTS, _TEXT),
    **dict.fromkeys((*FLAGS, "items", "additionalProperties"), _FLAG),
    **dict.fromkeys(COUNTS, frozenset({int})),
    **dict.fromkeys(BOUNDS, frozenset({int, float})),
}
"""The types of a keyword's value with which nothing has to be done; of others, any scalar."""


def shared_if_plain(schema: object) -> Schema | None:
    """Return the schema of an object without copying it, if nothing in it has to be converted.

    Only its root may be new. `None` means that it may have to be converted.
    """
    if not is_schema(schema) or schema.get("type") != "object":
        return None
    root: Schema = schema
    if "$schema" in root and root["$schema"] != DIALECT:
        root = {key: value for key, value in root.items() if key != "$schema"}
    if "properties" not in root:
        root = {**root, "properties": cast("Schema", {})}
    return root if plain_size(root) else None


def plain_size(schema: object, depth: int = 0) -> int:
    """Count the schemas in a schema in which nothing has to be converted.

    0 means that something may have to be.
    """
    # Binding a tool takes not much longer than this, so that it avoids generators and calls.
    if not is_schema(schema):
        return int(type(schema) is bool)
    if depth > MAX_PLAIN_LEVELS:
        return 0
    size = 1
    for key, value in schema.items():
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        inner: Any = ()
        if key == "type" and kind is str:
            if value not in _TYPES:
                return 0
        elif kind in _SCALARS:
            if kind not in _PLAIN.get(key, _SCALARS):
                if key != "$schema" or value != DIALECT:
                    return 0
            elif key in COUNTS:
                if value < 0:
                    return 0
            elif kind is float and key in _PLAIN and not isfinite(value):
                return 0
        elif key == "properties" and kind is dict:
            if "$ref" in value:
                return 0
            inner = value.values()
        elif kind is dict and (key == "items" or key == "additionalProperties"):
            inner = (value,)
        elif kind is list and (key == "anyOf" or key == "oneOf" or key == "allOf"):
            if not value:
                return 0
            inner = value
        elif kind is list and (key == "required" or key == "enum" or key == "type"):
            if not (_SCALARS if key == "enum" else _TEXT).issuperset(map(type, value)):
                return 0
            names = set(value)  # 1 and true are one there, and then told apart by the long way
            if len(names) < len(value) or not (names or key == "required"):
                return 0
            if key == "type" and not names <= _TYPES:
                return 0
        else:
            is_data = key == "default" or key == "const" or (key == "examples" and kind is list)
            if not is_data or kind not in (dict, list) or holds_ref(value):
                return 0
        for part in inner:
            part_size = plain_size(part, depth + 1)
            if not part_size:
                return 0
            size += part_size
    return size
