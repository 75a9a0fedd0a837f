"""Content blocks translated one by one."""

from __future__ import annotations

import logging
from typing import Any

import mcp_types as types
import pytest

from plait.langchain.tools.content import map_content, map_content_item

Json = dict[str, Any]

TEXT: Json = {"type": "text", "text": "hello"}
IMAGE: Json = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
AUDIO: Json = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
RESOURCE: Json = {"type": "resource", "resource": {"uri": "a://b", "text": "inside"}}
LINK: Json = {"type": "resource_link", "uri": "https://a/b.png", "name": "b"}

MAPPED: list[tuple[Json, Json]] = [
    (TEXT, TEXT),
    (IMAGE, {"type": "image", "base64": "AAAA", "mime_type": "image/png"}),
    (AUDIO, {"type": "audio", "base64": "AAAA", "mime_type": "audio/wav"}),
    (RESOURCE, {"type": "text", "text": "Resource: a://b"}),
    (LINK, {"type": "text", "text": "Resource: https://a/b.png"}),
]


def test_nothing_is_mapped_to_nothing() -> None:
    assert map_content([]) == []


def test_blocks_are_mapped_in_order() -> None:
    assert map_content([sent for sent, _ in MAPPED]) == [expected for _, expected in MAPPED]


@pytest.mark.parametrize(("sent", "expected"), MAPPED, ids=lambda part: part["type"])
def test_a_block_is_mapped_as_json_and_as_an_object(sent: Json, expected: Json) -> None:
    block = types.CallToolResult.model_validate({"content": [sent]}).content[0]

    assert map_content_item(sent) == expected
    assert map_content_item(block) == expected


@pytest.mark.parametrize(
    "bare",
    [
        {"type": "resource", "resource": {"uri": "a://b"}},
        {"type": "resource", "uri": "a://b"},
        {"type": "resource_link", "uri": "a://b"},
    ],
)
def test_an_address_is_enough_for_a_resource(bare: Json) -> None:
    assert map_content_item(bare) == {"type": "text", "text": "Resource: a://b"}


@pytest.mark.parametrize(
    ("odd", "text"),
    [
        ({"type": "hologram", "voxels": [1]}, '{"type": "hologram", "voxels": [1]}'),
        ({"type": "image", "data": "AAAA"}, '{"type": "image", "data": "AAAA"}'),
        ({"type": "resource"}, '{"type": "resource"}'),
        ({"type": ["text"]}, '{"type": ["text"]}'),
        ({}, "{}"),
    ],
)
def test_an_unknown_block_becomes_text_with_a_warning(
    odd: Json, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "plait.langchain"):
        mapped = map_content_item(odd)

    assert mapped == {"type": "text", "text": text}
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_known_block_is_mapped_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    map_content([sent for sent, _ in MAPPED])

    assert caplog.records == []
