"""Read JSON Schemas just well enough to show a tool's parameters and to type its arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

Schema = Mapping[str, Any]

_MOST_ENUM_VALUES = 4
"""More values would drown the signature they stand in."""

_MOST_REFS = 32
"""A chain of references this long goes round in circles."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a tool, as a signature shows it."""

    name: str

    type: str

    required: bool

    default: str | None
    """The default as JSON; `None` when there is none worth showing."""

    description: str

    def __str__(self) -> str:
        if self.required:
            return f"{self.name}: {self.type}"
        if self.default is not None:
            return f"{self.name}: {self.type} = {self.default}"
        return f"{self.name}?: {self.type}"


def parameters_of(schema: Schema) -> tuple[Parameter, ...]:
    """List the parameters of a tool's input schema, required ones first, else in their order."""
    root = resolved(schema, schema)
    required = _strings(root.get("required"))
    found = [
        _parameter(name, _schema(inner), schema, required=name in required)
        for name, inner in _schema(root.get("properties")).items()
    ]
    return tuple(sorted(found, key=lambda parameter: not parameter.required))


def _parameter(name: str, inner: Schema, root: Schema, *, required: bool) -> Parameter:
    shape = resolved(inner, root)
    default = shape.get("default")
    return Parameter(
        name=name,
        type=type_label(inner, root, hide_null=not required),
        required=required,
        default=None if default is None else json.dumps(default, ensure_ascii=False),
        description=str(shape.get("description") or ""),
    )


def resolved(schema: Schema, root: Schema) -> Schema:
    """Follow local references; a reference that leads nowhere allows anything."""
    for _ in range(_MOST_REFS):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**_target(reference, root), **siblings}
    return {}


def _target(reference: str, root: Schema) -> Schema:
    if reference != "#" and not reference.startswith("#/"):
        return {}
    found: object = root
    for part in reference.removeprefix("#").split("/")[1:]:
        found = _schema(found).get(part.replace("~1", "/").replace("~0", "~"))
    return _schema(found)


def json_types(schema: Schema, root: Schema, depth: int = 8) -> frozenset[str]:
    """Name the JSON types a schema allows; empty when it does not say."""
    shape = resolved(schema, root)
    if depth == 0:
        return frozenset()
    if declared := _strings(shape.get("type")):
        return frozenset(declared)
    values = [shape["const"]] if "const" in shape else shape.get("enum")
    if isinstance(values, list):
        return frozenset(_type_of(value) for value in cast("list[object]", values))
    for key in ("anyOf", "oneOf"):
        if branches := _schemas(shape.get(key)):
            kinds = [json_types(branch, root, depth - 1) for branch in branches]
            return frozenset[str]().union(*kinds) if all(kinds) else frozenset()
    narrowing = [json_types(part, root, depth - 1) for part in _schemas(shape.get("allOf"))]
    if known := [kinds for kinds in narrowing if kinds]:
        return known[0].intersection(*known[1:])
    if "properties" in shape:
        return frozenset({"object"})
    return frozenset({"array"}) if "items" in shape else frozenset()


def schema_at(root: Schema, path: Sequence[str]) -> Schema:
    """Return the schema of a nested argument; an empty one, which allows anything, if unknown."""
    here = resolved(root, root)
    for name in path:
        here = resolved(_child(here, name, root), root)
    return here


def item_schema(schema: Schema, root: Schema) -> Schema:
    """Return the schema of an array's items, looking into unions."""
    shape = resolved(schema, root)
    if "items" in shape:
        return _schema(shape["items"])
    for branch in _branches(shape):
        if found := item_schema(branch, root):
            return found
    return {}


def _child(shape: Schema, name: str, root: Schema) -> Schema:
    properties = _schema(shape.get("properties"))
    if name in properties:
        return _schema(properties[name])
    for branch in _branches(shape):
        if found := _child(resolved(branch, root), name, root):
            return found
    return _schema(shape.get("additionalProperties"))


def _branches(shape: Schema) -> list[Schema]:
    return [branch for key in ("anyOf", "oneOf", "allOf") for branch in _schemas(shape.get(key))]


def type_label(schema: Schema, root: Schema, *, hide_null: bool = False, depth: int = 4) -> str:
    """Describe a type in a word or two: `string`, `integer[]`, `"asc"|"desc"`."""
    shape = resolved(schema, root)
    if depth == 0:
        return "any"
    values = [shape["const"]] if "const" in shape else shape.get("enum")
    if isinstance(values, list):
        return _enum_label(cast("list[object]", values))
    for key in ("anyOf", "oneOf"):
        if branches := _schemas(shape.get(key)):
            return _union([type_label(part, root, depth=depth - 1) for part in branches], hide_null)
    kinds = _strings(shape.get("type")) or sorted(json_types(shape, root))
    return _union([_kind_label(kind, shape, root, depth) for kind in kinds], hide_null)


def _kind_label(kind: str, shape: Schema, root: Schema, depth: int) -> str:
    if kind != "array":
        return kind
    inner = type_label(_schema(shape.get("items")), root, depth=depth - 1)
    if inner == "any":
        return "array"
    return f"({inner})[]" if "|" in inner else f"{inner}[]"


def _union(labels: list[str], hide_null: bool) -> str:
    shown = [label for label in dict.fromkeys(labels) if not (hide_null and label == "null")]
    return "|".join(shown) if shown and "any" not in shown else "any"


def _enum_label(values: list[object]) -> str:
    shown = [json.dumps(value, ensure_ascii=False) for value in values[:_MOST_ENUM_VALUES]]
    return "|".join([*shown, "…"] if len(values) > _MOST_ENUM_VALUES else shown)


def _type_of(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case None:
            return "null"
        case list():
            return "array"
        case _:
            return "object"


def _schema(value: object) -> Schema:
    return cast("Schema", value) if isinstance(value, Mapping) else {}


def _schemas(value: object) -> list[Schema]:
    return (
        [_schema(part) for part in cast("list[object]", value)] if isinstance(value, list) else []
    )


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = cast("list[object]", value) if isinstance(value, list) else []
    return [part for part in parts if isinstance(part, str)]
