"""Structured content is held against the tool's promise; a broken promise is a note, no error."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, NoReturn

import pytest
from mcp_types import CallToolResult

from plait.client.calls.outcome import output_schema_notes
from plait.client.catalog.tool import Tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
}


def _notes(schema: dict[str, Any] | None, structured: Any, **more: Any) -> tuple[str, ...]:
    tool = Tool(server="shop", wire_name="sum", name="sum", output_schema=schema)
    result = CallToolResult(content=[], structured_content=structured, **more)
    return asyncio.run(output_schema_notes(tool, result))


def test_content_that_keeps_the_promise_needs_no_note() -> None:
    assert _notes(SCHEMA, {"total": 3}) == ()


def test_a_tool_that_promises_nothing_needs_no_note() -> None:
    assert _notes(None, {"total": "many"}) == ()


def test_content_that_breaks_the_promise_is_noted() -> None:
    assert _notes(SCHEMA, {"total": "many"}) == (
        "structured content breaks the output schema: 'many' is not of type 'integer'",
    )


def test_missing_content_is_noted() -> None:
    assert _notes(SCHEMA, None) == (
        "the result has no structured content, though the tool has an output schema",
    )


@pytest.mark.parametrize("structured", [None, {"total": "many"}])
def test_a_failed_call_owes_nothing(structured: object) -> None:
    assert _notes(SCHEMA, structured, is_error=True) == ()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"type": 5},
        {"properties": []},
        {"$ref": "#/$defs/missing"},
        {"$ref": "#"},
        {"pattern": "("},
        {"$schema": "https://example.com/unknown", "type": 7},
    ],
)
def test_a_broken_schema_is_noted_and_nothing_raises(schema: dict[str, Any]) -> None:
    (note,) = _notes(schema, {"a": "text"})

    assert "the schema itself is broken" in note
    assert "\n" not in note


@pytest.mark.parametrize("scheme", ["http", "https", "file", "ftp"])
def test_a_reference_to_somewhere_else_is_not_followed(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> NoReturn:
        raise AssertionError(f"tried to reach {args} {options}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr("urllib.request.urlopen", refuse)

    (note,) = _notes({"$ref": f"{scheme}://127.0.0.1/schema.json"}, {"a": 1})

    assert "the schema itself is broken" in note
    assert "tried to reach" not in note


def test_an_older_dialect_is_understood() -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "const": {"a": 1}}

    assert _notes(schema, {"a": 1}) == ()
    assert len(_notes(schema, {"a": 2})) == 1


def test_a_note_is_short_however_large_the_content() -> None:
    (note,) = _notes(SCHEMA, {"total": "x" * 100_000})

    assert len(note) < 300


def test_local_references_are_followed() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}

    assert _notes(schema, {"a": 1}) == ()
    assert len(_notes(schema, {"a": "x"})) == 1
