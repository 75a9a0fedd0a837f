"""JSON Schemas are read well enough for signatures and argument types."""

from collections.abc import Mapping

import pytest

from plait.cli.arguments import json_types, parameters_of, readable_schema, schema_at, type_label


def inlined(schema: Mapping[str, object], root: Mapping[str, object]) -> dict[str, object]:
    return readable_schema({**root, **schema})


@pytest.mark.parametrize(
    ("schema", "label"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string|null"),
        ({"type": "array", "items": {"type": "integer"}}, "integer[]"),
        ({"type": "array"}, "array"),
        (
            {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}},
            "(integer|string)[]",
        ),
        ({"enum": ["asc", "desc"]}, '"asc"|"desc"'),
        ({"type": "string", "enum": list("abcdef")}, '"a"|"b"|"c"|"d"|…'),
        ({"const": 3}, "3"),
        ({"properties": {"a": {}}}, "object"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer|null"),
        ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, "integer"),
        ({}, "any"),
        ({"anyOf": [{"type": "integer"}, {}]}, "any"),
        ({"$ref": "#/$defs/Point"}, "object"),
        ({"$ref": "#/$defs/Loop"}, "any"),
        ({"$ref": "https://example.com/schema"}, "any"),
    ],
)
def test_a_type_is_a_word_or_two(schema: dict[str, object], label: str) -> None:
    root = {"$defs": {"Point": {"type": "object"}, "Loop": {"$ref": "#/$defs/Loop"}}}

    assert type_label(inlined(schema, root)) == label


def test_a_recursive_type_has_a_label_and_types() -> None:
    root = {
        "$defs": {
            "Tree": {
                "anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Tree"}}, {"type": "null"}]
            }
        }
    }
    tree = inlined({"$ref": "#/$defs/Tree"}, root)

    assert json_types(tree) == {"array", "null"}
    assert type_label(tree).endswith("|null")


def test_required_parameters_come_first_and_defaults_are_shown() -> None:
    schema = {
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "default": 10},
            "query": {"type": "string", "description": "What to look for."},
            "since": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["query"],
    }

    shown = [str(parameter) for parameter in parameters_of(schema)]

    assert shown == ["query: string", "limit: integer = 10", "since?: string"]
    assert parameters_of(schema)[0].description == "What to look for."


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"properties": []},
        {"properties": {"a": {"type": 3, "enum": 5, "anyOf": 7}}},
        {"required": 3},
    ],
)
def test_a_broken_schema_is_no_reason_to_fail(broken: dict[str, object]) -> None:
    assert isinstance(parameters_of(broken), tuple)


def test_a_nested_schema_is_found_through_unions_and_references() -> None:
    root = {
        "properties": {"filter": {"anyOf": [{"$ref": "#/$defs/Filter"}, {"type": "null"}]}},
        "$defs": {"Filter": {"properties": {"organic": {"type": "boolean"}}}},
    }

    assert schema_at(root, ["filter", "organic"]) == {"type": "boolean"}
    assert schema_at(root, ["filter", "missing"]) == {}
