"""One schema for what several ask, and the types and values that a schema allows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.models.schemas.describe import Notes
from plait.models.schemas.for_provider import cleaned_schema, merge, merge_members
from plait.models.schemas.json_schema import (
    distinct,
    is_never,
    narrow_to_type,
    possible_types,
)
from tests.unit.models.schemas.strategies import JSON, SOUND, calmly, fits, values_for


@given(st.lists(SOUND, min_size=1, max_size=3), st.data())
@calmly
def test_a_value_fits_the_merged_schema_exactly_if_it_fits_all(
    members: list[Any], data: st.DataObject
) -> None:
    schema = cleaned_schema({"allOf": members}, Notes())
    value = data.draw(JSON | values_for(schema))

    assert fits(merge_members(schema), value) == fits(schema, value)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"minimum": 1, "maximum": 9}, {"minimum": 3, "maximum": 20}, {"minimum": 3, "maximum": 9}),
        ({"type": ["string", "null"]}, {"type": "string"}, {"type": "string"}),
        ({"type": "number"}, {"type": "integer"}, {"type": "integer"}),
        ({"const": 1}, {"enum": [1, 2]}, {"const": 1, "enum": [1, 2]}),
        ({"required": ["a"]}, {"required": ["b", "a"]}, {"required": ["a", "b"]}),
        ({"uniqueItems": False}, {"uniqueItems": True}, {"uniqueItems": True}),
        ({"description": "One"}, {"description": "Two."}, {"description": "One. Two."}),
        (
            {"title": "One", "default": 1},
            {"title": "Two", "default": 2},
            {"title": "One", "default": 1},
        ),
        (
            {"properties": {"a": {"minLength": 1}}},
            {"properties": {"a": {"maxLength": 2}, "b": True}},
            {"properties": {"a": {"minLength": 1, "maxLength": 2}, "b": {}}},
        ),
        (
            {"not": {"const": 1}},
            {"not": {"const": 2}},
            {"not": {"anyOf": [{"const": 1}, {"const": 2}]}},
        ),
    ],
)
def test_keywords_are_merged(first: Any, second: Any, expected: Any) -> None:
    assert merge(first, second) == expected


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"pattern": "a"}, {"pattern": "b"}),
        ({"multipleOf": 4}, {"multipleOf": 6}),
        ({"enum": [1, 2]}, {"enum": [2.0, 3]}),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"properties": {"b": {}}}),
        ({"items": {"minimum": 1}, "maxItems": 3}, {"items": {"maximum": 2}}),
        ({"contains": {}}, {"contains": {"const": 1}}),
        ({"prefixItems": [{"minimum": 1}]}, {"items": {"maximum": 2}}),
        ({"patternProperties": {"a": {}}}, {"properties": {"b": {}}}),
    ],
)
def test_what_one_schema_cannot_say_stays_behind(first: Any, second: Any) -> None:
    assert merge(first, second) == {**first, "allOf": [second]}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"type": "string"}, {"type": "null"}),
        ({"type": "string"}, {"type": ["integer", "number"]}),
        ({}, False),
        ({"not": {"const": 1}}, False),
    ],
)
def test_contradictions_are_seen(first: Any, second: Any) -> None:
    assert is_never(merge(first, second))


def test_members_that_close_an_object_together_close_the_merged_one() -> None:
    schema = {
        "allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}],
        "unevaluatedProperties": False,
    }

    assert merge_members(schema) == {
        "properties": {"a": {}, "b": {}},
        "unevaluatedProperties": False,
    }


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({"type": "string"}, ["string"]),
        ({"type": ["integer", "number", "null"]}, ["number", "null"]),
        ({"enum": ["a", 1, 2.5, None]}, ["string", "number", "null"]),
        ({"type": "string", "enum": [1, "a"]}, ["string"]),
        ({"type": "string", "const": 1}, []),
        ({"properties": {}}, ["object"]),
        ({"minLength": 1, "maximum": 2}, ["string", "number"]),
        ({"format": "uri"}, ["string"]),
        ({"description": "Anything"}, []),
    ],
)
def test_types_are_found(schema: Any, kinds: list[str]) -> None:
    assert possible_types(schema) == kinds


def test_what_concerns_other_types_is_left_out() -> None:
    schema = {"enum": ["a", 1, True, False], "minLength": 1, "minimum": 0, "title": "T"}

    assert narrow_to_type(schema, "string") == {
        "type": "string",
        "enum": ["a"],
        "minLength": 1,
        "title": "T",
    }
    assert narrow_to_type(schema, "boolean") == {"type": "boolean", "title": "T"}


@pytest.mark.parametrize("count", [3, 16, 17, 100])
def test_the_first_of_equal_values_keeps_its_place(count: int) -> None:
    values = [str(number) for number in range(count)]

    assert distinct([*values, values[0], 1, 1.0]) == [*values, 1]
