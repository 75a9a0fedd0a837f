"""Resources as blobs."""

from __future__ import annotations

import base64
from typing import Any, cast

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError
from mcp.server.mcpserver import MCPServer

from plait.langchain.client.resources import (
    convert_mcp_resource_to_langchain_blob,
    get_mcp_resource,
    load_mcp_resources,
)


@given(st.text())
def test_text_stays_text(text: str) -> None:
    contents = types.TextResourceContents(uri="a://b", text=text, mime_type="text/plain")

    blob = convert_mcp_resource_to_langchain_blob("a://b", contents)

    assert blob.data == text
    assert blob.mimetype == "text/plain"
    assert blob.metadata == {"uri": "a://b"}


@given(st.binary())
def test_data_is_decoded(data: bytes) -> None:
    encoded = base64.b64encode(data).decode()
    contents = types.BlobResourceContents(uri="a://b", blob=encoded)

    blob = convert_mcp_resource_to_langchain_blob("a://b", contents)

    assert blob.as_bytes() == data
    assert blob.mimetype is None


@pytest.mark.parametrize("odd", [None, {"uri": "a://b", "text": "x"}, "x"])
def test_anything_else_is_refused(odd: Any) -> None:
    with pytest.raises(ValueError, match="unsupported contents"):
        convert_mcp_resource_to_langchain_blob("a://b", odd)


def _server() -> MCPServer:
    server = MCPServer("resources")

    @server.resource("docs://one", mime_type="text/markdown")
    def one() -> str:
        return "# One"

    @server.resource("docs://two", mime_type="image/png")
    def two() -> bytes:
        return b"\x89PNG"

    return server


@pytest.mark.anyio
async def test_resources_are_loaded_from_a_client_and_from_its_session() -> None:
    async with Client(_server()) as client:
        for session in (client, client.session):
            everything = await load_mcp_resources(session)
            chosen = await load_mcp_resources(session, uris=["docs://two"])
            single = await load_mcp_resources(session, uris="docs://one")

            assert [(blob.as_bytes(), blob.mimetype) for blob in everything] == [
                (b"# One", "text/markdown"),
                (b"\x89PNG", "image/png"),
            ]
            assert [blob.metadata for blob in chosen] == [{"uri": "docs://two"}]
            assert single == await get_mcp_resource(session, "docs://one")
            assert await load_mcp_resources(session, uris=[]) == []


@pytest.mark.anyio
async def test_a_resource_that_cannot_be_read_is_named() -> None:
    async with Client(_server()) as client:
        with pytest.raises(RuntimeError, match=r"^Error fetching resource docs://none$") as raised:
            await load_mcp_resources(client, uris=["docs://one", "docs://none"])

    assert isinstance(raised.value.__cause__, MCPError)


class Pages:
    """Lists one resource a page."""

    def __init__(self, cursors: dict[str | None, str | None]) -> None:
        self.cursors = cursors
        self.asked: list[str | None] = []

    async def list_resources(self, *, cursor: str | None = None) -> types.ListResourcesResult:
        self.asked.append(cursor)
        listed = types.Resource(uri=f"a://{cursor}", name="x")
        return types.ListResourcesResult(resources=[listed], next_cursor=self.cursors[cursor])

    async def read_resource(self, uri: str) -> types.ReadResourceResult:
        parts = [types.TextResourceContents(uri=f"{uri}#{part}", text=uri) for part in (1, 2)]
        return types.ReadResourceResult(contents=[*parts])


@pytest.mark.anyio
async def test_every_page_is_listed_and_every_part_is_read() -> None:
    pages: Any = Pages({None: "2", "2": "3", "3": None})

    blobs = await load_mcp_resources(pages)

    assert pages.asked == [None, "2", "3"]
    assert [blob.metadata["uri"] for blob in blobs] == [
        "a://None", "a://None", "a://2", "a://2", "a://3", "a://3"
    ]  # fmt: skip


@pytest.mark.anyio
async def test_a_server_that_repeats_a_cursor_is_not_followed_for_ever() -> None:
    pages: Any = Pages({None: "2", "2": "3", "3": "2"})

    await load_mcp_resources(pages)

    assert pages.asked == [None, "2", "3"]


@pytest.mark.anyio
async def test_data_that_is_damaged_is_an_error_of_its_resource() -> None:
    class Damaged(Pages):
        async def read_resource(self, uri: str) -> types.ReadResourceResult:
            return types.ReadResourceResult(
                contents=[types.BlobResourceContents(uri=uri, blob="A")]
            )

    with pytest.raises(RuntimeError, match="Error fetching resource a://x") as raised:
        await load_mcp_resources(cast("Any", Damaged({})), uris=["a://x"])

    assert isinstance(raised.value.__cause__, ValueError)
