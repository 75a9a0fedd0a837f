"""Embedded resources of which a server sent only the URI."""

from __future__ import annotations

from typing import Any

import mcp_types as types

from plait.client.calls.outcome import ToolResult
from plait.client.protocol.repair import repair_result
from plait.langchain.tools.content import (
    OutputHandling,
    convert_result,
    pending_reads,
    with_resources,
)

Json = dict[str, Any]

BARE: Json = {"type": "resource", "resource": {"uri": "docs://a", "mimeType": "text/plain"}}
BARE_WEB: Json = {"type": "resource", "resource": {"uri": "https://example.com/a.png"}}
TEXT: Json = {"type": "text", "text": "hello"}


def _result(*blocks: Json) -> ToolResult:
    mended = repair_result("tools/call", {"content": list(blocks)}, "2025-11-25")
    return ToolResult.from_mcp("s", "t", types.CallToolResult.model_validate(mended.result))


def _content(result: ToolResult, handling: Any = None) -> Any:
    handled = OutputHandling.of(handling)
    return convert_result(result, handling=handled).content


def test_each_uri_without_contents_is_to_be_read_once() -> None:
    assert pending_reads(_result(BARE, TEXT, BARE_WEB, BARE)) == [
        "docs://a",
        "https://example.com/a.png",
    ]


def test_nothing_else_is_to_be_read() -> None:
    links: list[Json] = [
        {"type": "resource_link", "uri": "docs://a", "name": "a"},
        {"type": "resource_link", "uri": "docs://b"},
        {"type": "resource", "resource": {"uri": "docs://c", "text": "x"}},
        {"type": "hologram"},
    ]

    assert pending_reads(_result(TEXT, *links)) == []
    assert pending_reads(_result()) == []


def test_what_was_read_stands_in_the_place_of_its_uri() -> None:
    result = _result(TEXT, BARE, TEXT, BARE_WEB)
    text = types.TextResourceContents(uri="docs://a", text="inside", mime_type="text/plain")
    data = types.BlobResourceContents(uri="docs://a#2", blob="AAAA")

    filled = with_resources(result, {"docs://a": [text, data]})

    assert [block.type for block in filled.content] == [
        "text",
        "resource",
        "resource",
        "text",
        "resource_link",
    ]
    assert _content(filled) == [
        TEXT,
        {"type": "text", "text": "Resource: docs://a (text/plain, 6 B)"},
        {"type": "text", "text": "Resource: docs://a#2 (3 B)"},
        TEXT,
        {"type": "text", "text": "Resource: https://example.com/a.png - a.png"},
    ]
    assert pending_reads(filled) == ["https://example.com/a.png"]
    assert pending_reads(result) == ["docs://a", "https://example.com/a.png"]


def test_a_link_that_the_server_meant_as_one_is_left_alone() -> None:
    result = _result({"type": "resource_link", "uri": "docs://a", "name": "a"})
    text = types.TextResourceContents(uri="docs://a", text="inside")

    assert with_resources(result, {"docs://a": [text]}) == result


def test_the_notes_on_a_bare_resource_are_kept() -> None:
    result = _result({**BARE, "_meta": {"vendor/x": 1}})
    text = types.TextResourceContents(uri="docs://a", text="inside")

    filled = with_resources(result, {"docs://a": [text]})

    assert filled.content[0].meta == {"vendor/x": 1}


def test_a_resource_that_could_not_be_read_stays_as_an_address() -> None:
    result = with_resources(_result(BARE), {"docs://a": []})

    for handling in (None, "content", "artifact"):
        assert _content(result, handling) == "Resource: docs://a (text/plain) - a"
    converted = convert_result(result)
    assert converted.artifact["content"] == [BARE]


def test_no_provider_is_sent_to_the_address_of_an_embedded_resource() -> None:
    result = _result(BARE_WEB)

    assert _content(result, "content") == "Resource: https://example.com/a.png - a.png"


def test_contents_that_had_to_be_mended_are_kept_as_they_were_sent() -> None:
    odd = {"uri": "docs://a", "pages": 3}
    read = types.ReadResourceResult.model_validate(
        repair_result("resources/read", {"contents": [odd]}, "2025-11-25").result
    )

    filled = with_resources(_result(BARE), {"docs://a": read.contents})
    converted = convert_result(filled, handling=OutputHandling.of("content"))

    assert converted.content == [
        {"type": "text", "text": "Resource: docs://a (31 B)"},
        {"type": "text", "text": '{"uri": "docs://a", "pages": 3}', "extras": {"uri": "docs://a"}},
    ]
    assert converted.artifact["content"] == [odd]
