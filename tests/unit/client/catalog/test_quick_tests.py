"""Fast tests of plain schemas, which need no compiled schema."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from plait.client.catalog.schemas.json_schema import CONSTRAINTS
from plait.client.catalog.validation import quick_test, validator_for_schema

PLAIN: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 3, "description": "A text."},
        "times": {"type": "integer", "minimum": 1},
        "kinds": {"type": "array", "items": {"enum": ["a", "b"]}},
    },
    "required": ["text"],
    "additionalProperties": False,
}


def test_the_rules_are_those_of_the_library() -> None:
    # A schema with a reference has no fast test.
    assert set(Draft202012Validator.VALIDATORS) - {"$ref", "$dynamicRef"} <= CONSTRAINTS


@pytest.mark.parametrize(
    ("arguments", "accepted"),
    [
        ({"text": "abc"}, True),
        ({"text": "abc", "times": 2, "kinds": ["a"]}, True),
        ({"text": "abcd"}, False),
        ({"text": "abc", "times": 0}, False),
        ({"text": "abc", "kinds": ["c"]}, False),
        ({"text": "abc", "more": 1}, False),
        ({"times": 2}, False),
        ([], False),
    ],
)
def test_it_accepts_what_the_compiled_schema_accepts(arguments: Any, accepted: bool) -> None:
    test = quick_test(PLAIN)

    assert test is not None
    assert test(arguments) is accepted
    assert validator_for_schema(PLAIN).surely_accepts(arguments) is accepted


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {}}},
        {"type": "object", "properties": {"a": {"type": "strin"}}},
        {"type": "object", "properties": {"a": {"minimum": "1"}}},
        {"type": "object", "required": "a"},
        {"type": "object", "if": {"required": ["a"]}, "then": False},
        {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"},
        {"$schema": 1, "type": "object"},
        {"$schema": [1], "type": "object"},
        {"type": "object", "properties": {str(n): {"type": "null"} for n in range(600)}},
    ],
)
def test_other_schemas_are_left_to_the_library(schema: dict[str, Any]) -> None:
    assert quick_test(schema) is None
