"""LangChain content as MCP content, and back; lines, sizes and names made of blocks."""

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

from plait._support.sizes import size_label
from plait.client.calls.outcome import ToolResult, link_line
from plait.langchain.tools.blocks import (
    filename_of,
    legacy_block,
    mcp_content_from,
    standard_block,
    wire_json,
)
from plait.langchain.tools.content import OutputHandling, convert_result
from plait.traces.messages.from_mcp import contents_line

Json = dict[str, Any]


def media(kind: str, mime_type: str, data: str = "AAAA") -> Json:
    return {"type": kind, "data": data, "mimeType": mime_type}


def resource(uri: str, mime_type: str, **contents: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, **contents}}


def link(uri: str, name: str, mime_type: str | None = None) -> Json:
    found = {"type": "resource_link", "uri": uri, "name": name}
    return found if mime_type is None else {**found, "mimeType": mime_type}


def older(kind: str, mime_type: str, source: str, **fields: str) -> Json:
    return {"type": kind, "source_type": source, "mime_type": mime_type, **fields}


def image_url(url: Any) -> Json:
    return {"type": "image_url", "image_url": url}


TEXT: Json = {"type": "text", "text": "x"}
OCTETS = "application/octet-stream"
PDF = "application/pdf"
ROWS: list[tuple[Any, Json]] = [
    (create_text_block("x"), TEXT),
    (create_image_block(base64="AAAA", mime_type="image/png"), media("image", "image/png")),
    (create_audio_block(base64="AAAA", mime_type="audio/wav"), media("audio", "audio/wav")),
    (
        create_video_block(base64="AAAA", mime_type="video/mp4"),
        resource("attachment:file", "video/mp4", blob="AAAA"),
    ),
    (
        create_file_block(base64="AAAA", mime_type=PDF, filename="my a.pdf"),
        resource("attachment:my%20a.pdf", PDF, blob="AAAA"),
    ),
    (
        create_plaintext_block("long", title="a title"),
        resource("attachment:a%20title", "text/plain", text="long"),
    ),
    (create_image_block(url="https://a/b.PNG"), link("https://a/b.PNG", "b.PNG", "image/png")),
    (
        create_image_block(url="https://a/b", mime_type="image/webp"),
        link("https://a/b", "https://a/b", "image/webp"),
    ),
    (create_image_block(url="data:image/gif;base64,AAAA"), media("image", "image/gif")),
    (create_audio_block(url="https://a/b.unknown"), link("https://a/b.unknown", "b.unknown")),
    (create_file_block(url="https://a/b.pdf"), link("https://a/b.pdf", "b.pdf", PDF)),
    # Older shapes.
    (image_url({"url": "data:image/png;base64,AAAA"}), media("image", "image/png")),
    (image_url("data:image/png;base64,AAAA"), media("image", "image/png")),
    (
        image_url({"url": "data:image/svg+xml,%3Csvg/%3E"}),
        media("image", "image/svg+xml", base64.b64encode(b"<svg/>").decode()),
    ),
    (image_url({"url": "https://a/b.png"}), link("https://a/b.png", "b.png", "image/png")),
    (older("image", "image/png", "base64", data="AAAA"), media("image", "image/png")),
    (older("audio", "audio/wav", "base64", data="AAAA"), media("audio", "audio/wav")),
    (older("file", "a/b", "text", text="a,b"), resource("attachment:file", "a/b", text="a,b")),
    (older("file", "a/b", "base64", data="AAAA"), resource("attachment:file", "a/b", blob="AAAA")),
    (older("file", "a/b", "url", url="https://a/b"), link("https://a/b", "https://a/b", "a/b")),
    ({"type": "text", "source_type": "text", "text": "x"}, TEXT),
    # Data of an unknown type keeps its bytes.
    ({"type": "image", "base64": "AAAA"}, media("image", OCTETS)),
    ({"type": "image", "url": "data:;base64,AAAA"}, media("image", OCTETS)),
    # What has no place in MCP becomes its JSON.
    *(
        (odd, {"type": "text", "text": json.dumps(odd)})
        for odd in (
            {},
            {"type": "reasoning", "reasoning": "hm"},
            {"type": ["text"], "text": "x"},
            {"type": "text"},
            {"type": "text", "text": 7},
            {"type": "image", "file_id": "f-1"},
            {"type": "image", "base64": "AAAA", "mime_type": 7},
            {"type": "image", "url": "data:no-comma"},
            {"type": "image_url"},
            image_url({"detail": "low"}),
        )
    ),
]


