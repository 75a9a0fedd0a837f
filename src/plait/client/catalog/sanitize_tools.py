"""Sanitizing the texts of tools: removing invisible and control characters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plait._support.sanitize import escaped, is_clean_json, sanitize_text
from plait.client.catalog.schemas.values import is_list, is_mapping
from plait.client.catalog.tool import Tool

_FIELDS = {
    "title": "title",
    "description": "description",
    "input_schema": "arguments",
    "output_schema": "result",
    "annotations": "annotations",
}
"""The fields with texts, and what notes call them."""


def sanitize_tool(tool: Tool) -> tuple[Tool, tuple[str, ...]]:
    """Return the tool with sanitized texts, and a note for each change.

    The wire name and the schema that arguments are checked against stay unchanged.
    """
    texts = (tool.wire_name, tool.title, tool.description, tool.annotations)
    if is_clean_json((*texts, tool.input_schema, tool.output_schema)):
        return tool, ()
    notes: list[str] = []
    changes: dict[str, Any] = {}
    for field, label in _FIELDS.items():
        value = getattr(tool, field)
        if (clean := _sanitized(value, label, notes)) is not value:
            changes[field] = clean
    if sanitize_text(tool.wire_name) != tool.wire_name:
        notes.append(_note("name"))
    if not changes:
        return tool, tuple(notes)
    return replace(tool, **changes, wire_schema=tool.wire_schema), tuple(notes)


def _sanitized(value: Any, place: str, notes: list[str]) -> Any:
    """Return the value with sanitized texts, or the same object if nothing changes."""
    if isinstance(value, str):
        clean = sanitize_text(value)
        if clean == value:
            return value
        notes.append(_note(place))
        return clean
    if is_mapping(value):
        made = {
            _key(key, value, place, notes): _sanitized(one, _at(place, key), notes)
            for key, one in value.items()
        }
        return value if all(made.get(key) is one for key, one in value.items()) else made
    if is_list(value):
        kept = [_sanitized(one, place, notes) for one in value]
        return value if all(a is b for a, b in zip(kept, value, strict=True)) else kept
    return value


def _key(key: str, entries: Mapping[str, Any], place: str, notes: list[str]) -> str:
    clean = sanitize_text(key)
    if clean == key:
        return key
    notes.append(_note(_at(place, key)))
    # It must not replace another key of that name.
    return escaped(key) if clean in entries else clean


def _at(place: str, key: str) -> str:
    """Name the place of an entry, without the keywords between an argument and its text."""
    return place if key in {"properties", "items"} else f"{place}.{sanitize_text(key)}"


def _note(place: str) -> str:
    return f"{place}: invisible or control characters were sanitized"
