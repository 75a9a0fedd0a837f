"""Prompts, resources, and what servers say about themselves."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from langchain_core.documents.base import Blob
from langchain_core.messages import AIMessage, HumanMessage
from mcp import Client
from mcp.types import LoggingMessageNotificationParams

from plait import (
    CallbackContext,
    Callbacks,
    MultiServerMCPClient,
    PlaitError,
    ResourceNotFoundError,
    get_mcp_resource,
    load_mcp_prompt,
    load_mcp_resources,
    load_mcp_server_info,
    load_mcp_tools,
)
from plait.testing import free_port
from tests.servers.langchain_servers import PIXEL, math_server, stdio_entry, weather_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture
async def client() -> AsyncGenerator[MultiServerMCPClient]:
    servers = {"math": math_server(), "weather": weather_server()}
    async with MultiServerMCPClient(servers) as opened:
        yield opened


def contents_of(blobs: list[Blob]) -> dict[str, Any]:
    return {(blob.metadata or {})["uri"]: blob.data for blob in blobs}


def nowhere() -> dict[str, Any]:
    return {"transport": "http", "url": f"http://127.0.0.1:{free_port()}/mcp"}


async def test_a_prompt_becomes_messages(client: MultiServerMCPClient) -> None:
    messages = await client.get_prompt("math", "tutor", arguments={"topic": "primes"})
    assert messages == [AIMessage("Let us look at primes."), HumanMessage("Slowly, please.")]


async def test_a_prompt_of_a_session_becomes_messages() -> None:
    async with Client(math_server()) as session:
        messages = await load_mcp_prompt(session, "tutor", arguments={"topic": "primes"})
        assert [message.type for message in messages] == ["ai", "human"]
        same = await load_mcp_prompt(session.session, "tutor", arguments={"topic": "primes"})
        assert same == messages


async def test_a_picture_in_a_prompt_becomes_a_block(client: MultiServerMCPClient) -> None:
    (message,) = await client.get_prompt("math", "picture_of")
    assert isinstance(message, HumanMessage)
    assert message.content_blocks == [{"type": "image", "base64": PIXEL, "mime_type": "image/png"}]


async def test_a_prompt_that_does_not_exist_is_an_error(client: MultiServerMCPClient) -> None:
    with pytest.raises(PlaitError):
        await client.get_prompt("math", "nonsense")


async def test_the_resources_of_all_servers_are_read(client: MultiServerMCPClient) -> None:
    blobs = await client.get_resources()
    assert all(isinstance(blob, Blob) for blob in blobs)
    assert contents_of(blobs) == {
        "math://formulas": "a² + b² = c²",
        "weather://today": "Drizzle, later rain",
        "weather://map": b"a map",
    }
    assert [blob.mimetype for blob in blobs] == ["text/plain", "text/plain", "image/png"]


async def test_the_resources_of_one_server_are_read(client: MultiServerMCPClient) -> None:
    by_position = await client.get_resources("math")
    by_name = await client.get_resources(server_name="weather")
    assert set(contents_of(by_position)) == {"math://formulas"}
    assert set(contents_of(by_name)) == {"weather://today", "weather://map"}


async def test_the_resources_that_are_named_are_read(client: MultiServerMCPClient) -> None:
    one = await client.get_resources("weather", uris="weather://today")
    two = await client.get_resources("weather", uris=["weather://map", "weather://today"])
    none = await client.get_resources("weather", uris=[])
    assert list(contents_of(one)) == ["weather://today"]
    assert list(contents_of(two)) == ["weather://map", "weather://today"]
    assert none == []


async def test_a_resource_that_does_not_exist_is_an_error(client: MultiServerMCPClient) -> None:
    with pytest.raises(ResourceNotFoundError):
        await client.get_resources("weather", uris="weather://tomorrow")


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


async def test_all_servers_say_who_they_are(client: MultiServerMCPClient) -> None:
    info = await client.get_server_info()
    assert list(info) == ["math", "weather"]
    assert info["math"].instructions == "Numbers only, please."
    assert info["weather"].instructions is None
    assert info["math"].server_info is not None
    assert (info["math"].server_info.name, info["math"].server_info.version) == ("Math", "1.2.0")
    assert info["math"].capabilities is not None
    assert info["math"].capabilities.tools is not None
    assert info["math"].protocol_version


async def test_only_the_server_that_is_named_is_asked() -> None:
    servers = {"math": math_server(), "dead": nowhere()}
    async with MultiServerMCPClient(servers) as client:
        info = await client.get_server_info(server_name="math")
        assert list(info) == ["math"]
        assert not client.status().failures


async def test_an_unknown_server_is_a_value_error(client: MultiServerMCPClient) -> None:
    with pytest.raises(ValueError, match="'nope'"):
        await client.get_server_info(server_name="nope")


async def test_a_client_without_servers_knows_none() -> None:
    async with MultiServerMCPClient() as client:
        assert await client.get_server_info() == {}


async def test_a_server_that_fails_is_named_and_the_others_are_not_blamed() -> None:
    servers = {"math": math_server(), "dead": nowhere()}
    async with MultiServerMCPClient(servers) as client:
        with pytest.raises(RuntimeError, match="dead") as raised:
            await client.get_server_info()
        assert isinstance(raised.value, PlaitError)
        assert raised.value.server == "dead"
        assert "math" not in str(raised.value)


async def test_a_connection_says_who_is_there() -> None:
    facts = await load_mcp_server_info(None, connection=stdio_entry("math"))
    assert facts.server_info is not None
    assert facts.server_info.name == "Math"
    assert facts.instructions == "Numbers only, please."
    assert facts.capabilities is not None
    assert facts.capabilities.tools is not None


async def test_a_session_of_the_user_is_initialized_to_learn_who_is_there() -> None:
    client = MultiServerMCPClient({"math": stdio_entry("math")})
    async with client, client.session("math", auto_initialize=False) as session:
        facts = await load_mcp_server_info(session)
        assert facts.server_info is not None
        assert facts.server_info.name == "Math"
        # It can be used now, and asking again costs nothing.
        assert len(await load_mcp_tools(session)) == 6
        assert await load_mcp_server_info(session) == facts


async def test_an_open_client_says_who_is_there() -> None:
    async with Client(weather_server()) as session:
        facts = await load_mcp_server_info(session)
        assert facts.server_info is not None
        assert facts.server_info.name == "Weather"
        assert facts.instructions is None


async def test_without_a_session_or_a_connection_nobody_is_there() -> None:
    with pytest.raises(ValueError, match="session or a connection"):
        await load_mcp_server_info(None)


async def test_callbacks_are_accepted_where_servers_are_asked_who_they_are() -> None:
    async def log(params: LoggingMessageNotificationParams, context: CallbackContext) -> None:
        raise AssertionError("nothing is logged here")

    facts = await load_mcp_server_info(
        None,
        connection={"server": weather_server()},
        callbacks=Callbacks(on_logging_message=log),
        server_name="weather",
    )
    assert facts.server_info is not None
    assert facts.server_info.name == "Weather"
