"""What a tool takes of a model's context."""

from __future__ import annotations

import json
from math import ceil
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plait.client.catalog.deferral import definition_text, estimate_tokens, tokens_of
from plait.client.catalog.schemas import PROFILES, Profile, schema_for_provider
from plait.client.catalog.tool import Tool
from tests.unit.client.catalog.schemas.strategies import ANY

SEARCH = Tool(
    server="shop",
    wire_name="search",
    name="shop__search",
    description="Search the shop: Äpfel",
    input_schema={
        "type": "object",
        "properties": {"query": {"$ref": "#/$defs/Query"}},
        "$defs": {"Query": {"type": "string", "minLength": 1}},
    },
)


@given(st.text())
def test_a_token_is_estimated_as_four_bytes_rounded_up(text: str) -> None:
    assert estimate_tokens(text) == ceil(len(text.encode("utf-8", "surrogatepass")) / 4)


def test_half_a_surrogate_pair_is_counted_too() -> None:
    assert estimate_tokens("\ud83d") == 1


def test_a_model_is_sent_the_public_name_the_description_and_the_shaped_schema() -> None:
    assert json.loads(definition_text(SEARCH)) == {
        "name": "shop__search",
        "description": "Search the shop: Äpfel",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "minLength": 1}},
        },
    }
    assert tokens_of(SEARCH) == estimate_tokens(definition_text(SEARCH))
    assert "Äpfel" in definition_text(SEARCH)


def test_a_tool_without_a_description_is_described_by_its_title() -> None:
    tool = Tool(server="shop", wire_name="pay", name="pay", title="Pay now")

    assert json.loads(definition_text(tool))["description"] == "Pay now"


def test_a_counter_replaces_the_estimate() -> None:
    assert tokens_of(SEARCH, "gemini", len) == len(definition_text(SEARCH, "gemini"))


@given(schema=ANY, profile=st.sampled_from([None, *PROFILES]))
def test_every_tool_can_be_counted_in_every_profile(schema: Any, profile: Profile | None) -> None:
    tool = Tool(
        server="s", wire_name="t", name="t", input_schema=schema if isinstance(schema, dict) else {}
    )

    shaped = schema_for_provider(tool.input_schema, profile).schema

    assert json.loads(definition_text(tool, profile))["parameters"] == shaped
    assert tokens_of(tool, profile) > 0
