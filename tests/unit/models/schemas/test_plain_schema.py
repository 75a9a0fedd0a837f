"""Schemas that are shared as they are come out as those that are converted step by step."""

from __future__ import annotations

from copy import deepcopy
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.models.schemas.describe import Notes
from plait.models.schemas.for_provider import (
    cleaned_schema,
    object_root,
    schema_for_provider,
)
from plait.models.schemas.json_schema import shared_if_plain
from tests.unit.models.schemas.strategies import ANY, SOUND

_data = st.sampled_from(
    [
        *(None, True, 0, -1, 2, 1.5, 3.0, float("inf"), "x", "object", "STRING", {}, {"a": [1]}),
        *([], ["a"], ["a", "a"], [1], [None], "https://json-schema.org/draft/2020-12/schema"),
    ]
)
_keywords = st.sampled_from(
    [
        *("type", "title", "description", "enum", "const", "default", "required", "format"),
        *("pattern", "minimum", "exclusiveMaximum", "minLength", "maxItems", "uniqueItems"),
        *("deprecated", "items", "additionalProperties", "examples", "multipleOf", "$schema"),
        *("$ref", "$id", "$defs", "dependencies", "prefixItems", "not", "x-own", "anyOf"),
    ]
)
_nodes: st.SearchStrategy[Any] = st.recursive(
    st.dictionaries(_keywords, _data, max_size=3),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", ["string", "null"]]),
            "properties": st.dictionaries(st.sampled_from(["a", "b", "$ref"]), inner),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "additionalProperties": inner | st.booleans(),
            "description": st.just("text"),
        },
    ),
    max_leaves=6,
)


def _converted(schema: object) -> tuple[Any, tuple[str, ...]]:
    """Convert a schema of mappings that are no dicts, none of which is recognized as plain."""
    notes = Notes()
    return object_root(cleaned_schema(_in_other_mappings(schema), notes), notes), notes.all


def _in_other_mappings(value: Any) -> Any:
    if isinstance(value, dict):
        return MappingProxyType({key: _in_other_mappings(inner) for key, inner in value.items()})
    return [_in_other_mappings(inner) for inner in value] if isinstance(value, list) else value


@settings(max_examples=100)
@given(schema=_nodes | ANY | SOUND)
def test_what_is_plain_is_converted_to_itself(schema: Any) -> None:
    rooted = {**schema, "type": "object"} if isinstance(schema, dict) else schema
    before = deepcopy(rooted)

    shared = shared_if_plain(rooted)

    if shared is not None:
        assert (shared, ()) == _converted(rooted)
        assert list(shared) == list(_converted(rooted)[0])
    assert schema_for_provider(rooted).schema == _converted(rooted)[0]
    assert repr(rooted) == repr(before)


def test_a_converted_schema_is_a_copy_that_can_be_changed() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}}

    copied = schema_for_provider(schema).schema
    copied["properties"]["a"]["enum"].append("y")

    assert schema["properties"] == {"a": {"type": "string", "enum": ["x"]}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"},
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, True]}}},
        {"type": "object", "properties": {"a": {"x-own": 1, "default": {"ref": "#"}}}},
        {"type": "object", "properties": {"a": {"type": ["string", "null"], "enum": ["x", None]}}},
        {"type": "object", "properties": {"a": {"enum": [1, 2.5], "examples": [1, {"a": [2]}]}}},
    ],
)
def test_usual_schemas_are_plain(schema: dict[str, Any]) -> None:
    shared = shared_if_plain(schema)

    assert shared is not None
    assert "$schema" not in shared
    assert "properties" in shared


@pytest.mark.parametrize(
    "rule",
    [
        *({"type": ["string", "text"]}, {"type": ["string", "string"]}, {"type": []}),
        *({"enum": []}, {"enum": [1, True]}, {"enum": ["a", "a"]}, {"enum": [["a"], "b"]}),
        *({"examples": [{"$ref": "#"}]}, {"required": ["a", "a"]}, {"required": [1]}),
    ],
)
def test_what_may_have_to_be_converted_is_not_plain(rule: dict[str, Any]) -> None:
    assert shared_if_plain({"type": "object", "properties": {"a": rule}}) is None
