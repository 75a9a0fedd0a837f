"""LangChain content as MCP content, and back."""

from __future__ import annotations

import base64
import json
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage
from langchain_core.messages.content import (
    create_audio_block,
    create_file_block,
    create_image_block,
    create_plaintext_block,
    create_text_block,
    create_video_block,
)

from plait.client.calls.outcome import ToolResult
from plait.langchain.tools.blocks import legacy_block, mcp_content_from, standard_block, wire_json
from plait.langchain.tools.content import OutputHandling, convert_result
from plait.traces.messages.from_mcp import contents_line

Json = dict[str, Any]


def _sent(content: Any) -> list[Json]:
    return [wire_json(block) for block in mcp_content_from(content)]


def test_plain_strings_are_text() -> None:
    assert _sent("hello") == [{"type": "text", "text": "hello"}]
    assert _sent(["one", "two"]) == [
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two"},
    ]
    assert _sent([]) == []


RESOURCE = "resource"
LINKED = "resource_link"

STANDARD: list[tuple[Any, Json]] = [
    (create_text_block("hello"), {"type": "text", "text": "hello"}),
    (
        create_image_block(base64="AAAA", mime_type="image/png"),
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    ),
    (
        create_audio_block(base64="AAAA", mime_type="audio/wav"),
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    ),
    (
        create_video_block(base64="AAAA", mime_type="video/mp4"),
        {
            "type": RESOURCE,
            "resource": {"uri": "attachment:file", "mimeType": "video/mp4", "blob": "AAAA"},
        },
    ),
    (
        create_file_block(base64="AAAA", mime_type="application/pdf", filename="my a.pdf"),
        {
            "type": RESOURCE,
            "resource": {
                "uri": "attachment:my%20a.pdf",
                "mimeType": "application/pdf",
                "blob": "AAAA",
            },
        },
    ),
    (
        create_plaintext_block("long text", title="a title"),
        {
            "type": RESOURCE,
            "resource": {
                "uri": "attachment:a%20title",
                "mimeType": "text/plain",
                "text": "long text",
            },
        },
    ),
    (
        create_image_block(url="https://a/b.PNG"),
        {"type": LINKED, "uri": "https://a/b.PNG", "name": "b.PNG", "mimeType": "image/png"},
    ),
    (
        create_image_block(url="https://a/b", mime_type="image/webp"),
        {"type": LINKED, "uri": "https://a/b", "name": "https://a/b", "mimeType": "image/webp"},
    ),
    (
        create_image_block(url="data:image/gif;base64,AAAA"),
        {"type": "image", "data": "AAAA", "mimeType": "image/gif"},
    ),
    (
        create_audio_block(url="https://a/b.unknownend"),
        {"type": LINKED, "uri": "https://a/b.unknownend", "name": "b.unknownend"},
    ),
    (
        create_file_block(url="https://a/b.pdf"),
        {"type": LINKED, "uri": "https://a/b.pdf", "name": "b.pdf", "mimeType": "application/pdf"},
    ),
]


@pytest.mark.parametrize(("block", "expected"), STANDARD, ids=range(len(STANDARD)))
def test_a_standard_block_has_its_place_in_mcp(block: Any, expected: Json) -> None:
    assert _sent([block]) == [expected]


