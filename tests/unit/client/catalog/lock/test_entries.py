"""What means the same has the same hash, and what does not has another."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.client.catalog.lock import canonical_schema, digest
from tests.unit.client.catalog.lock.tools import hash_of, schemas, shuffled, tool


@given(schemas)
def test_the_order_of_keys_and_the_blanks_of_the_wire_do_not_matter(schema: dict[str, Any]) -> None:
    other = json.loads(json.dumps(shuffled(schema), indent=3))

    assert hash_of(tool(schema=other)) == hash_of(tool(schema=schema))


@given(schemas, schemas)
def test_schemas_that_differ_have_different_hashes(
    one: dict[str, Any], two: dict[str, Any]
) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)

    if not same and canonical_schema(one) != canonical_schema(two):
        assert hash_of(tool(schema=one)) != hash_of(tool(schema=two))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"maximum": 1.0}, {"maximum": 1}),
        ({"maximum": -0.0}, {"maximum": 0}),
        ({"required": ["b", "a"]}, {"required": ["a", "b"]}),
        ({"type": ["string", "null"]}, {"type": ["null", "string"]}),
    ],
)
def test_other_ways_to_write_it_are_the_same(one: Any, two: Any) -> None:
    assert digest(canonical_schema(one)) == digest(canonical_schema(two))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"default": True}, {"default": 1}),
        ({"default": "1"}, {"default": 1}),
        ({"default": 0.1}, {"default": 0.2}),
        ({"enum": ["b", "a"]}, {"enum": ["a", "b"]}),
        ({"default": {"required": ["b", "a"]}}, {"default": {"required": ["a", "b"]}}),
        ({"properties": {"type": ["b", "a"]}}, {"properties": {"type": ["a", "c"]}}),
        ({"description": "caf\u00e9"}, {"description": "cafe\u0301"}),
        ({"description": "a"}, {"description": "a\u200b"}),
        ({"default": None}, {}),
    ],
)
def test_what_a_reader_or_a_server_could_tell_apart_is_different(one: Any, two: Any) -> None:
    assert digest(canonical_schema(one)) != digest(canonical_schema(two))


@given(st.text())
def test_every_character_of_a_description_counts(text: str) -> None:
    assert hash_of(tool(description=text)) != hash_of(tool(description=f"{text}\u200b"))
