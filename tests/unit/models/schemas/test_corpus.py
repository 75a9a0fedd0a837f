"""Schemas of real servers, and in the style of well-known ones, for every profile."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from plait.models.schemas.for_provider import (
    PROFILES,
    Profile,
    inline_refs,
    schema_for_provider,
)
from tests.unit.models.schemas.subsets import ANTHROPIC_NAME, PROBLEMS, is_valid, places

CORPUS = Path(__file__).parent / "corpus"
SCHEMAS: dict[str, Any] = {
    f"{path.stem}:{name}": schema
    for path in sorted(CORPUS.glob("*.json"))
    for name, schema in json.loads(path.read_text("utf-8")).items()
}
"""Some hundred schemas by name; one test goes through all, since a test each takes longer."""


@pytest.mark.parametrize("profile", PROFILES)
def test_a_provider_accepts_every_schema(profile: Profile) -> None:
    for name, schema in SCHEMAS.items():
        before = copy.deepcopy(schema)

        shaped = schema_for_provider(schema, profile)

        assert is_valid(shaped.schema), name
        assert list(PROBLEMS[profile](shaped.schema)) == [], name
        assert schema == before, name
        json.dumps(shaped.schema)


@pytest.mark.parametrize("profile", PROFILES)
def test_shaping_twice_is_shaping_once(profile: Profile) -> None:
    for name, schema in SCHEMAS.items():
        once = schema_for_provider(schema, profile).schema

        assert schema_for_provider(once, profile).schema == once, name


@pytest.mark.parametrize("profile", PROFILES)
def test_every_argument_is_still_there(profile: Profile) -> None:
    for name, schema in SCHEMAS.items():
        properties = inline_refs(schema).schema.get("properties", {})
        possible = {key for key, inner in properties.items() if inner is not False}

        assert possible <= schema_for_provider(schema, profile).schema["properties"].keys(), name


def test_names_that_claude_refuses_are_noted() -> None:
    for name, schema in SCHEMAS.items():
        shaped = schema_for_provider(schema, "anthropic")
        refused = {
            key
            for _, place in places(shaped.schema)
            if isinstance(place, dict)
            for key in place.get("properties", {})
            if not ANTHROPIC_NAME.match(key)
        }

        for key in refused:
            assert any(repr(key) in note for note in shaped.notes), name
        assert bool(refused) == any("may be refused" in note for note in shaped.notes), name


def test_the_corpus_holds_servers_that_were_listed() -> None:
    listed = {path.stem for path in CORPUS.glob("server-*.json")}

    assert {"server-everything", "server-filesystem", "server-git", "server-memory"} <= listed
    assert len(SCHEMAS) >= 80
