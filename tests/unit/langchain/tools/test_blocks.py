"""Lines, sizes and names made of content blocks."""

from __future__ import annotations

import base64
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait._support.sizes import size_label
from plait.client.calls.outcome import link_line
from plait.langchain.tools.blocks import filename_of, legacy_block, standard_block, wire_json
from plait.traces.messages.from_mcp import contents_line


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
            {
                "name": "b",
                "title": "Bee",
                "description": "all\n  of it",
                "mimeType": "text/csv",
                "size": 3400,
            },
            "Resource: a://b (text/csv, 3.4 kB) - Bee: all of it",
        ),
    ],
)
def test_a_link_is_one_line(facts: dict[str, Any], line: str) -> None:
    link = types.ResourceLink.model_validate({"type": "resource_link", "uri": "a://b", **facts})

    assert link_line(link) == line
    assert standard_block(link) == {"type": "text", "text": line}


@pytest.mark.parametrize("mime_type", [None, "image/png", "application/pdf"])
@pytest.mark.parametrize("uri", ["http://a/b", "HTTPS://a/b"])
def test_no_provider_is_sent_to_an_address(uri: str, mime_type: str | None) -> None:
    link = types.ResourceLink(uri=uri, name="b", mime_type=mime_type)

    assert standard_block(link) == legacy_block(link) == {"type": "text", "text": link_line(link)}


def test_the_size_of_a_resource_is_that_of_its_bytes() -> None:
    text = types.TextResourceContents(uri="a://b", text="é€")
    data = types.BlobResourceContents(uri="a://b", blob="AAEC", mime_type="x/y")
    nameless = types.TextResourceContents(uri="", text="a")

    assert contents_line(text) == "Resource: a://b (5 B)"
    assert contents_line(data) == "Resource: a://b (x/y, 3 B)"
    assert contents_line(nameless) == "Resource: (1 B)"


@given(st.binary(max_size=50))
def test_the_size_of_base64_is_counted_without_decoding(data: bytes) -> None:
    contents = types.BlobResourceContents(uri="a://b", blob=base64.b64encode(data).decode())

    assert contents_line(contents) == f"Resource: a://b ({len(data)} B)"


@pytest.mark.parametrize(
    ("size", "label"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (3400, "3.4 kB"),
        (999_960, "1.0 MB"),
        (12_345_678, "12.3 MB"),
        (5_000_000_000, "5.0 GB"),
        (5_000_000_000_000, "5000.0 GB"),
    ],
)
def test_a_size_is_written_for_a_reader(size: int, label: str) -> None:
    assert size_label(size) == label


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("file:///x/a.pdf", "a.pdf"),
        ("https://h/x/my%20report%20(1).xlsx?y=z#q", "my report (1).xlsx"),
        ("docs://page", None),
        ("docs://h/page", None),
        ("file:///x/", None),
        ("file:///x/..", None),
        ("file:///x/.bashrc", None),
        ("file:///x/a%2Fb.txt", None),
        ("http://[bad/a.txt", None),
        ("", None),
    ],
)
def test_only_a_name_that_looks_like_a_file_is_a_filename(uri: str, name: str | None) -> None:
    assert filename_of(uri) == name


def test_a_mime_type_is_recognised_in_any_case() -> None:
    picture = types.EmbeddedResource(
        resource=types.BlobResourceContents(uri="", blob="AAAA", mime_type="IMAGE/PNG")
    )

    assert standard_block(picture) == {"type": "image", "base64": "AAAA", "mime_type": "IMAGE/PNG"}


def test_the_json_of_a_block_has_everything_that_was_sent() -> None:
    sent = {
        "type": "resource",
        "resource": {"uri": "a://b", "text": "x", "_meta": {"vendor/x": {"kept": None}}},
        "annotations": {"lastModified": "2026-01-01T00:00:00Z"},
        "_meta": {"vendor/y": [1]},
    }

    assert wire_json(types.EmbeddedResource.model_validate(sent)) == sent
