"""Signatures of tools, and the types of their arguments, from JSON Schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plait.client.catalog.schemas import inline_refs
from plait.client.catalog.schemas.clean import clean
from plait.client.catalog.schemas.keywords import UNIONS, types_of
from plait.client.catalog.schemas.merge import values_of
from plait.client.catalog.schemas.provider_schema import Notes
from plait.client.catalog.schemas.values import Schema, as_list, as_schema, is_schema, json_type

_MOST_ENUM_VALUES = 4
"""More values make a signature unreadable."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a tool, as a signature shows it."""

    name: str
    type: str
    required: bool
    default: str | None
    """The default as JSON; `None` if there is none, or it is null."""

    description: str

    def __str__(self) -> str:
        if self.required:
            return f"{self.name}: {self.type}"
        if self.default is not None:
            return f"{self.name}: {self.type} = {self.default}"
        return f"{self.name}?: {self.type}"


def readable_schema(schema: Mapping[str, Any]) -> Schema:
    """Return a schema with references inlined and broken keywords removed."""
    return clean(inline_refs(schema).schema, Notes())


def parameters_of(schema: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """List the parameters of an input schema, required ones first."""
    root = readable_schema(schema)
    required = as_list(root.get("required"))
    properties = as_schema(root.get("properties"))
    parameters: list[Parameter] = []
    for name, inner in properties.items():
        about = as_schema(inner)
        label = type_label(about, hide_null=name not in required)
        default = about.get("default")
        default = None if default is None else json.dumps(default, ensure_ascii=False)
        description = str(about.get("description") or "")
        parameters.append(Parameter(name, label, name in required, default, description))
    return tuple(sorted(parameters, key=lambda parameter: not parameter.required))


def json_types(schema: Schema) -> frozenset[str]:
    """Return the JSON types that a schema without references allows; empty for any type."""
    if declared := types_of(schema):
        return frozenset(declared)
    if (values := values_of(schema)) is not None:
        return frozenset(json_type(value) for value in values)
    for key in UNIONS:
        if branches := as_list(schema.get(key)):
            types = [json_types(as_schema(branch)) for branch in branches]
            return frozenset[str]().union(*types) if all(types) else frozenset()
    members = [json_types(as_schema(member)) for member in as_list(schema.get("allOf"))]
    if known := [types for types in members if types]:
        return known[0].intersection(*known[1:])
    if "properties" in schema:
        return frozenset({"object"})
    return frozenset({"array"}) if "items" in schema else frozenset()


def schema_at(schema: Mapping[str, Any], path: Sequence[str]) -> Schema:
    """Return the schema of a nested argument, without references; empty if unknown."""
    inner = readable_schema(schema)
    for name in path:
        inner = _property(inner, name)
    return inner


def item_schema(schema: Schema) -> Schema:
    """Return the schema of the items of an array, also inside unions."""
    if "items" in schema:
        return as_schema(schema["items"])
    for branch in _branches(schema):
        if items := item_schema(branch):
            return items
    return {}


def _property(schema: Schema, name: str) -> Schema:
    properties = as_schema(schema.get("properties"))
    if name in properties:
        return as_schema(properties[name])
    for branch in _branches(schema):
        if inner := _property(branch, name):
            return inner
    others = schema.get("additionalProperties")
    return others if is_schema(others) else {}


def _branches(schema: Schema) -> list[Schema]:
    keys = (*UNIONS, "allOf")
    return [as_schema(branch) for key in keys for branch in as_list(schema.get(key))]


def type_label(schema: Schema, *, hide_null: bool = False) -> str:
    """Format the type of a schema without references: `string`, `integer[]`, `"asc"|"desc"`."""
    if (values := values_of(schema)) is not None:
        shown = [json.dumps(value, ensure_ascii=False) for value in values[:_MOST_ENUM_VALUES]]
        return "|".join([*shown, "…"] if len(values) > _MOST_ENUM_VALUES else shown)
    for key in UNIONS:
        if branches := as_list(schema.get(key)):
            return _union([type_label(as_schema(branch)) for branch in branches], hide_null)
    types = types_of(schema) or sorted(json_types(schema))
    return _union([_array_label(schema) if kind == "array" else kind for kind in types], hide_null)


def _array_label(schema: Schema) -> str:
    items = type_label(as_schema(schema.get("items", True)))
    if items == "any":
        return "array"
    return f"({items})[]" if "|" in items else f"{items}[]"


def _union(labels: list[str], hide_null: bool) -> str:
    shown = [label for label in dict.fromkeys(labels) if not (hide_null and label == "null")]
    return "|".join(shown) if shown and "any" not in shown else "any"
