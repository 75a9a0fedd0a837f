"""Resources of MCP servers as LangChain blobs."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import mcp_types as types
from langchain_core.documents.base import Blob
from mcp import ClientSession

from plait.client.connections.operations import all_pages

if TYPE_CHECKING:
    from plait.client.calls.content import ResourceContents


class ResourceSource(Protocol):
    """Lists resources page by page, and reads them, as the SDK's `Client` does."""

    async def list_resources(self, *, cursor: str | None = None) -> types.ListResourcesResult:
        """List one page of resources."""
        ...

    async def read_resource(self, uri: str) -> types.ReadResourceResult:
        """Read a resource."""
        ...


def convert_mcp_resource_to_langchain_blob(resource_uri: str, contents: ResourceContents) -> Blob:
    """Translate the contents of a resource.

    Raises:
        TypeError: The contents are neither text nor binary data.
        ValueError: The binary data is not base64.
    """
    match contents:
        case types.TextResourceContents():
            data = contents.text
        case types.BlobResourceContents():
            data = base64.b64decode(contents.blob)
        case _:  # pyright: ignore[reportUnnecessaryComparison]
            raise TypeError(f"unsupported contents of {resource_uri}: {type(contents).__name__}")
    return Blob.from_data(data, mime_type=contents.mime_type, metadata={"uri": resource_uri})


async def get_mcp_resource(session: ResourceSource | ClientSession, uri: str) -> list[Blob]:
    """Read a resource; each part of its contents becomes a blob."""
    result = await session.read_resource(uri)
    return [convert_mcp_resource_to_langchain_blob(uri, contents) for contents in result.contents]


async def load_mcp_resources(
    session: ResourceSource | ClientSession, *, uris: str | Iterable[str] | None = None
) -> list[Blob]:
    """Read these resources, or all that the server lists.

    Raises:
        RuntimeError: A resource could not be read; `__cause__` is the error.
    """
    if uris is None:
        selected = await _listed_uris(session)
    else:
        selected = [uris] if isinstance(uris, str) else list(uris)
    blobs: list[Blob] = []
    for uri in selected:
        try:
            blobs += await get_mcp_resource(session, uri)
        except Exception as error:  # boundary: a session may raise anything
            raise RuntimeError(f"Error fetching resource {uri}") from error
    return blobs


async def _listed_uris(session: ResourceSource | ClientSession) -> list[str]:
    async def fetch(cursor: str | None) -> types.ListResourcesResult:
        if isinstance(session, ClientSession):
            return await session.list_resources(params=types.PaginatedRequestParams(cursor=cursor))
        return await session.list_resources(cursor=cursor)

    return [resource.uri for page in await all_pages(fetch) for resource in page.resources]
