"""What servers send becomes text, and nothing disappears."""

from __future__ import annotations

import mcp_types as types

from plait.traces.messages.from_mcp import text_from_mcp

_EVERYTHING: list[types.ContentBlock] = [
    types.TextContent(text="é\n"),
    types.ImageContent(data="aGVsbG8=", mime_type="image/png"),
    types.AudioContent(data="aGVsbG8=", mime_type="audio/wav"),
    types.ResourceLink(name="a", uri="file:///a", size=1500),
    types.EmbeddedResource(
        resource=types.TextResourceContents(uri="file:///b", text="ab", mime_type="text/plain")
    ),
    types.EmbeddedResource(resource=types.BlobResourceContents(uri="file:///c", blob="aGVsbG8=")),
]


def test_every_block_leaves_a_line() -> None:
    assert text_from_mcp(_EVERYTHING).splitlines() == [
        "é",
        "",
        "[image: image/png, 5 B]",
        "[audio: audio/wav, 5 B]",
        "Resource: file:///a (1.5 kB)",
        "Resource: file:///b (text/plain, 2 B)",
        "Resource: file:///c (5 B)",
    ]


def test_structured_content_stands_in_only_where_there_is_no_text() -> None:
    text = types.TextContent(text="two")

    assert text_from_mcp([], {"n": 2}) == '{"n": 2}'
    assert text_from_mcp([_EVERYTHING[1]], {"n": 2}) == '{"n": 2}\n[image: image/png, 5 B]'
    assert text_from_mcp([text], {"n": 2}) == "two"