def sent(content: Any) -> list[Json]:
    return [wire_json(block) for block in mcp_content_from(content)]


@pytest.mark.parametrize(("block", "expected"), ROWS, ids=range(len(ROWS)))
def test_a_block_of_langchain_has_its_place_in_mcp(block: Any, expected: Json) -> None:
    assert sent([block]) == [expected]


def test_content_is_a_text_or_a_list_as_in_a_tool_message() -> None:
    mixed: Any = ["one", {"type": "image", "base64": "AAAA", "mime_type": "image/png"}]

    assert sent("x") == sent(ToolMessage("x", tool_call_id="1").content) == [TEXT]
    assert sent(["x", "x"]) == [TEXT, TEXT]
    assert sent([]) == []
    message = ToolMessage(mixed, tool_call_id="1")
    assert [block.type for block in mcp_content_from(message.content)] == ["text", "image"]


mime_types = st.sampled_from(["image/png", "audio/wav", PDF, "text/csv", "x/y"])
uris = st.sampled_from(["a://b", "file:///a.pdf"])
data = st.binary(min_size=1, max_size=40).map(lambda raw: base64.b64encode(raw).decode())
texts = st.text(min_size=1).filter(str.strip)
hints = st.none() | st.builds(
    types.Annotations, audience=st.just(["user"]), priority=st.sampled_from([0.0, 0.5])
)
about = {"annotations": hints, "_meta": st.none() | st.just({"vendor/x": [1]})}
contents = st.builds(
    types.TextResourceContents, uri=uris, text=texts, mimeType=st.none() | mime_types
) | st.builds(types.BlobResourceContents, uri=uris, blob=data, mimeType=mime_types)
blocks = st.one_of(
    st.builds(types.TextContent, text=texts, **about),
    st.builds(types.ImageContent, data=data, mimeType=st.just("image/png"), **about),
    st.builds(types.AudioContent, data=data, mimeType=st.just("audio/wav"), **about),
    st.builds(types.EmbeddedResource, resource=contents, **about),
)


def payload_of(block: Any) -> tuple[str | None, str]:
    """Return the bytes or the text of a block, and the type of bytes."""
    inner = getattr(block, "resource", block)
    if hasattr(inner, "text"):
        return None, inner.text
    return inner.mime_type, getattr(inner, "blob", None) or inner.data


@given(st.lists(blocks, min_size=2, max_size=5))
def test_a_whole_result_comes_back_in_order(content: list[types.ContentBlock]) -> None:
    output = convert_result(
        ToolResult.from_mcp("s", "t", types.CallToolResult(content=content)),
        handling=OutputHandling.of("content"),
        sanitize=False,
    )

    back = mcp_content_from(output.content)
    resources = (block.resource for block in content if isinstance(block, types.EmbeddedResource))
    lines = set(map(contents_line, resources))
    assert [block for block in back if getattr(block, "text", "") not in lines] == content
    for block in content:
        assert mcp_content_from([standard_block(block)]) == [block]
        # From its older form, it comes back with its bytes.
        (other,) = mcp_content_from([legacy_block(block)])
        assert payload_of(other) == payload_of(block)


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
KINDS = ["text", "image", "audio", "video", "file", "text-plain", "image_url", "new"]
KEYS = ["text", "base64", "data", "url", "mime_type", "extras", "image_url", "title"]
odd_blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS) | values}, optional=dict.fromkeys(KEYS, values)
)


