"""What the suite of `langchain-mcp-adapters` checks of prompts, resources and server information.

See `test_peer_suite`.
"""

from __future__ import annotations

import base64
from collections.abc import Generator
from typing import Any, Literal, cast
from unittest.mock import AsyncMock, call

import pytest
from langchain_core.documents.base import Blob
from langchain_core.messages import AIMessage, HumanMessage
from mcp import ClientSession
from mcp.types import (
    BlobResourceContents,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    Implementation,
    InitializeResult,
    ListResourcesResult,
    LoggingMessageNotificationParams,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ResourceContents,
    ServerCapabilities,
    TextContent,
    TextResourceContents,
)

from plait import (
    CallbackContext,
    Callbacks,
    MultiServerMCPClient,
    convert_mcp_prompt_message_to_langchain_message,
    convert_mcp_resource_to_langchain_blob,
    get_mcp_resource,
    load_mcp_prompt,
    load_mcp_resources,
    load_mcp_server_info,
    load_mcp_tools,
)
from plait.client import ServerInfo
from plait.testing import ServerProcess, free_port, running
from tests.integration.langchain.peer import differs
from tests.servers.langchain_servers import PIXEL, served, stdio_entry

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Role = Literal["assistant", "user"]
ROLES: list[tuple[Role, type]] = [("assistant", AIMessage), ("user", HumanMessage)]
URI = "file:///a.txt"


def text(content: str, uri: str = URI) -> TextResourceContents:
    return TextResourceContents(uri=uri, mime_type="text/plain", text=content)


def blob(data: bytes, mime_type: str = "application/octet-stream") -> BlobResourceContents:
    return BlobResourceContents(uri=URI, mime_type=mime_type, blob=base64.b64encode(data).decode())


def reading(*pages: Any) -> AsyncMock:
    """Return a session whose answers to `resources/read` are these, one after the other."""
    session = AsyncMock()
    session.read_resource.side_effect = [
        page if isinstance(page, Exception) else ReadResourceResult(contents=page) for page in pages
    ]
    return session


@pytest.mark.parametrize(("role", "kind"), ROLES)
def test_a_text_of_a_prompt_is_the_content_of_a_message(role: Role, kind: type) -> None:
    message = PromptMessage(role=role, content=TextContent(text="Hello"))
    made = convert_mcp_prompt_message_to_langchain_message(message)
    assert isinstance(made, kind)
    assert made.content == "Hello"


@pytest.mark.parametrize(("role", "kind"), ROLES)
@differs("Prompts with other content than text")
def test_a_picture_or_resource_of_a_prompt_is_a_block(role: Role, kind: type) -> None:
    picture = ImageContent(data=PIXEL, mime_type="image/png")
    page = EmbeddedResource(resource=text("hi"))
    for content, block in ((picture, "image"), (page, "text")):
        message = PromptMessage(role=role, content=content)
        made = convert_mcp_prompt_message_to_langchain_message(message)
        assert isinstance(made, kind)
        assert [one["type"] for one in cast("list[Any]", made.content)] == [block]


async def test_a_prompt_of_a_mocked_session_becomes_messages() -> None:
    session = AsyncMock()
    session.get_prompt.return_value = GetPromptResult(
        messages=[
            PromptMessage(role="user", content=TextContent(text="Hello")),
            PromptMessage(role="assistant", content=TextContent(text="Hi")),
        ]
    )
    first, second = await load_mcp_prompt(session, "greeting")
    assert (type(first), first.content) == (HumanMessage, "Hello")
    assert (type(second), second.content) == (AIMessage, "Hi")


def test_contents_of_a_resource_become_a_blob() -> None:
    made = convert_mcp_resource_to_langchain_blob(URI, text("Hello, world!"))
    assert isinstance(made, Blob)
    assert (made.data, made.mimetype) == ("Hello, world!", "text/plain")
    assert made.metadata["uri"] == URI
    made = convert_mcp_resource_to_langchain_blob(URI, blob(b"a picture", "image/png"))
    assert (made.data, made.mimetype, made.metadata["uri"]) == (b"a picture", "image/png", URI)


def test_contents_of_another_kind_are_a_value_error() -> None:
    with pytest.raises(ValueError, match=URI):
        convert_mcp_resource_to_langchain_blob(URI, cast("Any", ResourceContents(uri=URI)))


async def test_every_part_of_a_resource_becomes_a_blob() -> None:
    session = reading([text("one"), text("two")], [text("one"), blob(b"two")], [])
    assert [part.data for part in await get_mcp_resource(session, URI)] == ["one", "two"]
    mixed = await get_mcp_resource(session, URI)
    assert [(part.data, part.mimetype) for part in mixed] == [
        ("one", "text/plain"),
        (b"two", "application/octet-stream"),
    ]
    assert await get_mcp_resource(session, URI) == []
    assert session.read_resource.await_args_list == [call(URI)] * 3


async def test_resources_are_loaded_by_their_uris() -> None:
    session = reading([text("one")], [blob(b"two")])
    blobs = await load_mcp_resources(session, uris=["file:///1", "file:///2"])
    assert [(part.data, part.metadata["uri"]) for part in blobs] == [
        ("one", "file:///1"),
        (b"two", "file:///2"),
    ]
    session = reading([text("only")])
    (only,) = await load_mcp_resources(session, uris=URI)
    assert (only.data, only.metadata["uri"]) == ("only", URI)
    session.read_resource.assert_awaited_once_with(URI)


