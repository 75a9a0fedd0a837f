"""Sanitizing the texts of tools: removing invisible and control characters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from plait._support.sanitize import escaped, is_clean_json, sanitize_text
from plait.client.catalog.tool import Tool


def sanitize_tool(tool: Tool) -> tuple[Tool, tuple[str, ...]]:
    """Return the tool with sanitized texts, and a note for each change.

    The wire name and the schema that arguments are checked against stay unchanged.
    """
    texts = (tool.wire_name, tool.title, tool.description, tool.annotations)
    if is_clean_json((*texts, tool.input_schema, tool.output_schema)):
        return tool, ()
    notes: list[str] = []
    changes: dict[str, Any] = {}
    for field in ("title", "description"):
        text = getattr(tool, field)
        if text and (clean := sanitize_text(text)) != text:
            changes[field] = clean
            notes.append(_note(field))
    for field, label in (("input_schema", "arguments"), ("output_schema", "result")):
        schema = getattr(tool, field)
        if schema is not None and (clean := _cleaned(schema, label, notes)) is not schema:
            changes[field] = clean
    hints = _cleaned(tool.annotations, "annotations", notes)
    if hints is not tool.annotations:
        changes["annotations"] = hints
    if sanitize_text(tool.wire_name) != tool.wire_name:
        notes.append(_note("name"))
    if not changes:
        return tool, tuple(notes)
    return replace(tool, **changes, wire_schema=tool.wire_schema), tuple(notes)


def _cleaned(value: Any, place: str, notes: list[str]) -> Any:
    """Return the value with sanitized texts, or the same object if nothing changes."""
    if isinstance(value, str):
        clean = sanitize_text(value)
        if clean == value:
            return value
        notes.append(_note(place))
        return clean
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value)
        made = {
            _key(key, entries, place, notes): _cleaned(one, _at(place, key), notes)
            for key, one in entries.items()
        }
        same = all(made.get(key) is one for key, one in entries.items())
        return entries if same else made
    if isinstance(value, list):
        items = cast("list[Any]", value)
        kept = [_cleaned(one, place, notes) for one in items]
        return items if all(a is b for a, b in zip(kept, items, strict=True)) else kept
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
    return f"{place}: hidden or acting characters were made harmless"
