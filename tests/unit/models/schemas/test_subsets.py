"""The checkers find what the providers refuse; without that, they would prove nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.models.schemas.subsets import PROBLEMS


def _with(inner: Any, **top: Any) -> Any:
    return {"type": "object", "properties": {"x": inner}, **top}


def _strict(inner: Any) -> Any:
    return _with(inner, required=["x"], additionalProperties=False)


def _form(first: str, other: str) -> Any:
    properties = {first: {"type": "string"}, other: {"type": "string"}}
    required = list(properties)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("profile", "schema"),
    [
        ("default", {"type": "string", "properties": {}}),
        ("default", {"type": "object"}),
        ("default", _with({"items": {"$ref": "#"}})),
        ("openai", _with({}, anyOf=[{}])),
        ("openai", _with({}, enum=[{}])),
        ("openai", _with({"anyOf": [{"type": ["array", "null"]}]})),
        ("openai", _with(True)),
        ("anthropic", _with({}, allOf=[{}])),
        ("openai_strict", _with({"type": "string"})),
        ("openai_strict", _strict({})),
        ("openai_strict", _strict({"type": "string", "minLength": 1})),
        ("openai_strict", _strict({"type": "string", "format": "uri"})),
        ("openai_strict", _strict({"type": "string", "default": "a"})),
        ("openai_strict", _strict({"type": ["string", "integer"]})),
        ("openai_strict", _strict({"type": "array"})),
        ("openai_strict", _strict({"type": "object"})),
        ("openai_strict", _strict({"oneOf": [{"type": "string"}]})),
        ("openai_strict", _strict({"anyOf": [{"type": "string"}], "type": "string"})),
        ("openai_strict", _strict({"anyOf": [_form("a", "b"), _form("a", "c")]})),
        ("gemini", _with({"type": ["string", "null"]})),
        ("gemini", _with({})),
        ("gemini", _with({"type": "integer", "enum": [1]})),
        ("gemini", _with({"type": "string", "enum": [""]})),
        ("gemini", _with({"type": "string", "format": "uri"})),
        ("gemini", _with({"type": "string", "const": "a"})),
        ("gemini", _with({"type": "array"})),
        ("gemini", _with({"type": "object", "properties": {}})),
        ("gemini", _with({"anyOf": [{"type": "string"}], "description": "d"})),
        ("gemini", _with({"type": "string"}, required=["y"])),
        ("gemini", _with({"type": "string"}, additionalProperties=False)),
    ],
)
def test_what_a_provider_refuses_is_found(profile: str, schema: Any) -> None:
    assert list(PROBLEMS[profile](schema))


@pytest.mark.parametrize(
    ("profile", "schema"),
    [
        ("default", _with({"oneOf": [True, False]}, anyOf=[{}])),
        ("openai", _with({"type": "array", "items": {}}, additionalProperties=False)),
        ("anthropic", _with({"allOf": [{"type": ["array", "null"]}]}, additionalProperties=True)),
        ("openai_strict", _strict({"anyOf": [_form("a", "b"), _form("c", "a"), {"type": "null"}]})),
        ("gemini", _with({"type": "string", "nullable": True, "enum": ["a"]}, required=["x"])),
    ],
)
def test_what_a_provider_accepts_is_not_found(profile: str, schema: Any) -> None:
    assert list(PROBLEMS[profile](schema)) == []
