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
    return root if plain_size(root) else None


def plain_size(schema: object, depth: int = 0) -> int:
    """Count the schemas in a schema in which nothing has to be converted.

    0 means that something may have to be.
    """
    # Binding a tool takes not much longer than this, so that it avoids generators and calls.
    if not is_schema(schema):
        return int(type(schema) is bool)
    if depth > _DEEPEST:
        return 0
    size = 1
    for key, value in schema.items():
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is str:
            if key not in _TEXTS and not (
                value in _TYPES if key == "type" else _is_plain_scalar(key, value)
            ):
                return 0
        elif kind is dict:
            if key == "properties":
                if "$ref" in value:
                    return 0
                for inner in value.values():
                    inner_size = plain_size(inner, depth + 1)
                    if not inner_size:
                        return 0
                    size += inner_size
            elif key == "items" or key == "additionalProperties":
                inner_size = plain_size(value, depth + 1)
                if not inner_size:
                    return 0
                size += inner_size
            elif (key != "default" and key != "const") or holds_ref(value):
                return 0
        elif kind is list and (key == "anyOf" or key == "oneOf" or key == "allOf"):
            sizes = [plain_size(inner, depth + 1) for inner in value]
            if not sizes or 0 in sizes:
                return 0
            size += sum(sizes)
        elif not (_is_plain_list if kind is list else _is_plain_scalar)(key, value):
            return 0
    return size


def _is_plain_list(key: str, value: list[Any]) -> bool:
    if key == "required" or key == "type" or key == "enum":
        if not (_SCALARS if key == "enum" else _STRINGS).issuperset(map(type, value)):
            return False
        names = set(value)  # 1 and true are one there, and then told apart by the long way
        if len(names) < len(value) or not (names or key == "required"):
            return False
        return key != "type" or names <= _TYPES
    return key in {"default", "const", "examples"} and not holds_ref(value)


def _is_plain_scalar(key: str, value: object) -> bool:
    if key in _TEXTS:
        return type(value) is str
    if key in _FLAGS or key == "items" or key == "additionalProperties":
        return type(value) is bool
    if key in _COUNTS:
        return type(value) is int and value >= 0
    if key in _NUMBERS:
        return is_number(value)
    return value == DIALECT if key == "$schema" else key not in _OTHERS and type(value) in _SCALARS