OLDER: list[tuple[Json, Json]] = [
    (
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    ),
    (
        {"type": "image_url", "image_url": "data:image/png;base64,AAAA"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    ),
    (
        {"type": "image_url", "image_url": {"url": "data:image/svg+xml,%3Csvg/%3E"}},
        {
            "type": "image",
            "data": base64.b64encode(b"<svg/>").decode(),
            "mimeType": "image/svg+xml",
        },
    ),
    (
        {"type": "image_url", "image_url": {"url": "https://a/b.png"}},
        {"type": LINKED, "uri": "https://a/b.png", "name": "b.png", "mimeType": "image/png"},
    ),
    (
        {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": "AAAA"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    ),
    (
        {"type": "audio", "source_type": "base64", "mime_type": "audio/wav", "data": "AAAA"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    ),
    (
        {"type": "file", "source_type": "text", "mime_type": "text/csv", "text": "a,b"},
        {
            "type": RESOURCE,
            "resource": {"uri": "attachment:file", "mimeType": "text/csv", "text": "a,b"},
        },
    ),
    (
        {"type": "file", "source_type": "base64", "mime_type": "a/b", "data": "AAAA"},
        {
            "type": RESOURCE,
            "resource": {"uri": "attachment:file", "mimeType": "a/b", "blob": "AAAA"},
        },
    ),
    (
        {"type": "file", "source_type": "url", "mime_type": "a/b", "url": "https://a/b"},
        {"type": LINKED, "uri": "https://a/b", "name": "https://a/b", "mimeType": "a/b"},
    ),
    ({"type": "text", "source_type": "text", "text": "x"}, {"type": "text", "text": "x"}),
]


@pytest.mark.parametrize(("block", "expected"), OLDER, ids=range(len(OLDER)))
def test_an_older_shape_has_its_place_in_mcp(block: Json, expected: Json) -> None:
    assert _sent([block]) == [expected]


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"type": "reasoning", "reasoning": "hm"},
        {"type": ["text"], "text": "x"},
        {"type": "text"},
        {"type": "text", "text": 7},
        {"type": "image", "file_id": "f-1"},
        {"type": "image", "base64": "AAAA", "mime_type": 7},
        {"type": "image", "url": "data:no-comma"},
        {"type": "image_url"},
        {"type": "image_url", "image_url": {"detail": "low"}},
    ],
)
def test_what_has_no_place_in_mcp_becomes_its_json(odd: Json) -> None:
    assert _sent([odd]) == [{"type": "text", "text": json.dumps(odd)}]


def test_data_of_unknown_type_keeps_its_bytes() -> None:
    assert _sent([{"type": "image", "base64": "AAAA"}]) == [
        {"type": "image", "data": "AAAA", "mimeType": "application/octet-stream"}
    ]
    assert _sent([{"type": "image", "url": "data:;base64,AAAA"}]) == [
        {"type": "image", "data": "AAAA", "mimeType": "application/octet-stream"}
    ]


def test_the_content_of_a_tool_message_can_be_given() -> None:
    message = ToolMessage(
        content=["one", {"type": "image", "base64": "AAAA", "mime_type": "image/png"}],
        tool_call_id="1",
    )

    assert [block.type for block in mcp_content_from(message.content)] == ["text", "image"]
    assert _sent(ToolMessage(content="one", tool_call_id="1").content) == [
        {"type": "text", "text": "one"}
    ]


mime_types = st.sampled_from(["image/png", "audio/wav", "application/pdf", "text/csv", "x/y"])
data = st.binary(min_size=1, max_size=40).map(lambda raw: base64.b64encode(raw).decode())
texts = st.text(min_size=1).filter(str.strip)
hints = st.none() | st.builds(
    types.Annotations, audience=st.just(["user"]), priority=st.sampled_from([0.0, 0.5])
)
about = {"annotations": hints, "_meta": st.none() | st.just({"vendor/x": [1]})}
contents = st.builds(
    types.TextResourceContents,
    uri=st.sampled_from(["a://b", "file:///a.pdf"]),
    text=texts,
    mimeType=st.none() | mime_types,
) | st.builds(
    types.BlobResourceContents,
    uri=st.sampled_from(["a://b", "file:///a.pdf"]),
    blob=data,
    mimeType=mime_types,
)
blocks = st.one_of(
    st.builds(types.TextContent, text=texts, **about),
    st.builds(types.ImageContent, data=data, mimeType=st.just("image/png"), **about),
    st.builds(types.AudioContent, data=data, mimeType=st.just("audio/wav"), **about),
    st.builds(types.EmbeddedResource, resource=contents, **about),
)


@given(blocks)
def test_every_block_comes_back_from_its_standard_form_as_it_was(block: types.ContentBlock) -> None:
    assert mcp_content_from([standard_block(block)]) == [block]


@given(blocks)
def test_every_block_comes_back_from_its_older_form_with_its_bytes(
    block: types.ContentBlock,
) -> None:
    (back,) = mcp_content_from([legacy_block(block)])

    assert _payload(back) == _payload(block)


def _payload(block: types.ContentBlock) -> tuple[str | None, str]:
    match block:
        case types.TextContent():
            return None, block.text
        case types.EmbeddedResource(resource=types.TextResourceContents(text=text)):
            return None, text
        case types.EmbeddedResource(resource=types.BlobResourceContents() as contents):
            return contents.mime_type, contents.blob
        case types.ImageContent() | types.AudioContent():
            return block.mime_type, block.data
        case _:
            raise AssertionError(block)


@given(st.lists(blocks, min_size=2, max_size=5))
def test_a_whole_result_comes_back_in_order(sent: list[types.ContentBlock]) -> None:
    converted = convert_result(
        ToolResult.from_mcp("s", "t", types.CallToolResult(content=sent)),
        handling=OutputHandling.of("content"),
        sanitize=False,
    )

    back = mcp_content_from(converted.content)
    lines = {
        contents_line(block.resource) for block in sent if isinstance(block, types.EmbeddedResource)
    }
    assert [block for block in back if getattr(block, "text", "") not in lines] == sent


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
KINDS = ["text", "image", "audio", "video", "file", "text-plain", "image_url", "new"]
KEYS = ["text", "base64", "data", "url", "mime_type", "extras", "image_url", "title"]
odd_blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS) | json_values},
    optional=dict.fromkeys(KEYS, json_values),
)


@given(st.lists(odd_blocks | st.text(), max_size=3))
def test_no_content_is_refused_or_lost(content: list[Any]) -> None:
    assert len(mcp_content_from(content)) == len(content)
