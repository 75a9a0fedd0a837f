"""Keywords in words, and words added to descriptions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.models.schemas.describe import limits, outline, sentences_for, with_sentences
from tests.unit.models.schemas.strategies import ANY, SOUND, calmly


@pytest.mark.parametrize(
    ("schema", "sentences"),
    [
        ({"minimum": 1, "maximum": 100}, ["Must be >= 1 and <= 100"]),
        ({"exclusiveMinimum": 0, "maximum": 1.5}, ["Must be > 0 and <= 1.5"]),
        ({"minLength": 1, "maxLength": 100}, ["Must be >= 1 and <= 100 characters"]),
        ({"maxItems": 5}, ["Must have <= 5 items"]),
        ({"minProperties": 1}, ["Must have >= 1 properties"]),
        ({"pattern": "^a$", "format": "uri"}, ["Must match the pattern ^a$", "Format: uri"]),
        (
            {"multipleOf": 5, "uniqueItems": True},
            ["Must be a multiple of 5", "Items must be unique"],
        ),
        ({"minimum": True, "pattern": 3}, []),
    ],
)
def test_limits_are_said(schema: Any, sentences: list[str]) -> None:
    assert limits(schema) == sentences


@pytest.mark.parametrize(
    ("schema", "sentences"),
    [
        ({"enum": [1, "a"]}, ['Must be one of: 1, "a"']),
        ({"const": None}, ["Must be null"]),
        ({"default": 5, "examples": ["a", "b"]}, ["Default: 5", 'Examples: "a", "b"']),
        ({"default": None}, []),
        ({"not": {"type": "null"}}, ["Must not be: null"]),
        ({"dependentRequired": {"a": ["b", "c"]}}, ["With a, these are needed: b, c"]),
        ({"additionalProperties": False}, ["No other properties"]),
        (
            {"anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}]},
            ["At least one of these is needed: a; b and c"],
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "null"}]},
            ["Must fit exactly one of: string; null"],
        ),
        ({"allOf": [{"pattern": "^b"}]}, ["Must match the pattern ^b"]),
        ({"contains": {"const": 1}, "maxContains": 3}, ["Must hold 1 to 3 items like: 1"]),
    ],
)
def test_keywords_are_said(schema: Any, sentences: list[str]) -> None:
    assert sentences_for(schema) == sentences


@pytest.mark.parametrize(
    ("schema", "drawing"),
    [
        (True, "anything"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"type": "array", "items": {"type": "integer"}}, "list of integer"),
        (
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
            '{"a": string, "b"?: anything}',
        ),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "{<name>: number}"),
        ({"prefixItems": [{"type": "number"}, {"const": 1}], "items": False}, "[number, 1]"),
    ],
)
def test_shapes_are_drawn(schema: Any, drawing: str) -> None:
    assert outline(schema) == drawing


@pytest.mark.parametrize(
    ("description", "sentences", "expected"),
    [
        (None, ["Must be >= 1 and <= 100"], "Must be >= 1 and <= 100"),
        ("Name", ["Must be >= 1 characters"], "Name. Must be >= 1 characters."),
        ("Name.", ["One", "Two."], "Name. One. Two."),
        ("Is it? ", ["Yes"], "Is it? Yes."),
        ("Name", [], "Name"),
        (None, [], None),
        ("Must be >= 1", ["Must be >= 1"], "Must be >= 1"),
        ("", ["One", "One"], "One"),
    ],
)
def test_words_are_added(
    description: str | None, sentences: list[str], expected: str | None
) -> None:
    assert with_sentences(description, sentences) == expected


@given(st.none() | st.text(), st.lists(st.text(max_size=5)))
@calmly
def test_words_are_not_added_twice(description: str | None, sentences: list[str]) -> None:
    once = with_sentences(description, sentences)

    assert with_sentences(once, sentences) == once


@given(ANY)
@calmly
def test_anything_can_be_drawn(schema: Any) -> None:
    assert 0 < len(outline(schema)) <= 401


@given(SOUND)
@calmly
def test_every_sentence_says_something(schema: Any) -> None:
    assert all(sentences_for(schema))
