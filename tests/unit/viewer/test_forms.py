"""A form has a field for each argument, and what is entered becomes arguments again."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from plait.viewer.forms import FormError, arguments_from, field_key, fields_of, form_of

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


def _sent(entered: dict[str, str]) -> dict[str, str]:
    return {field_key(name): text for name, text in entered.items()}


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

    assert arguments_from(SCHEMA, _sent(entered)) == {
        "query": "tea",
        "limit": 5,
        "exact": False,
        "sort": 3,
        "ratio": 0.5,
        "where": {"x": 1},
        "tags": ["a"],
    }
    assert arguments_from(SCHEMA, _sent({"query": "", "limit": ""})) == {"query": ""}
    whole = {**_sent({"query": "x"}), "arguments": '{"limit": 1}'}
    assert arguments_from(SCHEMA, whole) == {"limit": 1}


@pytest.mark.parametrize(
    "entered",
    [
        {"field.limit": "many"},
        {"field.limit": "true"},
        {"field.ratio": "NaN"},
        {"field.ratio": "Infinity"},
        {"field.tags": "[1"},
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

    text = form_of(schema, action="/servers/call", target={"tool": hostile}, buttons=None)

    assert "<script" not in text
    assert "&lt;script" in text


@pytest.mark.parametrize("name", ["dataset", "closest", "arguments", "a\u200bb", 'a"<b'])
def test_the_name_of_a_field_is_its_own_and_returns_as_it_was_sent(name: str) -> None:
    schema = {"properties": {name: {"type": "string"}}}

    text = form_of(schema, action="/servers/call", target={}, buttons=None)
    names = [html.unescape(one) for one in re.findall(r' name="([^"]*)"', text)]

    assert names == [field_key(name), "arguments"]
    assert arguments_from(schema, {names[0]: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    "schema", [{}, {"properties": None}, {"properties": {"a": True}}, {"required": 3}]
)
def test_a_strange_schema_still_has_a_form(schema: dict[str, Any]) -> None:
    assert "Arguments as JSON" in form_of(schema, action="/x", target={}, buttons=None)
    assert arguments_from(schema, {"arguments": '{"a": 1}'}) == {"a": 1}


TITLED: dict[str, Any] = {
    "properties": {
        "size": {"type": "string", "title": "Size of the cup", "enum": ["s", "l"]},
        "of_what": {"type": "string", "title": "Of What"},
        "old": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
        "new": {"oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["hot", "sweet", "big"]}},
        "more": {"type": "array", "items": {"anyOf": [{"const": 1, "title": "One"}]}},
    }
}
"""The ways in which a server may let a person choose."""


def test_choices_have_labels_and_several_may_be_chosen_where_a_list_is_wanted() -> None:
    choices = {field.name: [label for _, label in field.choices] for field in fields_of(TITLED)}
    text = form_of(TITLED, action="/x", target={}, buttons=None)

    assert choices == {
        "size": ["s", "l"],
        "of_what": [],
        "old": ["Small", "Large"],
        "new": ["Small", "Large"],
        "tags": ["hot", "sweet", "big"],
        "more": ["One"],
    }
    assert "Size of the cup" in text
    assert "Of What" not in text
    assert text.count('type="checkbox"') == 4
    entered = _sent({"old": "l", "new": "s", "tags": "hot\nbig", "more": "1"})
    chosen = {"old": "l", "new": "s", "tags": ["hot", "big"], "more": [1]}
    assert arguments_from(TITLED, entered) == chosen
