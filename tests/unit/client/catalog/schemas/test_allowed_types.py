"""Which types a schema allows, and whether two schemas can share a value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plait.client.catalog.schemas.merge import are_disjoint, narrowed, possible_types
from plait.client.catalog.schemas.provider_schema import Notes
from plait.client.catalog.schemas.refs import cleaned_schema
from tests.unit.client.catalog.schemas.strategies import GENTLE, SOUND, calmly, fits, values_for


def _closed(*names: str, **values: Any) -> Any:
    properties = {name: {} for name in names} | {
        name: {"const": value} for name, value in values.items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("branches", "disjoint"),
    [
        ([{"type": "string"}, {"type": "integer"}, {"type": "null"}], True),
        ([{"type": "number"}, {"type": "integer"}], False),
        ([{"type": ["string", "null"]}, {"type": ["integer", "null"]}], False),
        ([{"const": "a"}, {"enum": ["b", "c"]}], True),
        ([{"const": 1}, {"const": 1.0}], False),
        ([{"const": 1}, {"const": True}], True),
        ([_closed(kind="a"), _closed(kind="b")], True),
        ([_closed("a"), _closed("b")], True),
        ([_closed("a"), _closed("a", "b")], True),
        ([_closed("a"), _closed("a")], False),
        ([{**_closed("a"), "required": []}, {**_closed("b"), "required": []}], False),
        ([{**_closed("a"), "additionalProperties": True}, {"type": "object"}], False),
        ([{"type": "string", "maxLength": 1}, {"type": "string", "minLength": 2}], False),
        ([{}, {"type": "string"}], False),
        ([False, {"type": "string"}], True),
        ([{"const": number} for number in range(30)], False),
    ],
)
def test_alternatives_are_told_apart(branches: list[Any], disjoint: bool) -> None:
    assert are_disjoint(branches) is disjoint


@given(st.lists(GENTLE | SOUND, min_size=2, max_size=2), st.data())
@calmly
def test_no_value_fits_two_that_are_disjoint(branches: list[Any], data: st.DataObject) -> None:
    cleaned = [cleaned_schema(branch, Notes()) for branch in branches]
    assume(are_disjoint(cleaned))
    value = data.draw(values_for(cleaned[0]) | values_for(cleaned[1]))

    assert sum(fits(branch, value) for branch in cleaned) <= 1


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

    assert narrowed(schema, "string") == {
        "type": "string",
        "enum": ["a"],
        "minLength": 1,
        "title": "T",
    }
    assert narrowed(schema, "boolean") == {"type": "boolean", "title": "T"}
