"""A tool as a plain value."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
import pytest
from inline_snapshot import snapshot

from plait.catalog.tool import Tool

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


def test_what_was_not_said_is_absent() -> None:
    tool = Tool.from_mcp("files", _listed())

    assert tool.title is None
    assert tool.description == ""
    assert tool.output_schema is None
    assert tool.annotations == {}
    assert tool.meta is None
    assert tool.icons == ()


def test_the_title_may_stand_among_the_hints() -> None:
    assert Tool.from_mcp("files", _listed(annotations={"title": "Reader"})).title == "Reader"


def test_a_described_tool_is_plain_data() -> None:
    described = Tool.from_mcp("files", _listed(annotations={"idempotentHint": True})).to_dict()

    assert json.loads(json.dumps(described)) == described


@pytest.mark.parametrize(
    ("hints", "idempotent"),
    [
        ({}, False),
        ({"readOnlyHint": True}, True),
        ({"idempotentHint": True}, True),
        ({"readOnlyHint": False, "idempotentHint": True}, True),
        ({"readOnlyHint": False}, False),
        ({"destructiveHint": False}, False),
        ({"openWorldHint": False, "title": "x"}, False),
    ],
)
def test_a_tool_may_be_called_twice_only_if_its_server_says_so(
    hints: dict[str, Any], idempotent: bool
) -> None:
    assert Tool.from_mcp("files", _listed(annotations=hints)).idempotent is idempotent
