"""Resources of MCP servers as LangChain blobs, and prompts as messages."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from langchain_core.documents.base import Blob
from langchain_core.messages import AIMessage, HumanMessage

from plait._support import mcp_types as types
from plait._support.own_types import own_type
from plait._support.threads import convert_aside
from plait.client.calls.outcome import json_text
from plait.client.connections.operations import all_pages
from plait.langchain.tools.blocks import standard_block

if TYPE_CHECKING:
    from mcp import ClientSession

    from plait.client.calls.outcome import ResourceContents
    from plait.client.toolbox import ServerHandle
    from plait.langchain.client.user_session import AnySession


Source: TypeAlias = "ServerHandle | AnySession"
"""What lists and reads resources, and gets prompts: a server of a client, or a session."""


def convert_mcp_resource_to_langchain_blob(resource_uri: str, contents: ResourceContents) -> Blob:
    """Translate the contents of a resource.

    Raises:
        ValueError: The contents are neither text nor binary data in base64.
    """
    for kind in (types.TextResourceContents, types.BlobResourceContents):
        contents = own_type(kind, contents)
    match contents:
        case types.TextResourceContents():
            data = contents.text
        case types.BlobResourceContents():
            data = base64.b64decode(contents.blob)
        case _:  # pyright: ignore[reportUnnecessaryComparison]
            raise ValueError(f"unsupported contents of {resource_uri}: {type(contents)}")
    return Blob.from_data(data, mime_type=contents.mime_type, metadata={"uri": resource_uri})


async def get_mcp_resource(session: Source, uri: str) -> list[Blob]:
    """Read a resource; each part of its contents becomes a blob."""
    read: Any = await session.read_resource(cast("Any", uri))
    contents = own_type(types.ReadResourceResult, read).contents
    return await convert_aside(partial(convert_mcp_resource_to_langchain_blob, uri), contents)


async def load_mcp_resources(
    session: Source, *, uris: str | Iterable[str] | None = None
) -> list[Blob]:
    """Read these resources, or all that the server lists.

    Raises:
        RuntimeError: A resource could not be read; `__cause__` is the error.
    """
    selected = [uris] if isinstance(uris, str) else uris
    if selected is None:

        async def fetch(cursor: str | None) -> types.ListResourcesResult:
            sdk = sys.modules.get("mcp")  # without it, there is no session of it
            if sdk is None or not isinstance(session, sdk.ClientSession):
                page = await cast("ServerHandle", session).list_resources(cursor=cursor)
            else:
                opened = cast("ClientSession", session)
                params = sdk.types.PaginatedRequestParams(cursor=cursor)
                page = await opened.list_resources(params=params)
            return own_type(types.ListResourcesResult, page)

        pages = await all_pages(fetch)
        selected = [resource.uri for page in pages for resource in page.resources]
    blobs: list[Blob] = []
    for uri in selected:
        try:
            blobs += await get_mcp_resource(session, uri)
        except Exception as error:  # boundary: a session may raise anything
            raise RuntimeError(f"Error fetching resource {uri}") from error
    return blobs


def convert_mcp_prompt_message_to_langchain_message(
    message: types.PromptMessage,
) -> HumanMessage | AIMessage:
    """Translate one message; text becomes a string, other content a standard block."""
    content = own_type(types.PromptMessage, message).content
    if isinstance(content, types.TextContent):
        translated: str | list[str | dict[Any, Any]] = content.text
    else:
        translated = [standard_block(content)]
    return HumanMessage(translated) if message.role == "user" else AIMessage(translated)


async def load_mcp_prompt(
    session: Source, name: str, *, arguments: Mapping[str, Any] | None = None
) -> list[HumanMessage | AIMessage]:
    """Get a prompt as messages; arguments that are not strings are sent as JSON."""
    texts = None
    if arguments is not None:
        texts = {
            key: value if isinstance(value, str) else json_text(value)
            for key, value in arguments.items()
        }
    result = own_type(types.GetPromptResult, await session.get_prompt(name, texts))
    return await convert_aside(convert_mcp_prompt_message_to_langchain_message, result.messages)