async def test_all_resources_that_are_listed_are_loaded() -> None:
    session = reading([text("one")], [text("two")])
    session.list_resources.return_value = ListResourcesResult(
        resources=[Resource(uri="file:///1", name="1"), Resource(uri="file:///2", name="2")]
    )
    assert [part.data for part in await load_mcp_resources(session)] == ["one", "two"]
    assert session.read_resource.await_count == 2


async def test_a_resource_that_cannot_be_read_is_a_runtime_error() -> None:
    session = reading([text("one")], Exception("gone"))
    with pytest.raises(RuntimeError, match="Error fetching resource"):
        await load_mcp_resources(session, uris=["file:///1", "file:///2"])


@pytest.fixture(scope="module")
def servers() -> Generator[dict[str, ServerProcess]]:
    with running(served("math"), served("weather")) as found:
        yield dict(zip(("math", "weather"), found, strict=True))


def http(server: ServerProcess) -> dict[str, Any]:
    return {"transport": "streamable_http", "url": server.url}


def nowhere() -> dict[str, Any]:
    return {"transport": "streamable_http", "url": f"http://127.0.0.1:{free_port()}/mcp"}


@differs("Information about a server")
async def test_a_connection_tells_about_its_server(servers: dict[str, ServerProcess]) -> None:
    for connection in (http(servers["math"]), stdio_entry("math")):
        info = await load_mcp_server_info(None, connection=connection)
        assert isinstance(info, ServerInfo)
        assert info.server_info is not None
        assert info.capabilities is not None
        assert (info.instructions, info.server_info.name) == ("Numbers only, please.", "Math")
        assert info.capabilities.tools is not None
        assert info.protocol_version
    info = await load_mcp_server_info(None, connection=http(servers["weather"]))
    assert (info.instructions, info.name) == (None, "Weather")


async def test_a_session_that_is_not_initialized_is_initialized_to_be_asked(
    servers: dict[str, ServerProcess],
) -> None:
    mocked = AsyncMock(spec=ClientSession)
    mocked.server_capabilities = None
    mocked.initialize.return_value = InitializeResult(
        protocol_version="2025-11-25",
        capabilities=ServerCapabilities(),
        server_info=Implementation(name="mocked", version="1"),
        instructions="Mocked.",
    )
    info = await load_mcp_server_info(mocked)
    mocked.initialize.assert_awaited_once_with()
    assert (info.name, info.instructions) == ("mocked", "Mocked.")
    client = MultiServerMCPClient({"math": http(servers["math"])})
    async with client, client.session("math", auto_initialize=False) as session:
        assert (await load_mcp_server_info(session)).name == "Math"
        assert "add" in [tool.name for tool in await load_mcp_tools(session)]


@differs("A session that is already initialized")
async def test_an_initialized_session_is_asked_without_a_second_handshake(
    servers: dict[str, ServerProcess],
) -> None:
    mocked = AsyncMock(spec=ClientSession)
    mocked.server_info = None
    await load_mcp_server_info(mocked)
    mocked.initialize.assert_not_awaited()
    client = MultiServerMCPClient({"math": http(servers["math"])})
    async with client, client.session("math") as session:
        assert (await load_mcp_server_info(session)).name == "Math"


async def test_without_a_session_and_a_connection_there_is_no_information() -> None:
    with pytest.raises(ValueError, match="a session or a connection"):
        await load_mcp_server_info(None)


async def test_callbacks_get_the_name_of_the_server_that_is_asked() -> None:
    contexts: list[CallbackContext] = []

    async def log(params: LoggingMessageNotificationParams, context: CallbackContext) -> None:
        contexts.append(context)

    callbacks = Callbacks(on_logging_message=log)
    connection = {**stdio_entry("math"), "protocol": "legacy"}
    info = await load_mcp_server_info(
        None, connection=connection, callbacks=callbacks, server_name="mine"
    )
    assert info.name == "Math"
    made = callbacks.to_mcp_format(context=CallbackContext(server_name="mine"))
    assert made.logging_callback is not None
    await made.logging_callback(LoggingMessageNotificationParams(level="info", data="hello"))
    assert [context.server_name for context in contexts] == ["mine"]


async def test_the_client_tells_about_all_its_servers_or_one(
    servers: dict[str, ServerProcess],
) -> None:
    connections = {name: http(server) for name, server in servers.items()}
    async with MultiServerMCPClient(connections) as client:
        infos = await client.get_server_info()
        assert {name: info.name for name, info in infos.items()} == {
            "math": "Math",
            "weather": "Weather",
        }
        assert infos["math"].instructions == "Numbers only, please."
        assert infos["weather"].instructions is None
    connections = {"math": http(servers["math"]), "gone": nowhere()}
    async with MultiServerMCPClient(connections) as client:
        assert list(await client.get_server_info(server_name="math")) == ["math"]
    assert await MultiServerMCPClient().get_server_info() == {}


@differs("Texts of errors")
async def test_a_server_that_is_unknown_or_gone_is_named(
    servers: dict[str, ServerProcess],
) -> None:
    connections = {"math": http(servers["math"]), "gone": nowhere()}
    async with MultiServerMCPClient(connections) as client:
        with pytest.raises(ValueError, match="nope"):
            await client.get_server_info(server_name="nope")
        with pytest.raises(RuntimeError, match=r"1 of 2 .*'gone'") as raised:
            await client.get_server_info()
    assert "math" not in str(raised.value)
