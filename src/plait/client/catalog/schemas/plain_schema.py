"""Recognizing schemas in which nothing has to be converted, which are most of them."""

from __future__ import annotations

from typing import Any, Final, cast

from plait.client.catalog.schemas.keywords import ADDRESSES, HOLD_SCHEMA, REFERENCES, TYPES
from plait.client.catalog.schemas.values import Schema, holds_ref, is_number, is_schema

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_DEEPEST: Final = 16
_TYPES: Final = frozenset(TYPES)
_STRINGS: Final = frozenset({str})
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_TEXTS: Final = frozenset(
    {"title", "description", "$comment", "pattern", "format", "contentEncoding", "contentMediaType"}
)
_FLAGS: Final = frozenset({"uniqueItems", "deprecated", "readOnly", "writeOnly"})
_COUNTS: Final = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems"}
    | {"minProperties", "maxProperties", "minContains", "maxContains"}
)
_NUMBERS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_OTHERS: Final = (HOLD_SCHEMA | ADDRESSES | frozenset(REFERENCES)).union(
    {"prefixItems", "patternProperties", "dependentSchemas", "dependentRequired", "dependencies"},
    {"examples", "multipleOf", "type", "enum", "required", "properties", "anyOf", "oneOf", "allOf"},
    {"$schema"},
)
"""Keywords with rules of their own."""


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
    return root if _is_plain(root, 0) else None


def _is_plain(schema: object, depth: int) -> bool:
    # Binding a tool takes not much longer than this, so that it avoids generators and calls.
    if not is_schema(schema):
        return type(schema) is bool
    if depth > _DEEPEST:
        return False
    for key, value in schema.items():
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is str:
            if key not in _TEXTS and not (
                value in _TYPES if key == "type" else _is_plain_scalar(key, value)
            ):
                return False
        elif kind is dict:
            if key == "properties":
                if "$ref" in value:
                    return False
                for inner in value.values():
                    if not _is_plain(inner, depth + 1):
                        return False
            elif key == "items" or key == "additionalProperties":
                if not _is_plain(value, depth + 1):
                    return False
            elif (key != "default" and key != "const") or holds_ref(value):
                return False
        elif not (_is_plain_list if kind is list else _is_plain_scalar)(key, value, depth):
            return False
    return True


def _is_plain_list(key: str, value: list[Any], depth: int) -> bool:
    if key == "required" or key == "enum":
        texts = _STRINGS.issuperset(map(type, value))
        return texts and len(set(value)) == len(value) and bool(value or key == "required")
    if key == "anyOf" or key == "oneOf" or key == "allOf":
        return bool(value) and all(_is_plain(inner, depth + 1) for inner in value)
    return (key == "default" or key == "const") and not holds_ref(value)


def _is_plain_scalar(key: str, value: object, _depth: int = 0) -> bool:
    if key in _TEXTS:
        return type(value) is str
    if key in _FLAGS or key == "items" or key == "additionalProperties":
        return type(value) is bool
    if key in _COUNTS:
        return type(value) is int and value >= 0
    if key in _NUMBERS:
        return is_number(value)
    return value == DIALECT if key == "$schema" else key not in _OTHERS and type(value) in _SCALARS
