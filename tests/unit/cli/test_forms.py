"""Forms of servers are read as they are meant, and only what fits goes into them."""

from __future__ import annotations

from typing import Any

import pytest

from plait.cli.questions import FormField, InvalidAnswerError, check_answer, fields_of, parse_answer

TITLED = {"oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]}


def field(**schema: Any) -> FormField:
    (one,) = fields_of({"type": "object", "properties": {"it": schema}})
    return one


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, " as it is ", " as it is "),
        ({"type": "string", "format": "email"}, "ann@example.com", "ann@example.com"),
        ({"type": "string", "format": "uri"}, "mailto:ann", "mailto:ann"),
        ({"type": "string", "format": "date"}, "2027-01-31", "2027-01-31"),
        ({"type": "string", "format": "date-time"}, "2027-01-31T12:00:00Z", "2027-01-31T12:00:00Z"),
        ({"type": "integer", "minimum": 2}, " 2 ", 2),
        ({"type": "number", "maximum": 2}, "1.5", 1.5),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "n", False),
        ({"type": "string", "enum": ["a", "b"]}, "2", "b"),
        ({"type": "string", "enum": ["a", "b"]}, "A", "a"),
        ({"type": "string", "enum": ["7", "1"]}, "7", "7"),
        ({"type": "string", "enum": ["a"], "enumNames": ["First"]}, "First", "a"),
        ({"type": "string", **TITLED}, "Large", "l"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, "2, a,2", ["b", "a"]),
        ({"type": "array", "items": {"anyOf": TITLED["oneOf"]}}, "1,Large", ["s", "l"]),
        ({"type": "array", "items": {"type": "string"}}, "x, y", ["x", "y"]),
    ],
)
def test_what_is_typed_gets_the_type_of_its_field(schema: Any, text: str, value: Any) -> None:
    assert parse_answer(field(**schema), text) == value


@pytest.mark.parametrize(
    ("schema", "text", "reason"),
    [
        ({"type": "string", "minLength": 3}, "ab", "needs at least 3 characters"),
        ({"type": "string", "maxLength": 1}, "ab", "takes at most 1 characters"),
        ({"type": "string", "format": "email"}, "ann", "an address such as"),
        ({"type": "string", "format": "uri"}, "example", "a URI such as"),
        ({"type": "string", "format": "date"}, "31.1.", "a date such as"),
        ({"type": "string", "format": "date-time"}, "noon", "a time such as"),
        ({"type": "integer"}, "1.5", "a whole number"),
        ({"type": "number"}, "nan", "must be a number"),
        ({"type": "number", "minimum": 2}, "1", "must be at least 2"),
        ({"type": "number", "maximum": 2}, "3", "must be at most 2"),
        ({"type": "number", "exclusiveMaximum": 2}, "2", "must be less than 2"),
        ({"type": "string", "pattern": "^a"}, "b", "must match"),
        ({"type": "boolean"}, "maybe", "type y or n"),
        ({"type": "string", "enum": ["a", "b"]}, "3", "a number from 1 to 2"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1}, ",", "at least 1 values"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 1}, "1,2", "at most 1"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "1,c", "a number from 1 to 2"),
    ],
)
def test_what_does_not_fit_is_said_with_what_does(schema: Any, text: str, reason: str) -> None:
    with pytest.raises(InvalidAnswerError, match=reason):
        parse_answer(field(**schema), text)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, True),
        ({"type": "integer"}, 1.5),
        ({"type": "boolean"}, "true"),
        ({"type": "string"}, 5),
        ({"type": "string", "enum": ["a"]}, "1"),
        ({"type": "array", "items": {"enum": ["a"]}}, ["b"]),
        ({"type": "array", "items": {"enum": ["a"]}}, "a"),
    ],
)
def test_a_value_of_another_type_does_not_fit(schema: Any, value: Any) -> None:
    with pytest.raises(InvalidAnswerError, match=r"must be \w"):
        check_answer(field(**schema), value)


def test_a_default_that_does_not_fit_is_none() -> None:
    assert field(type="integer", default=3).default == 3
    assert field(type="integer", default="3").default is None
    assert field(type="string", enum=["a"], default="b").default is None


def test_a_schema_that_makes_no_sense_has_fields_of_text_or_none() -> None:
    assert fields_of({"properties": 7, "required": 7}) == ()
    (one,) = fields_of({"properties": {"it": 7}, "required": ["it"]})
    assert (one.kind, one.required, one.hint) == ("text", True, "")
