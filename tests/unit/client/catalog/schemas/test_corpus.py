"""Schemas of real servers, and in the style of well-known ones, for every profile."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from plait.client.catalog.schemas import PROFILES, Profile, inline_refs, schema_for_provider
from tests.unit.client.catalog.schemas.subsets import ANTHROPIC_NAME, PROBLEMS, is_valid, places

CORPUS = Path(__file__).parent / "corpus"
SCHEMAS = [
    pytest.param(schema, id=f"{path.stem}:{name}")
    for path in sorted(CORPUS.glob("*.json"))
    for name, schema in json.loads(path.read_text("utf-8")).items()
]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_provider_accepts_the_schema(schema: Any, profile: Profile) -> None:
    before = copy.deepcopy(schema)

    shaped = schema_for_provider(schema, profile)

    assert is_valid(shaped.schema)
    assert list(PROBLEMS[profile](shaped.schema)) == []
    assert schema == before
    json.dumps(shaped.schema)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("schema", SCHEMAS)
def test_shaping_twice_is_shaping_once(schema: Any, profile: Profile) -> None:
    once = schema_for_provider(schema, profile).schema

    assert schema_for_provider(once, profile).schema == once


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_argument_is_still_there(schema: Any, profile: Profile) -> None:
    named = inline_refs(schema).schema.get("properties", {})
    possible = {name for name, inner in named.items() if inner is not False}

    assert possible <= schema_for_provider(schema, profile).schema["properties"].keys()


@pytest.mark.parametrize("schema", SCHEMAS)
def test_names_that_claude_refuses_are_noted(schema: Any) -> None:
    shaped = schema_for_provider(schema, "anthropic")
    refused = {
        name
        for _, place in places(shaped.schema)
        if isinstance(place, dict)
        for name in place.get("properties", {})
        if not ANTHROPIC_NAME.match(name)
    }

    for name in refused:
        assert any(repr(name) in note for note in shaped.notes)
    assert bool(refused) == any("may be refused" in note for note in shaped.notes)


def test_the_corpus_holds_servers_that_were_listed() -> None:
    listed = {path.stem for path in CORPUS.glob("server-*.json")}

    assert {"server-everything", "server-filesystem", "server-git", "server-memory"} <= listed
    assert len(SCHEMAS) >= 80
