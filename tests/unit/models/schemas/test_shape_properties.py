"""What holds for every schema, however strange, in every profile."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plait.models.schemas.for_provider import (
    PROFILES,
    Profile,
    inline_refs,
    schema_for_provider,
)
from tests.unit.models.schemas.strategies import (
    ANY,
    GENTLE,
    JSON,
    SOUND,
    calmly,
    fits,
    values_for,
)
from tests.unit.models.schemas.subsets import PROBLEMS, gemini_meaning, is_valid

KINDS = {"string", "number", "integer", "boolean", "array", "object", "null"}

in_every_profile = pytest.mark.parametrize("profile", PROFILES)


@given(schema=ANY)
@calmly
def test_any_schema_becomes_one_that_every_provider_accepts(schema: Any) -> None:
    before = copy.deepcopy(schema)

    for profile in PROFILES:
        shaped = schema_for_provider(schema, profile)

        assert is_valid(shaped.schema), profile
        assert list(PROBLEMS[profile](shaped.schema)) == [], profile
        assert schema_for_provider(shaped.schema, profile).schema == shaped.schema, profile
        assert schema_for_provider(schema, profile) == shaped, profile

    assert schema == before


@given(schema=ANY)
@calmly
def test_no_reference_is_left_when_they_are_written_out(schema: Any) -> None:
    written = inline_refs(schema).schema

    assert not any(
        isinstance(place.get("$ref"), str)
        for _, place in _known_places(written)
        if isinstance(place, dict)
    )
    assert inline_refs(written).schema == written


@given(schema=SOUND, value=JSON)
@calmly
def test_writing_out_references_changes_no_meaning(schema: Any, value: Any) -> None:
    document = {"$ref": "#/$defs/it", "$defs": {"it": schema}}

    assert fits(inline_refs(document).schema, value) == fits(schema, value)


@in_every_profile
@given(schema=GENTLE, data=st.data())
@calmly
def test_what_fits_a_schema_without_notes_fits_the_original(
    schema: Any, profile: Profile, data: st.DataObject
) -> None:
    original = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    shaped = schema_for_provider(original, profile)
    assume(not shaped.notes)
    meant = gemini_meaning(shaped.schema) if profile == "gemini" else shaped.schema
    value = data.draw(values_for(meant))
    assume(fits(meant, value))

    assert any(fits(original, prepared) for prepared in _without_nulls(value)), (schema, meant)


def test_a_number_that_can_only_be_whole_is_an_integer() -> None:
    only_zero = {"anyOf": [{"allOf": [{"type": "number"}, {"const": 0}]}]}

    for profile in ("gemini", "openai_strict"):
        shaped = schema_for_provider({"properties": {"a": only_zero}}, profile).schema

        assert _kinds(shaped["properties"]["a"]) - {"null"} == {"integer"}


@in_every_profile
@given(schema=SOUND, data=st.data())
@calmly
def test_names_and_types_agree_whatever_is_lost(
    schema: Any, profile: Profile, data: st.DataObject
) -> None:
    properties = data.draw(st.dictionaries(st.sampled_from(["a", "b"]), st.just(schema)))
    original = {"type": "object", "properties": properties}

    shaped = schema_for_provider(original, profile).schema["properties"]

    assert shaped.keys() <= properties.keys()
    for name, inner in shaped.items():
        for value in data.draw(st.lists(values_for(inner), max_size=3)):
            # Null stands for an absent argument, and a text may be JSON.
            if not isinstance(value, str | None) and fits(inner, value):
                assert _kind(value) in _with_integer(_kinds(properties[name]))


def _without_nulls(value: Any) -> Iterator[Any]:
    """Yield the value with some of its nulls dropped: the first is the value itself."""
    nulls = list(_nulls(value, ()))[:7]
    for count in range(len(nulls) + 1):
        for dropped in combinations(nulls, count):
            yield _dropped(value, set(dropped), ())


def _nulls(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if inner is None:
                yield (*path, name)
            yield from _nulls(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _nulls(inner, (*path, index))


def _dropped(value: Any, paths: set[tuple[Any, ...]], path: tuple[Any, ...]) -> Any:
    if isinstance(value, dict):
        return {
            name: _dropped(inner, paths, (*path, name))
            for name, inner in value.items()
            if (*path, name) not in paths
        }
    if isinstance(value, list):
        return [_dropped(inner, paths, (*path, index)) for index, inner in enumerate(value)]
    return value


def _kinds(schema: Any) -> set[str]:
    """Name every type that values of a schema may have."""
    if schema is False:
        return set()
    if schema is True:
        return KINDS
    named = schema.get("type", KINDS)
    kinds = {named} if isinstance(named, str) else set(named)
    kinds = _with_integer(kinds)
    if "enum" in schema or "const" in schema:
        kinds &= {_kind(value) for value in schema.get("enum", [schema.get("const")])}
    for key in ("anyOf", "oneOf"):
        if key in schema:
            kinds &= set[str]().union(*map(_kinds, schema[key]))
    for member in schema.get("allOf", []):
        kinds &= _kinds(member)
    return kinds


def _with_integer(kinds: set[str]) -> set[str]:
    return kinds | {"integer"} if "number" in kinds else kinds


def _kind(value: Any) -> str:
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}.get(
        type(value), "null"
    )


def _known_places(schema: Any) -> Iterator[tuple[str, Any]]:
    """Walk a schema that may be broken: what is no schema is passed over."""
    waiting: list[tuple[str, Any]] = [("#", schema)]
    lists, maps = {"allOf", "anyOf", "oneOf", "prefixItems"}, {"properties", "patternProperties"}
    singles = {"items", "additionalProperties", "not", "if", "then", "else"}
    while waiting:
        path, place = waiting.pop()
        yield path, place
        if not isinstance(place, dict):
            continue
        for key, value in place.items():
            if key in singles:
                waiting.append((f"{path}/{key}", value))
            elif key in lists and isinstance(value, list):
                waiting += [(f"{path}/{key}", inner) for inner in value]
            elif key in maps and isinstance(value, dict):
                waiting += [(f"{path}/{key}/{name}", inner) for name, inner in value.items()]
