"""A tool as a plain value."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import mcp_types as types
import pytest
from inline_snapshot import snapshot

from plait.client.catalog.tool import MAX_KEPT_TOOLS, Tool, prepare_schemas
from plait.client.config.policy import TRAITS, trait_named
from plait.client.protocol.tool_rows import RawRow

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}


def _listed(**more: Any) -> types.Tool:
    return types.Tool.model_validate({"name": "read", "inputSchema": SCHEMA, **more})


def test_a_listed_tool_keeps_everything_that_was_said_about_it() -> None:
    tool = Tool.from_mcp(
        "files",
        _listed(
            title="Read",
            description="reads",
            outputSchema={"type": "object"},
            annotations={"readOnlyHint": True, "title": "Reader"},
            icons=[{"src": "https://example.com/icon.png", "mimeType": "image/png"}],
            _meta={"vendor/x": 1},
        ),
    )

    assert tool.to_dict() == snapshot(
        {
            "server": "files",
            "name": "read",
            "wire_name": "read",
            "title": "Read",
            "description": "reads",
            "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}},
            "output_schema": {"type": "object"},
            "annotations": {"title": "Reader", "read_only_hint": True},
            "meta": {"vendor/x": 1},
            "icons": [{"src": "https://example.com/icon.png", "mimeType": "image/png"}],
        }
    )


def test_what_was_not_said_is_absent_and_the_title_may_stand_among_the_hints() -> None:
    tool = Tool.from_mcp("files", _listed())

    assert (tool.title, tool.description, tool.output_schema, tool.meta) == (None, "", None, None)
    assert (tool.annotations, tool.icons) == ({}, ())
    assert Tool.from_mcp("files", _listed(annotations={"title": "Reader"})).title == "Reader"


def test_a_described_tool_is_plain_data() -> None:
    described = Tool.from_mcp("files", _listed(annotations={"idempotentHint": True})).to_dict()

    assert json.loads(json.dumps(described)) == described


@pytest.mark.parametrize(
    ("hints", "traits"),
    [
        ({}, {"destructive", "open_world"}),
        ({"readOnlyHint": True}, {"read_only", "idempotent", "open_world"}),
        (
            {"readOnlyHint": True, "destructiveHint": True},
            {"read_only", "idempotent", "open_world"},
        ),
        ({"destructiveHint": False, "openWorldHint": False}, set[str]()),
        ({"idempotentHint": True}, {"destructive", "idempotent", "open_world"}),
        (
            {"readOnlyHint": False, "idempotentHint": True},
            {"destructive", "idempotent", "open_world"},
        ),
    ],
)
def test_a_tool_that_says_nothing_may_destroy_and_reach_anything(
    hints: dict[str, Any], traits: set[str]
) -> None:
    tool = Tool.from_mcp("files", _listed(annotations=hints))

    assert {trait for trait in TRAITS if tool.has_trait(trait)} == traits
    assert {trait for trait in TRAITS if getattr(tool, trait)} == traits


@pytest.mark.parametrize(
    "spelling", ["open_world", "openWorld", "open_world_hint", "openWorldHint"]
)
def test_a_trait_may_be_spelled_in_several_ways(spelling: str) -> None:
    assert trait_named(spelling) == "open_world"


def test_a_word_that_is_no_trait_names_none() -> None:
    assert [trait_named(word) for word in ("", "hint", "title", "open")] == [None] * 4


def test_what_callers_see_is_what_the_server_listed_until_it_is_changed() -> None:
    tool = Tool.from_mcp("files", _listed())
    changed = replace(tool, input_schema={"type": "object"})

    assert tool.wire_schema is tool.input_schema
    assert changed.wire_schema is tool.input_schema
    assert changed.input_schema == {"type": "object"}


def test_a_given_wire_schema_is_kept_even_if_it_is_empty() -> None:
    tool = Tool(server="s", wire_name="x", name="x", input_schema=SCHEMA, wire_schema={})

    assert tool.wire_schema == {}


def listed_tool(number: int) -> Tool:
    name = f"tool_{number}"
    row = b'{"name":"%s","description":"One.","inputSchema":{"type":"object"}}' % name.encode()
    return Tool.from_row("server", RawRow(name, row), may_mirror=False)


@pytest.mark.anyio
async def test_only_so_many_schemas_are_kept() -> None:
    tools = [listed_tool(number) for number in range(MAX_KEPT_TOOLS + 1)]

    await prepare_schemas(tools, None)

    assert [bool(tool.schemas) for tool in tools] == [True] * MAX_KEPT_TOOLS + [False]
    assert tools[0].shared_schema() is tools[0].shared_schema()
    assert tools[-1].shared_schema() == tools[0].shared_schema()
