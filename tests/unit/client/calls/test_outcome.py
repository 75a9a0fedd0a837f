"""What a tool call came to."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
import pytest

from plait.client.calls.outcome import ToolResult
from plait.client.protocol.repair import ORIGINAL, repair_result

BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "one"},
    {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    {"type": "resource_link", "uri": "a://b", "name": "b"},
    {"type": "resource", "resource": {"uri": "a://b", "text": "inside"}},
    {"type": "text", "text": "two", "_meta": {"vendor/x": 1}},
]


def _result(**sent: Any) -> ToolResult:
    result = types.CallToolResult.model_validate({"content": BLOCKS, **sent})
    return ToolResult.from_mcp(
        "shop", "pay", result, attempts=2, notes=("a note",), seconds=0.12345678
    )


def test_a_result_keeps_every_part() -> None:
    result = _result(structuredContent={"total": 3}, isError=True, _meta={"vendor/y": 2})

    assert result.is_error
    assert result.structured_content == {"total": 3}
    assert result.meta == {"vendor/y": 2}
    assert [block.type for block in result.content] == [block["type"] for block in BLOCKS]


def test_the_text_is_that_of_all_text_blocks() -> None:
    assert _result().text == "one\ntwo"
    assert _result(content=[]).text == ""


def test_a_tool_that_says_nothing_of_failure_did_not_fail() -> None:
    assert not _result().is_error
    assert not _result(isError=False).is_error
    assert _result(isError=True).is_error


def test_a_described_result_is_the_content_as_it_was_sent() -> None:
    described = _result(structuredContent={"total": 3}, _meta={"vendor/y": 2}).to_dict()

    assert json.loads(json.dumps(described)) == described
    assert described == {
        "server": "shop",
        "tool": "pay",
        "is_error": False,
        "content": BLOCKS,
        "structured_content": {"total": 3},
        "meta": {"vendor/y": 2},
        "attempts": 2,
        "notes": ["a note"],
        "seconds": 0.123457,
    }


@pytest.mark.parametrize("structured", [[1, 2], "text", 7, True])
def test_structured_content_that_older_servers_may_not_send_arrives_all_the_same(
    structured: object,
) -> None:
    repaired = repair_result(
        "tools/call", {"content": [], "structuredContent": structured}, "2025-11-25"
    )

    result = _result(**repaired.result)

    assert result.structured_content == structured


def test_a_mark_that_is_no_object_is_ignored() -> None:
    assert _result(_meta={ORIGINAL: "odd"}).structured_content is None
