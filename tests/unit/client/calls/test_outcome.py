"""What a tool call came to, how it keeps the promise of its tool, and what a model reads of it."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import socket
from dataclasses import replace
from typing import Any, NoReturn

import mcp_types as types
import pytest

from plait.client.calls.outcome import (
    NO_DETAILS,
    NOTHING,
    ToolResult,
    content_for_model,
    json_text,
    output_schema_notes,
    repeats,
)
from plait.client.catalog.tool import Tool
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
    assert (result.structured_content, result.meta) == ({"total": 3}, {"vendor/y": 2})
    assert [block.type for block in result.content] == [block["type"] for block in BLOCKS]
    assert (result.text, _result(content=[]).text) == ("one\ntwo", "")
    assert [_result(**sent).is_error for sent in ({}, {"isError": False})] == [False, False]


def test_a_result_of_nothing_but_text_is_like_any_other() -> None:
    sent = {
        "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
        "structuredContent": {"total": 3},
        "_meta": {"vendor/y": 2},
    }

    def quick() -> ToolResult:
        return ToolResult.of_text("shop", "pay", sent, seconds=0.5)

    typed = types.CallToolResult.model_validate(sent)
    expected = ToolResult.from_mcp("shop", "pay", typed, seconds=0.5)
    assert quick().text == expected.text == "one\ntwo"
    assert quick() == expected
    assert repr(quick()) == repr(expected)
    assert quick().to_dict() == expected.to_dict()
    assert ToolResult.from_dict(quick().to_dict()) == expected
    assert replace(quick(), notes=("a",)) == replace(expected, notes=("a",))
    for copied in (copy.copy(quick()), copy.deepcopy(quick()), pickle.loads(pickle.dumps(quick()))):
        assert copied == expected
        assert copied.text == expected.text
    with pytest.raises(AttributeError, match="misspelled"):
        quick().misspelled  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # noqa: B018


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


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
}


def _notes(schema: dict[str, Any] | None, structured: Any, **more: Any) -> tuple[str, ...]:
    tool = Tool(server="shop", wire_name="sum", name="sum", output_schema=schema)
    result = types.CallToolResult(content=[], structured_content=structured, **more)
    return asyncio.run(output_schema_notes(tool, result))


DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#", "const": {"a": 1}}
LOCAL = {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}
BROKEN = "structured content breaks the output schema: "


@pytest.mark.parametrize(
    ("schema", "structured", "notes"),
    [
        (SCHEMA, {"total": 3}, []),
        (None, {"total": "many"}, []),
        (SCHEMA, {"total": "many"}, [f"{BROKEN}'many' is not of type 'integer'"]),
        (
            SCHEMA,
            None,
            ["the result has no structured content, though the tool has an output schema"],
        ),
        (DRAFT_7, {"a": 1}, []),
        (DRAFT_7, {"a": 2}, [BROKEN]),
        (LOCAL, {"a": 1}, []),
        (LOCAL, {"a": "x"}, [BROKEN]),
    ],
)
def test_a_broken_promise_is_noted(schema: Any, structured: Any, notes: list[str]) -> None:
    found = _notes(schema, structured)

    assert len(found) == len(notes)
    assert all(map(str.startswith, found, notes))
    assert _notes(schema, structured, is_error=True) == ()  # a failed call owes nothing


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"type": 5},
        {"properties": []},
        {"$ref": "#/$defs/missing"},
        {"$ref": "#"},
        {"pattern": "("},
        {"$schema": "https://example.com/unknown", "type": 7},
    ],
)
def test_a_broken_schema_is_noted_and_nothing_raises(schema: dict[str, Any]) -> None:
    (note,) = _notes(schema, {"a": "text"})

    assert "the schema itself is broken" in note
    assert "\n" not in note


@pytest.mark.parametrize("scheme", ["http", "https", "file", "ftp"])
def test_a_reference_to_somewhere_else_is_not_followed(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> NoReturn:
        raise AssertionError(f"tried to reach {args} {options}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr("urllib.request.urlopen", refuse)

    (note,) = _notes({"$ref": f"{scheme}://127.0.0.1/schema.json"}, {"a": 1})

    assert "the schema itself is broken" in note
    assert "tried to reach" not in note


def test_a_note_is_short_however_large_the_content() -> None:
    (note,) = _notes(SCHEMA, {"total": "x" * 100_000})

    assert len(note) < 300


@pytest.mark.parametrize(
    ("texts", "structured", "same"),
    [
        (['{"a": 1, "b": [true, null]}'], {"b": [True, None], "a": 1}, True),
        (["words"], "words", True),
        (['"words"'], "words", True),
        (["3.5"], {"result": 3.5}, True),
        (["null"], {"result": None}, True),
        (["[]"], {"result": []}, True),
        (["1", "2"], [1, 2], True),
        (["NaN"], {"result": float("nan")}, True),
        ([], {}, False),
        ([], {"result": []}, False),
        (["1"], {"result": True}, False),
        (["1", "2"], [2, 1], False),
        (["1", "2", "3"], [1, 2], False),
        (["words and more"], {"result": "words"}, False),
        (["7"], {"value": 7}, False),
        (["7"], {"result": 7, "unit": "m"}, False),
        (["9" * 5000], {"a": 1}, False),
        (["[" * 100_000], {"a": 1}, False),
    ],
)
def test_a_text_with_the_same_value_repeats_it(
    texts: list[str], structured: Any, same: bool
) -> None:
    assert repeats(texts, structured) is same


def test_json_is_written_for_a_reader_as_well_as_it_can_be() -> None:
    endless: list[Any] = []
    endless.append(endless)

    assert json_text({"name": "Zoë", "n": [1, 2]}) == '{"name": "Zoë", "n": [1, 2]}'
    assert json_text({"a": {1}}) == '{"a": "{1}"}'
    assert json_text(endless) == "a value that cannot be written as JSON"
    assert json.loads(json_text({"a": "\ud83d"})) == {"a": "\ud83d"}
    assert not repeats(["x"], endless)


PICTURE = types.ImageContent(data="aGVsbG8=", mime_type="image/png")


def test_structured_content_is_the_last_text_if_the_tool_wrote_none() -> None:
    blank = types.TextContent(text=" ")

    assert content_for_model([PICTURE, blank], {"n": 1}) == (
        PICTURE,
        types.TextContent(text='{"n": 1}'),
    )
    assert content_for_model([PICTURE], {"shown": [PICTURE.data]}) == (PICTURE,)
    text = types.TextContent(text="one")
    assert content_for_model([text], {"n": 1}) == (text,)


def test_a_model_always_has_something_to_read() -> None:
    assert content_for_model([]) == (types.TextContent(text=NOTHING),)
    assert content_for_model([], is_error=True) == (types.TextContent(text=NO_DETAILS),)


def test_what_a_model_reads_is_sanitized() -> None:
    hidden = "\u200b"
    web = types.ResourceLink(uri=f"https://a/{hidden}", name=f"n{hidden}")
    local = types.ResourceLink(uri=f"file:///{hidden}", name="n")
    contents = types.TextResourceContents(uri="a://b", text=f"x{hidden}")
    blocks: list[types.ContentBlock] = [web, local, types.EmbeddedResource(resource=contents)]

    shown = content_for_model(blocks)

    assert shown == (
        types.ResourceLink(uri="https://a/", name="n"),
        types.ResourceLink(uri="file:///", name="n"),
        types.EmbeddedResource(resource=types.TextResourceContents(uri="a://b", text="x")),
    )
    assert content_for_model(blocks, sanitize=False) == tuple(blocks)
