"""Which types a schema allows."""

from __future__ import annotations

from typing import Any

import pytest

from plait.client.catalog.schemas.json_schema import narrow_to_type, possible_types


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({"type": "string"}, ["string"]),
        ({"type": ["integer", "number", "null"]}, ["number", "null"]),
        ({"enum": ["a", 1, 2.5, None]}, ["string", "number", "null"]),
        ({"type": "string", "enum": [1, "a"]}, ["string"]),
        ({"type": "string", "const": 1}, []),
        ({"properties": {}}, ["object"]),
        ({"minLength": 1, "maximum": 2}, ["string", "number"]),
        ({"format": "uri"}, ["string"]),
        ({"description": "Anything"}, []),
    ],
)
def test_types_are_found(schema: Any, kinds: list[str]) -> None:
    assert possible_types(schema) == kinds


def test_what_concerns_other_types_is_left_out() -> None:
    schema = {"enum": ["a", 1, True, False], "minLength": 1, "minimum": 0, "title": "T"}

    assert narrow_to_type(schema, "string") == {
        "type": "string",
        "enum": ["a"],
        "minLength": 1,
        "title": "T",
    }
    assert narrow_to_type(schema, "boolean") == {"type": "boolean", "title": "T"}
