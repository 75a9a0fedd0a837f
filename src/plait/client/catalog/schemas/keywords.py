"""The keywords of JSON Schema 2020-12 by what they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from plait.client.catalog.bounded_work import take_step
from plait.client.catalog.schemas.values import Schema, as_list, as_schema, is_list, is_schema

TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")

HOLD_SCHEMA: Final = frozenset(
    {"additionalProperties", "unevaluatedProperties", "propertyNames", "contentSchema"}
    | {"items", "additionalItems", "unevaluatedItems", "contains", "not", "if", "then", "else"}
)
HOLD_LIST: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
HOLD_MAP: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
"""The last one is of earlier drafts, and may hold lists of names, too."""
HOLD_SCHEMAS: Final = HOLD_SCHEMA | HOLD_LIST | HOLD_MAP
HOLD_VALUE: Final = frozenset({"enum", "const", "default", "examples", "example"})
"""Their values are data; a `$ref` in it is no reference."""
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
DEFINITIONS: Final = ("$defs", "definitions")
ADDRESSES: Final = frozenset(
    {"$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", *DEFINITIONS}
)
"""Keywords that only references need."""

ANNOTATIONS: Final = frozenset(
    {"title", "description", "default", "examples", "deprecated"}
    | {"readOnly", "writeOnly", "$comment", "$schema"}
)
"""Keywords that describe values without restricting them."""

TEXTS: Final = frozenset(
    {"title", "description", "$comment", "pattern", "format"}
    | {"contentEncoding", "contentMediaType"}
)
FLAGS: Final = frozenset({"uniqueItems", "deprecated", "readOnly", "writeOnly"})
COUNTS: Final = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems"}
    | {"minProperties", "maxProperties", "minContains", "maxContains"}
)
BOUNDS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})

UNIONS: Final = ("anyOf", "oneOf")

_STRING: Final = frozenset(
    {"minLength", "maxLength", "pattern", "format"}
    | {"contentEncoding", "contentMediaType", "contentSchema"}
)
_NUMBER: Final = BOUNDS | {"multipleOf", "format"}
ARRAY_SHAPE: Final = frozenset({"items", "prefixItems", "unevaluatedItems"})
OBJECT_SHAPE: Final = frozenset(
    {"properties", "patternProperties", "additionalProperties", "unevaluatedProperties"}
)

KEYWORDS_OF: Final[dict[str, frozenset[str]]] = {
    "string": _STRING,
    "number": _NUMBER,
    "integer": _NUMBER,
    "boolean": frozenset(),
    "null": frozenset(),
    "array": ARRAY_SHAPE
    | {"minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"},
    "object": OBJECT_SHAPE
    | {"required", "minProperties", "maxProperties", "propertyNames"}
    | {"dependentRequired", "dependentSchemas"},
}
"""The keywords that apply to values of one type."""

CONDITION: Final = frozenset({"if", "then", "else"})
TOGETHER: Final = (
    OBJECT_SHAPE,
    ARRAY_SHAPE,
    CONDITION,
    frozenset({"contains", "minContains", "maxContains"}),
)
"""Keywords that depend on each other, so that they cannot come from two schemas."""
CONSTRAINTS: Final = CONDITION.union(
    ("type", "enum", "const", "not", "allOf", "anyOf", "oneOf"), *KEYWORDS_OF.values()
)


def types_of(schema: Schema) -> list[str]:
    """List the types that a schema declares; empty if it does not."""
    named = schema.get("type")
    if isinstance(named, str):
        return [named]
    return [name for name in as_list(named) if isinstance(name, str)]


def map_children(schema: Schema, visit: Callable[[Any, str], Any]) -> Schema:
    """Return the schema with every inner schema replaced by `visit(inner, step)`."""
    take_step()
    changed: Schema = {}
    for key, value in schema.items():
        if key in HOLD_SCHEMA and not is_list(value):
            changed[key] = visit(value, "[]" if key == "items" else f".{key}")
        # In earlier drafts, `items` may be a list, too.
        elif is_list(value) and (key in HOLD_LIST or key in HOLD_SCHEMA):
            start = "" if key in ("items", "prefixItems") else f".{key}"
            changed[key] = [visit(inner, f"{start}[{index}]") for index, inner in enumerate(value)]
        elif key in HOLD_MAP and is_schema(value):
            start = "" if key == "properties" else f".{key}"
            changed[key] = {name: visit(inner, f"{start}.{name}") for name, inner in value.items()}
        else:
            changed[key] = value
    return changed


def places_in(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield a schema and all inside of it, each with its path."""
    yield path, schema
    inside: list[tuple[str, Schema]] = []
    map_children(
        schema, lambda inner, step: inside.append((step_into(path, step), as_schema(inner)))
    )
    for step, inner in inside:
        yield from places_in(inner, step)


def step_into(path: str, step: str) -> str:
    """Extend a path: `filter` and `.tags` give `filter.tags`."""
    return path + step if path else step.removeprefix(".")
