"""Schemas that were made to hurt: they end, they stay small, and they are accepted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from plait.models.schemas.for_provider import PROFILES, schema_for_provider
from plait.models.schemas.parameters import parameters_from_schema
from tests.unit.models.schemas.subsets import PROBLEMS


def _deep(wrap: Callable[[Any], Any], levels: int = 2_000) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = wrap(schema)
    return schema


def _doubling(wrap: Callable[[Any], Any], levels: int = 40) -> Any:
    """Each definition uses the next one several times: written out, there are 2^40 of the last."""
    definitions = {f"L{level}": wrap({"$ref": f"#/$defs/L{level + 1}"}) for level in range(levels)}
    definitions[f"L{levels}"] = {"type": "string"}
    return {"$defs": definitions, "type": "object", "properties": {"x": {"$ref": "#/$defs/L0"}}}


def _choices(levels: int = 30) -> list[Any]:
    """All of these together have 2^30 alternatives."""
    return [
        {"anyOf": [{"properties": {f"p{level}": {"const": value}}} for value in (1, 2)]}
        for level in range(levels)
    ]


def _circle() -> Any:
    schema: Any = {"type": "object", "properties": {}}
    schema["properties"] |= {"me": schema, "too": schema}
    return schema


def _circular_data() -> Any:
    values: list[Any] = [1]
    values.append(values)
    return {"properties": {"a": {"default": values, "enum": [values]}}}


CASES: dict[str, Any] = {
    "objects": _deep(lambda inner: {"type": "object", "properties": {"n": inner}}),
    "arrays": _deep(lambda inner: {"type": "array", "items": inner}),
    "allOf": _deep(lambda inner: {"allOf": [inner]}),
    "anyOf": _deep(lambda inner: {"anyOf": [inner, {"type": "null"}]}),
    "not": {"properties": {"a": _deep(lambda inner: {"not": inner})}},
    "default": {"properties": {"a": {"default": _deep(lambda inner: [inner])}}},
    "unknown": {"x-own": _deep(lambda inner: {"x": inner})},
    "doubling objects": _doubling(lambda r: {"type": "object", "properties": {"a": r, "b": r}}),
    "doubling unions": _doubling(lambda r: {"allOf": [r, {"anyOf": [r, {"minLength": 1}]}]}),
    "choices": {"properties": {"x": {"allOf": _choices()}}},
    "choices at the top": {"allOf": _choices()},
    "circle": _circle(),
    "circular data": _circular_data(),
    "many": {
        "properties": {"x": {"oneOf": [{"properties": {"k": {"const": n}}} for n in range(300)]}}
    },
}


@pytest.mark.parametrize("name", CASES)
def test_a_hurtful_schema_does_no_harm(name: str) -> None:
    for profile in PROFILES:
        shaped = schema_for_provider(CASES[name], profile)

        assert list(PROBLEMS[profile](shaped.schema)) == [], profile
        assert len(json.dumps(shaped.schema)) < 1_000_000

    assert len(parameters_from_schema(CASES[name])) < 100


def test_what_is_too_deep_is_left_open_and_noted() -> None:
    shaped = schema_for_provider(CASES["objects"])

    here, levels = shaped.schema, 0
    while here.get("properties"):
        here, levels = here["properties"]["n"], levels + 1
    assert levels == 64
    assert here == {}
    assert any("too deep" in note for note in shaped.notes)
