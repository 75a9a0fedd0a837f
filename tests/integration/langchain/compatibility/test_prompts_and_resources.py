"""Prompts, resources, and what servers say about themselves."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from typing import Any, cast
from unittest.mock import AsyncMock, call

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents.base import Blob
from langchain_core.messages import AIMessage, HumanMessage
from mcp import Client, ClientSession, types

from plait import (
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
    encoded = base64.b64encode(data).decode()
    return types.BlobResourceContents(uri=URI, mime_type=mime_type, blob=encoded)


def reading(*pages: Any) -> AsyncMock:
    """Return a session whose answers to `resources/read` are these, one after the other."""
    session = AsyncMock()
    session.read_resource.side_effect = [
        page if isinstance(page, Exception) else types.ReadResourceResult(contents=page)
        for page in pages
    ]
    return session


def listing(*cursors: str | None) -> AsyncMock:
    """Return a session that lists one resource a page, each with the cursor of the next."""
    session = reading(*([text("x")] for _ in cursors))
    session.list_resources.side_effect = [
        types.ListResourcesResult(
            resources=[types.Resource(uri=f"a://{number}", name="x")], next_cursor=after
        )
        for number, after in enumerate(cursors)
    ]
    return session


@pytest.mark.parametrize(
    ("content", "made"),
    [
        (types.TextContent(text="Hello"), "Hello"),
        (
            types.ImageContent(data="AAAA", mime_type="image/png"),
            {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
        ),
        (
            types.AudioContent(data="AAAA", mime_type="audio/wav"),
            {"type": "audio", "base64": "AAAA", "mime_type": "audio/wav"},
        ),
        (
            types.EmbeddedResource(resource=text("hi")),
            {"type": "text", "text": "hi", "extras": {"uri": URI, "mime_type": "text/plain"}},
        ),
        (
            types.ResourceLink(uri="a://b", name="b"),
            {"type": "text", "text": "Resource: a://b - b"},
        ),
    ],
)
@differs("Prompts with other content than text")
def test_a_message_of_a_prompt_has_a_text_or_a_block(content: Any, made: Any) -> None:
    for role, kind in ("assistant", AIMessage), ("user", HumanMessage):
        prompt = types.PromptMessage(role=cast("Any", role), content=content)
        message = convert_mcp_prompt_message_to_langchain_message(prompt)
        assert message == kind(made if isinstance(made, str) else [made])


async def test_a_prompt_becomes_messages(client: MultiServerMCPClient) -> None:
    topic = {"topic": "roots, powers"}
    assert await client.get_prompt("math", "tutor", arguments=topic) == LESSON
    (message,) = await client.get_prompt("math", "picture_of")
    picture = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
    assert message == HumanMessage(cast("Any", [picture]))
    async with Client(math_server()) as session:
        for opened in (session, session.session):
            assert await load_mcp_prompt(opened, "tutor", arguments=topic) == LESSON

    mocked = AsyncMock()
    said = types.PromptMessage(role="user", content=types.TextContent(text="Hello"))
    mocked.get_prompt.return_value = types.GetPromptResult(messages=[said])
    assert await load_mcp_prompt(mocked, "greeting") == [HumanMessage("Hello")]
    await load_mcp_prompt(mocked, "greeting", arguments={})
    # Arguments that are no text are sent as JSON.
    await load_mcp_prompt(mocked, "greeting", arguments={"a": 7, "b": {"c": True}, "d": "x"})
    sent = [None, {}, {"a": "7", "b": '{"c": true}', "d": "x"}]
    assert mocked.get_prompt.await_args_list == [call("greeting", one) for one in sent]


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
    for name, expected in (("math", blobs[:1]), ("weather", blobs[1:])):
        by_position = await client.get_resources(name)
        by_name = await client.get_resources(server_name=name)
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
    async with Client(weather_server()) as opened:
        for session in (opened, opened.session):
            every = await load_mcp_resources(session)
            one = await load_mcp_resources(session, uris="weather://map")
            (same,) = await get_mcp_resource(session, "weather://map")
            with pytest.raises(RuntimeError, match="weather://tomorrow"):
                await load_mcp_resources(session, uris=["weather://map", "weather://tomorrow"])
            assert set(contents_of(every)) == {"weather://today", "weather://map"}
            assert one[0].data == same.data == b"a map"
            assert await load_mcp_resources(session, uris=[]) == []


@given(st.text(), st.binary())
def test_contents_of_a_resource_become_a_blob(said: str, data: bytes) -> None:
    for contents, expected in ((text(said), said), (blob(data, "image/png"), data)):
        made = convert_mcp_resource_to_langchain_blob(URI, contents)
        assert (made.data, made.mimetype, made.metadata) == (
            expected,
            contents.mime_type,
            {"uri": URI},
        )


@pytest.mark.parametrize("odd", [None, {"uri": URI}, "x", types.ResourceContents(uri=URI)])
def test_contents_of_another_kind_are_refused(odd: Any) -> None:
    with pytest.raises(ValueError, match=f"unsupported contents of {URI}"):
        convert_mcp_resource_to_langchain_blob(URI, odd)


async def test_every_part_of_every_resource_that_is_asked_for_becomes_a_blob() -> None:
    session = reading([text("one"), blob(b"two")], [])
    parts = await get_mcp_resource(session, URI)
    assert [(part.data, part.mimetype) for part in parts] == [
        ("one", "text/plain"),
        (b"two", "application/octet-stream"),
    ]
    assert await get_mcp_resource(session, URI) == []

    session = reading([text("one")], [blob(b"two")], [text("only")])
    blobs = await load_mcp_resources(session, uris=["file:///1", "file:///2"])
    assert contents_of(blobs) == {"file:///1": "one", "file:///2": b"two"}
    assert contents_of(await load_mcp_resources(session, uris=URI)) == {URI: "only"}
    read = [call("file:///1"), call("file:///2"), call(URI)]
    assert session.read_resource.await_args_list == read


@pytest.mark.parametrize("damage", [Exception("gone"), ValueError])
async def test_a_resource_that_cannot_be_read_is_named(damage: Any) -> None:
    broken = types.BlobResourceContents(uri="file:///2", blob="A")
    session = reading([text("one")], damage if isinstance(damage, Exception) else [broken])
    with pytest.raises(RuntimeError, match=r"^Error fetching resource file:///2$") as raised:
        await load_mcp_resources(session, uris=["file:///1", "file:///2"])
    assert raised.value.__cause__ is damage or isinstance(raised.value.__cause__, ValueError)


@pytest.mark.parametrize("last", [None, "2"], ids=["all pages", "a cursor that comes again"])
async def test_every_page_of_resources_is_loaded_once(last: str | None) -> None:
    session = listing("2", "3", last)

    blobs = await load_mcp_resources(session)

    asked = [one.kwargs["cursor"] for one in session.list_resources.await_args_list]
    assert asked == [None, "2", "3"]
    assert list(contents_of(blobs)) == ["a://0", "a://1", "a://2"]


async def test_all_servers_say_who_they_are(client: MultiServerMCPClient) -> None:
    info = await client.get_server_info()
    assert {name: one.name for name, one in info.items()} == {"math": "Math", "weather": "Weather"}
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
    async def log(*message: Any) -> None:
        raise AssertionError(message)  # nothing is logged here

    connection = {**stdio_entry("math"), "protocol": "legacy"}
    if kind == "http":
        connection = {"url": servers["math"].url}
    callbacks = Callbacks(on_logging_message=cast("Any", log))
    info = await load_mcp_server_info(
        None, connection=connection, callbacks=callbacks, server_name="mine"
    )
    assert isinstance(info, ServerInfo)
    assert info.server_info is not None
    assert (info.instructions, info.server_info.name) == ("Numbers only, please.", "Math")
    assert info.capabilities is not None
    assert info.capabilities.tools is not None
    assert info.protocol_version


INITIALIZED = types.InitializeResult(
    protocol_version="2025-11-25",
    capabilities=types.ServerCapabilities(),
    server_info=types.Implementation(name="mocked", version="1"),
    instructions="Mocked.",
)


@differs("A session that is already initialized")
async def test_a_session_is_initialized_once_to_learn_who_is_there() -> None:
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


@pytest.mark.parametrize("mocked", [AsyncMock(), AsyncMock(spec=ClientSession)])
async def test_a_mocked_session_says_who_is_there_when_it_is_initialized(mocked: Any) -> None:
    mocked.initialize.return_value = INITIALIZED

    info = await load_mcp_server_info(mocked)

    mocked.initialize.assert_awaited_once_with()
    assert (info.name, info.instructions) == ("mocked", "Mocked.")
    mocked.server_capabilities = types.ServerCapabilities()
    mocked.server_info = None
    await load_mcp_server_info(mocked)
    mocked.initialize.assert_awaited_once_with()
