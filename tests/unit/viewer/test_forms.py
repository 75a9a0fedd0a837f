"""A form has a field for each argument, and what is entered becomes arguments again."""

from __future__ import annotations

from typing import Any

import pytest

from plait.viewer.forms import FormError, arguments_from, fields_of, form_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {"Place": {"type": "object", "properties": {"x": {"type": "number"}}}},
    "properties": {
        "limit": {"type": "integer", "default": 10},
        "query": {"type": "string", "description": "What to <find>."},
        "exact": {"type": "boolean"},
        "sort": {"enum": ["up", "down", 3]},
        "ratio": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "where": {"$ref": "#/$defs/Place"},
        "tags": {"type": ["array", "null"], "items": {"type": "string"}},
    },
    "required": ["query"],
}


def test_a_field_is_of_the_kind_of_its_schema_and_required_ones_come_first() -> None:
    kinds = {field.name: field.kind for field in fields_of(SCHEMA)}

    assert next(iter(kinds)) == "query"
    assert kinds == {
        "query": "text",
        "limit": "integer",
        "exact": "boolean",
        "sort": "choice",
        "ratio": "number",
        "where": "json",
        "tags": "json",
    }


def test_what_was_entered_becomes_arguments_of_the_right_types() -> None:
    entered = {
        "query": "tea",
        "limit": "5",
        "exact": "false",
        "sort": "3",
        "ratio": "0.5",
        "where": '{"x": 1}',
        "tags": '["a"]',
    }

    assert arguments_from(SCHEMA, entered) == {
        "query": "tea",
        "limit": 5,
        "exact": False,
        "sort": 3,
        "ratio": 0.5,
        "where": {"x": 1},
        "tags": ["a"],
    }
    assert arguments_from(SCHEMA, {"query": "", "limit": ""}) == {"query": ""}
    assert arguments_from(SCHEMA, {"query": "x", "arguments": '{"limit": 1}'}) == {"limit": 1}


@pytest.mark.parametrize(
    "entered",
    [
        {"limit": "many"},
        {"limit": "true"},
        {"ratio": "NaN"},
        {"ratio": "Infinity"},
        {"tags": "[1"},
        {"arguments": "[1]"},
    ],
)
def test_what_cannot_be_read_is_refused(entered: dict[str, str]) -> None:
    with pytest.raises(FormError):
        arguments_from(SCHEMA, entered)


def test_texts_of_a_server_are_escaped_in_the_form() -> None:
    hostile = '"><script>alert(1)</script>'
    schema = {
        "properties": {
            hostile: {"type": "string", "description": hostile, "default": hostile},
            "pick": {"enum": [hostile]},
        }
    }

    text = form_of(schema, action="/servers/a/call/b")

    assert "<script" not in text
    assert "&lt;script" in text


@pytest.mark.parametrize(
    "schema", [{}, {"properties": None}, {"properties": {"a": True}}, {"required": 3}]
)
def test_a_strange_schema_still_has_a_form(schema: dict[str, Any]) -> None:
    assert "Arguments as JSON" in form_of(schema, action="/x")
    assert arguments_from(schema, {"arguments": '{"a": 1}'}) == {"a": 1}
