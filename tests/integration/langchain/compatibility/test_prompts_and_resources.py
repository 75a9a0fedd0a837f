"""Prompts, resources, and what servers say about themselves."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from typing import Any, Literal, cast
from unittest.mock import AsyncMock, call

import pytest
from langchain_core.documents.base import Blob
from langchain_core.messages import AIMessage, HumanMessage
from mcp import Client, ClientSession, types

from plait import (
    CallbackContext,
    Callbacks,
    MultiServerMCPClient,
    PlaitError,
    ResourceNotFoundError,
    convert_mcp_prompt_message_to_langchain_message,
    convert_mcp_resource_to_langchain_blob,
    get_mcp_resource,
    load_mcp_prompt,
    load_mcp_resources,
    load_mcp_server_info,
    load_mcp_tools,
)
from plait.client import ServerInfo
from plait.testing import ServerProcess
from tests.integration.langchain.compatibility.common import differs, nowhere
from tests.servers.langchain_servers import PIXEL, math_server, stdio_entry, weather_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Role = Literal["assistant", "user"]
URI = "file:///a.txt"
LESSON = [AIMessage("Let us look at roots, powers."), HumanMessage("Slowly, please.")]


@pytest.fixture
async def client() -> AsyncGenerator[MultiServerMCPClient]:
    servers = {"math": math_server(), "weather": weather_server()}
    async with MultiServerMCPClient(servers) as opened:
        yield opened


def contents_of(blobs: list[Blob]) -> dict[str, Any]:
    return {(blob.metadata or {})["uri"]: blob.data for blob in blobs}


def text(content: str) -> types.TextResourceContents:
    return types.TextResourceContents(uri=URI, mime_type="text/plain", text=content)


def blob(data: bytes, mime_type: str = "application/octet-stream") -> types.BlobResourceContents:
    return types.BlobResourceContents(
        uri=URI, mime_type=mime_type, blob=base64.b64encode(data).decode()
    )


def reading(*pages: Any) -> AsyncMock:
    """Return a session whose answers to `resources/read` are these, one after the other."""
    session = AsyncMock()
    session.read_resource.side_effect = [
        page if isinstance(page, Exception) else types.ReadResourceResult(contents=page)
        for page in pages
    ]
    return session


@pytest.mark.parametrize(("role", "kind"), [("assistant", AIMessage), ("user", HumanMessage)])
@differs("Prompts with other content than text")
def test_a_message_of_a_prompt_has_a_text_or_blocks(role: Role, kind: type) -> None:
    for content, made in (
        (types.TextContent(text="Hello"), "Hello"),
        (types.ImageContent(data=PIXEL, mime_type="image/png"), ["image"]),
        (types.EmbeddedResource(resource=text("hi")), ["text"]),
    ):
        given = types.PromptMessage(role=role, content=content)
        message = convert_mcp_prompt_message_to_langchain_message(given)
        assert isinstance(message, kind)
        blocks = cast("Any", message.content)
        assert made == (blocks if isinstance(made, str) else [block["type"] for block in blocks])


async def test_a_prompt_becomes_messages(client: MultiServerMCPClient) -> None:
    topic = {"topic": "roots, powers"}
    assert await client.get_prompt("math", "tutor", arguments=topic) == LESSON
    async with Client(math_server()) as session:
        for opened in (session, session.session):
            assert await load_mcp_prompt(opened, "tutor", arguments=topic) == LESSON

    mocked = AsyncMock()
    mocked.get_prompt.return_value = types.GetPromptResult(
        messages=[
            types.PromptMessage(role="user", content=types.TextContent(text="Hello")),
            types.PromptMessage(role="assistant", content=types.TextContent(text="Hi")),
        ]
    )
    assert await load_mcp_prompt(mocked, "greeting") == [HumanMessage("Hello"), AIMessage("Hi")]


async def test_a_picture_in_a_prompt_becomes_a_block(client: MultiServerMCPClient) -> None:
    (message,) = await client.get_prompt("math", "picture_of")
    assert isinstance(message, HumanMessage)
    assert message.content_blocks == [{"type": "image", "base64": PIXEL, "mime_type": "image/png"}]


async def test_what_does_not_exist_is_an_error(client: MultiServerMCPClient) -> None:
    with pytest.raises(PlaitError):
        await client.get_prompt("math", "nonsense")
    with pytest.raises(ResourceNotFoundError):
        await client.get_resources("weather", uris="weather://tomorrow")


async def test_the_resources_of_all_servers_or_of_one_are_read(
    client: MultiServerMCPClient,
) -> None:
    blobs = await client.get_resources()
    assert all(isinstance(blob, Blob) for blob in blobs)
    assert contents_of(blobs) == {
        "math://formulas": "a² + b² = c²",
        "weather://today": "Drizzle, later rain",
        "weather://map": b"a map",
    }
    assert [blob.mimetype for blob in blobs] == ["text/plain", "text/plain", "image/png"]
    of_math, of_weather = blobs[:1], blobs[1:]
    for given, expected in (("math", of_math), ("weather", of_weather)):
        by_position = await client.get_resources(given)
        by_name = await client.get_resources(server_name=given)
        assert contents_of(by_position) == contents_of(by_name) == contents_of(expected)

    one = await client.get_resources("weather", uris="weather://today")
    two = await client.get_resources("weather", uris=["weather://map", "weather://today"])
    assert contents_of(one) == {"weather://today": "Drizzle, later rain"}
    assert list(contents_of(two)) == ["weather://map", "weather://today"]
    assert await client.get_resources("weather", uris=[]) == []


async def test_the_resources_of_a_program_are_read() -> None:
    connections = {"math": stdio_entry("math"), "weather": stdio_entry("weather")}
    async with MultiServerMCPClient(connections) as client:
        data = contents_of(await client.get_resources())
    assert (data["math://formulas"], data["weather://map"]) == ("a² + b² = c²", b"a map")


async def test_the_resources_of_a_session_are_read() -> None:
    async with Client(weather_server()) as session:
        every = await load_mcp_resources(session)
        lower = await load_mcp_resources(session.session)
        one = await load_mcp_resources(session, uris="weather://map")
        (same,) = await get_mcp_resource(session, "weather://map")
        with pytest.raises(RuntimeError, match="weather://tomorrow"):
            await load_mcp_resources(session, uris=["weather://map", "weather://tomorrow"])

    assert set(contents_of(every)) == {"weather://today", "weather://map"}
    assert contents_of(lower) == contents_of(every)
    assert one[0].data == same.data == b"a map"


def test_contents_of_a_resource_become_a_blob() -> None:
    for contents, data in (
        (text("Hello"), "Hello"),
        (blob(b"a picture", "image/png"), b"a picture"),
    ):
        made = convert_mcp_resource_to_langchain_blob(URI, contents)
        assert isinstance(made, Blob)
        assert (made.data, made.mimetype, made.metadata["uri"]) == (data, contents.mime_type, URI)
    with pytest.raises(ValueError, match=URI):
        convert_mcp_resource_to_langchain_blob(URI, cast("Any", types.ResourceContents(uri=URI)))


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


async def test_resources_of_a_mocked_session_are_loaded_by_their_uris_or_all() -> None:
    session = reading([text("one")], [blob(b"two")], [text("only")])
    blobs = await load_mcp_resources(session, uris=["file:///1", "file:///2"])
    assert contents_of(blobs) == {"file:///1": "one", "file:///2": b"two"}
    assert contents_of(await load_mcp_resources(session, uris=URI)) == {URI: "only"}
    assert session.read_resource.await_args_list == [
        call("file:///1"),
        call("file:///2"),
        call(URI),
    ]

    session = reading([text("one")], [text("two")])
    session.list_resources.return_value = types.ListResourcesResult(
        resources=[
            types.Resource(uri="file:///1", name="1"),
            types.Resource(uri="file:///2", name="2"),
        ]
    )
    assert [part.data for part in await load_mcp_resources(session)] == ["one", "two"]
    assert session.read_resource.await_count == 2

    session = reading([text("one")], Exception("gone"))
    with pytest.raises(RuntimeError, match="Error fetching resource"):
        await load_mcp_resources(session, uris=["file:///1", "file:///2"])


async def test_all_servers_say_who_they_are(client: MultiServerMCPClient) -> None:
    info = await client.get_server_info()
    assert list(info) == ["math", "weather"]
    assert [info["math"].name, info["weather"].name] == ["Math", "Weather"]
    assert info["math"].instructions == "Numbers only, please."
    assert info["weather"].instructions is None
    assert info["math"].server_info is not None
    assert info["math"].server_info.version == "1.2.0"


@differs("Texts of errors")
async def test_only_the_server_that_is_named_is_asked_and_one_that_fails_is_named() -> None:
    servers = {"math": math_server(), "dead": nowhere()}
    async with MultiServerMCPClient(servers) as client:
        info = await client.get_server_info(server_name="math")
        assert list(info) == ["math"]
        assert not client.status().failures
        with pytest.raises(RuntimeError, match=r"1 of 2 .*'dead'") as raised:
            await client.get_server_info()
        assert isinstance(raised.value, PlaitError)
        assert raised.value.server == "dead"
        assert "math" not in str(raised.value)


@pytest.mark.parametrize("kind", ["http", "stdio"])
@differs("Information about a server")
async def test_a_connection_says_who_is_there(kind: str, servers: dict[str, ServerProcess]) -> None:
    connection = stdio_entry("math") if kind == "stdio" else {"url": servers["math"].url}
    info = await load_mcp_server_info(None, connection=connection)
    assert isinstance(info, ServerInfo)
    assert info.server_info is not None
    assert (info.instructions, info.server_info.name) == ("Numbers only, please.", "Math")
    assert info.capabilities is not None
    assert info.capabilities.tools is not None
    assert info.protocol_version


@differs("A session that is already initialized")
async def test_a_session_is_initialized_once_to_learn_who_is_there(
    servers: dict[str, ServerProcess],
) -> None:
    client = MultiServerMCPClient({"math": stdio_entry("math")})
    async with client, client.session("math", auto_initialize=False) as session:
        info = await load_mcp_server_info(session)
        assert info.name == "Math"
        # It can be used now, and asking again costs nothing.
        assert len(await load_mcp_tools(session)) == 6
        assert await load_mcp_server_info(session) == info
    async with Client(weather_server()) as session:
        info = await load_mcp_server_info(session)
        assert (info.name, info.instructions) == ("Weather", None)

    mocked = AsyncMock(spec=ClientSession)
    mocked.server_capabilities = None
    mocked.initialize.return_value = types.InitializeResult(
        protocol_version="2025-11-25",
        capabilities=types.ServerCapabilities(),
        server_info=types.Implementation(name="mocked", version="1"),
        instructions="Mocked.",
    )
    info = await load_mcp_server_info(mocked)
    mocked.initialize.assert_awaited_once_with()
    assert (info.name, info.instructions) == ("mocked", "Mocked.")
    initialized = AsyncMock(spec=ClientSession)
    initialized.server_info = None
    await load_mcp_server_info(initialized)
    initialized.initialize.assert_not_awaited()


async def test_callbacks_are_accepted_where_a_server_is_asked_who_it_is() -> None:
    contexts: list[CallbackContext] = []

    async def log(params: types.LoggingMessageNotificationParams, context: CallbackContext) -> None:
        contexts.append(context)

    callbacks = Callbacks(on_logging_message=log)
    for connection, name in (
        ({**stdio_entry("math"), "protocol": "legacy"}, "Math"),
        ({"server": weather_server()}, "Weather"),
    ):
        info = await load_mcp_server_info(
            None, connection=connection, callbacks=callbacks, server_name="mine"
        )
        assert info.name == name
    assert contexts == []  # nothing is logged here
