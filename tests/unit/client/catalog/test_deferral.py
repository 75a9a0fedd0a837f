"""Which tools are deferred, and what a tool takes of a model's context."""

from __future__ import annotations

import json
from dataclasses import replace
from math import ceil
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plait import ConfigError
from plait.client.catalog.deferral import DeferralPlan, definition_text, estimate_tokens, tokens_of
from plait.client.catalog.tool import Tool
from plait.client.config.budgets import AUTO_TOKENS, NO_DEFERRAL, Deferral
from plait.client.config.read import read_config, read_options
from plait.models.schemas.for_provider import PROFILES, Profile, schema_for_provider
from tests.unit.models.schemas.strategies import ANY

TOOLS = [
    Tool(server="git", wire_name="git_add", name="git_add", description="Stage " * 40),
    Tool(server="git", wire_name="git_log", name="git_log", description="Show " * 40),
    Tool(server="time", wire_name="now", name="now", description="Tell the time."),
]


def _deferred(common: object, **servers: object) -> list[str]:
    entries = {
        name: {"command": "x", **({"defer": servers[name]} if name in servers else {})}
        for name in ("git", "time")
    }
    config = read_config({"mcpServers": entries})
    options = read_options({} if common is None else {"defer": common})
    split = DeferralPlan(options.get("defer"), config.servers).split(TOOLS)
    names = [tool.name for tool in (*split.shown, *split.deferred)]
    assert sorted(names) == sorted(tool.name for tool in TOOLS)
    return [tool.name for tool in split.deferred]


@pytest.mark.parametrize(
    ("common", "servers", "deferred"),
    [
        (None, {}, []),
        (False, {}, []),
        (True, {}, ["git_add", "git_log", "now"]),
        ("native", {}, ["git_add", "git_log", "now"]),
        (["git_*"], {}, ["git_add", "git_log"]),
        (["git/git_add", "now"], {}, ["git_add", "now"]),
        (True, {"time": False}, ["git_add", "git_log"]),
        (None, {"time": True}, ["now"]),
        (False, {"git": ["git_log"]}, ["git_log"]),
        (100, {}, ["git_add", "git_log", "now"]),
        (1000, {}, []),
        ("auto", {}, []),
        (1000, {"time": True}, ["now"]),
        (100, {"git": True}, ["git_add", "git_log"]),
        (100, {"git": False}, ["now"]),
    ],
)
def test_a_server_decides_before_the_client(
    common: object, servers: dict[str, object], deferred: list[str]
) -> None:
    assert _deferred(common, **servers) == deferred


def test_a_counter_of_tokens_replaces_the_estimate() -> None:
    def deferring(tokens: int) -> DeferralPlan:
        return DeferralPlan(Deferral(over_tokens=100), {}, counter=lambda _text: tokens)

    assert not deferring(33).split(TOOLS).deferred
    assert len(deferring(34).split(TOOLS).deferred) == 3


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (True, Deferral()),
        (False, NO_DEFERRAL),
        ("auto", Deferral(over_tokens=AUTO_TOKENS)),
        ("native", Deferral(native=True)),
        (500, Deferral(over_tokens=500)),
        (["a*"], Deferral(tools=("a*",))),
        (Deferral(over_tokens=1), Deferral(over_tokens=1)),
    ],
)
def test_deferring_may_be_written_in_many_ways(written: Any, read: Deferral) -> None:
    assert read_options({"defer": written}) == {"defer": read}


@pytest.mark.parametrize("written", ["atuo", 0, -5, 1.5, {1: 2}])
def test_what_makes_no_sense_is_refused(written: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        DeferralPlan(read_options({"defer": written})["defer"], {}).split(TOOLS)

    assert written != "atuo" or '"auto"' in str(caught.value)


@pytest.mark.parametrize("written", ["auto", "native", 500])
def test_what_is_about_all_servers_is_refused_for_one(written: Any) -> None:
    with pytest.raises(ConfigError):
        read_config({"servers": {"a": {"command": "x", "defer": written}}})


def test_an_index_is_made_again_only_when_tools_change() -> None:
    deferring = DeferralPlan(None, {})
    index = deferring.index(TOOLS)

    assert deferring.index([replace(tool) for tool in TOOLS]) is index
    changed = [replace(TOOLS[0], description="Count sheep."), *TOOLS[1:]]
    assert deferring.index(changed).search("sheep")[0].tool is changed[0]
    assert not deferring.index(TOOLS[1:]).search("sheep")


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


@given(st.text(st.characters()))
@example("\ud83d")
def test_a_token_is_estimated_as_four_bytes_rounded_up(text: str) -> None:
    assert estimate_tokens(text) == ceil(len(text.encode("utf-8", "surrogatepass")) / 4)


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


def test_a_title_describes_a_tool_without_description_and_a_counter_replaces_the_estimate() -> None:
    tool = Tool(server="shop", wire_name="pay", name="pay", title="Pay now")

    assert json.loads(definition_text(tool))["description"] == "Pay now"
    assert tokens_of(SEARCH, "gemini", len) == len(definition_text(SEARCH, "gemini"))


@given(schema=ANY, profile=st.sampled_from([None, *PROFILES]))
def test_every_tool_can_be_counted_in_every_profile(schema: Any, profile: Profile | None) -> None:
    tool = Tool(
        server="s", wire_name="t", name="t", input_schema=schema if isinstance(schema, dict) else {}
    )

    shaped = schema_for_provider(tool.input_schema, profile).schema

    assert json.loads(definition_text(tool, profile))["parameters"] == shaped
    assert tokens_of(tool, profile) > 0
