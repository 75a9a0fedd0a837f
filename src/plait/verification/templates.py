"""Fields of answers: their types, and whether a value is the expected one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, create_model

from plait.verification.suite import TemplateField

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "list": (list,),
}


_SCHEMA_TYPES: dict[str, Any] = {
    "text": str | None,
    "number": int | float | None,
    "boolean": bool | None,
    "list": list[Any] | None,
}


def has_type(value: object, entry: TemplateField) -> bool:
    """Return whether a value has the type of a field."""
    if isinstance(value, bool) and entry.type != "boolean":
        return False
    return isinstance(value, _PYTHON_TYPES[entry.type])


def is_expected(value: Any, entry: TemplateField) -> bool:
    """Compare a value with the expected one: texts in any case, lists in any order."""
    if not has_type(value, entry):
        return False
    expected = entry.expected
    if entry.type == "text":
        return str(value).strip().casefold() == str(expected).strip().casefold()
    if entry.type == "number" and entry.tolerance is not None:
        return abs(value - expected) <= entry.tolerance
    if entry.type == "list":
        return _as_set(cast("list[Any]", value)) == _as_set(cast("list[Any]", expected))
    return bool(value == expected)


def _as_set(values: list[Any]) -> set[str]:
    return {json.dumps(value, sort_keys=True).casefold() for value in values}


def template_schema(fields: Sequence[TemplateField], *, quoted: bool) -> type[BaseModel]:
    """Return the form in which a judge replies: each field with its type, or null."""
    return _schema("Answer", {one.name: (_SCHEMA_TYPES[one.type], None) for one in fields}, quoted)


def traits_schema(names: Sequence[str], *, quoted: bool) -> type[BaseModel]:
    """Return the form in which a judge decides about traits."""
    return _schema("Traits", dict.fromkeys(names, (bool, ...)), quoted)


def _schema(title: str, fields: Mapping[str, tuple[Any, Any]], quoted: bool) -> type[BaseModel]:
    # Not by their own names: pydantic has methods such as `copy`, and takes no `_name`.
    named: dict[str, Any] = {
        f"field_{number}": (kind, Field(default=default, alias=name))
        for number, (name, (kind, default)) in enumerate(fields.items())
    }
    if quoted:
        named["quotes"] = (dict[str, list[str] | str | None], Field(default_factory=dict))
    return create_model(title, __config__=ConfigDict(strict=True), **named)