@given(st.lists(odd_blocks | st.text(), max_size=3))
def test_no_content_is_refused_or_lost(content: list[Any]) -> None:
    assert len(mcp_content_from(content)) == len(content)


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"name": ""}, "Resource: a://b"),
        ({"name": "b"}, "Resource: a://b - b"),
        ({"name": "b", "mimeType": "text/csv"}, "Resource: a://b (text/csv) - b"),
        ({"name": "b", "size": 512}, "Resource: a://b (512 B) - b"),
        ({"name": "b", "size": 0}, "Resource: a://b (0 B) - b"),
        ({"name": "b", "size": -1}, "Resource: a://b - b"),
        ({"name": "b", "title": "Bee"}, "Resource: a://b - Bee"),
        ({"name": "", "description": "what"}, "Resource: a://b - what"),
        (
            {"title": "Bee", "description": "all\n  of it", "mimeType": "text/csv", "size": 3400},
            "Resource: a://b (text/csv, 3.4 kB) - Bee: all of it",
        ),
        # No provider is sent to an address.
        ({"uri": "HTTPS://a/b", "mimeType": "image/png"}, "Resource: HTTPS://a/b (image/png) - b"),
    ],
)
def test_a_link_is_one_line(facts: Json, line: str) -> None:
    given = {"type": "resource_link", "uri": "a://b", "name": "b", **facts}
    shown = types.ResourceLink.model_validate(given)

    assert link_line(shown) == line
    assert standard_block(shown) == legacy_block(shown) == {"type": "text", "text": line}


def test_the_size_of_a_resource_is_that_of_its_bytes() -> None:
    text = types.TextResourceContents(uri="a://b", text="é€")
    blob = types.BlobResourceContents(uri="a://b", blob="AAEC", mime_type="x/y")
    nameless = types.TextResourceContents(uri="", text="a")

    assert contents_line(text) == "Resource: a://b (5 B)"
    assert contents_line(blob) == "Resource: a://b (x/y, 3 B)"
    assert contents_line(nameless) == "Resource: (1 B)"


@given(st.binary(max_size=50))
def test_the_size_of_base64_is_counted_without_decoding(raw: bytes) -> None:
    encoded = types.BlobResourceContents(uri="a://b", blob=base64.b64encode(raw).decode())

    assert contents_line(encoded) == f"Resource: a://b ({len(raw)} B)"


def test_a_size_is_written_for_a_reader() -> None:
    sizes = [0, 512, 999, 1000, 3400, 999_960, 12_345_678, 5_000_000_000, 5_000_000_000_000]
    labels = "0 B,512 B,999 B,1.0 kB,3.4 kB,1.0 MB,12.3 MB,5.0 GB,5000.0 GB"

    assert [size_label(size) for size in sizes] == labels.split(",")


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("file:///x/a.pdf", "a.pdf"),
        ("https://h/x/my%20report%20(1).xlsx?y=z#q", "my report (1).xlsx"),
        *((uri, None) for uri in ("docs://page", "docs://h/page", "file:///x/", "file:///x/..")),
        *((uri, None) for uri in ("file:///x/.bashrc", "file:///x/a%2Fb.txt", "")),
        ("http://[bad/a.txt", None),
    ],
)
def test_only_a_name_that_looks_like_a_file_is_a_filename(uri: str, name: str | None) -> None:
    assert filename_of(uri) == name


def test_a_mime_type_is_recognised_in_any_case() -> None:
    picture = types.BlobResourceContents(uri="", blob="AAAA", mime_type="IMAGE/PNG")

    block = standard_block(types.EmbeddedResource(resource=picture))
    assert block == {"type": "image", "base64": "AAAA", "mime_type": "IMAGE/PNG"}


def test_the_json_of_a_block_has_everything_that_was_sent() -> None:
    whole = {
        "type": "resource",
        "resource": {"uri": "a://b", "text": "x", "_meta": {"vendor/x": {"kept": None}}},
        "annotations": {"lastModified": "2026-01-01T00:00:00Z"},
        "_meta": {"vendor/y": [1]},
    }

    assert wire_json(types.EmbeddedResource.model_validate(whole)) == whole
