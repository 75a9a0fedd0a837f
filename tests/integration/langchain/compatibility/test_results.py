"""Results and failures: the content and the artifact of messages, and what is raised."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from langchain_core.tools import ToolException
from mcp import Client, ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, ImageContent, TextContent, Tool

from plait import (
    MCPToolArtifact,
    MultiServerMCPClient,
    ToolFailedError,
    convert_mcp_tool_to_langchain_tool,
    load_mcp_tools,
)
from plait.langchain import ToolFailedException
from plait.testing import ServerProcess
from tests.integration.langchain.compatibility.common import (
    Json,
    by_name,
    differs,
    message_of,
    nowhere,
    tools_of,
)
from tests.servers.langchain_servers import PIXEL, math_server, weather_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ONE = {"type": "text", "text": "one"}
IMAGE = {"type": "image", "base64": PIXEL, "mime_type": "image/jpeg"}
DIVIDE = Tool(name="divide", input_schema={"type": "object"})
EMPTY = "MCP tool returned an error with empty content."
PICTURE = {**IMAGE, "mime_type": "image/png"}
AUDIO = {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"}


@pytest.fixture
async def client(servers: dict[str, ServerProcess]) -> AsyncGenerator[MultiServerMCPClient]:
    async with MultiServerMCPClient({"desk": {"url": servers["desk"].url}}) as client:
        yield client


@pytest.mark.parametrize(
    ("arguments", "content", "in_artifact"),
    [
        ({"what": "nothing"}, "The tool returned nothing.", []),
        ({"what": "text"}, "one", []),
        ({"what": "text", "data": True}, "one", []),
        ({"what": "texts"}, [ONE, {"type": "text", "text": "two"}], []),
        ({"what": "picture"}, [IMAGE], []),
        (
            {"what": "picture", "data": True},
            [IMAGE, {"type": "text", "text": '{"shown": "picture"}'}],
            [],
        ),
        ({"what": "sound"}, "[audio/wav, 9 B, not shown]", [AUDIO]),
        ({"what": "sound", "fails": True}, "[audio/wav, 9 B, not shown]", [AUDIO]),
    ],
)
@differs(
    *("A result without content", "Content of a single text", "Ids of content blocks"),
    *("Artifact", "Structured content without text", "Audio"),
)
async def test_content_is_a_text_or_blocks_and_the_rest_is_in_the_artifact(
    arguments: Json, content: Any, in_artifact: list[Json], client: MultiServerMCPClient
) -> None:
    message = await message_of((await tools_of(client))["show"], **arguments)
    assert message.content == content
    assert message.status == ("error" if "fails" in arguments else "success")
    if isinstance(content, str):
        assert message.content_blocks == [{"type": "text", "text": content}]
    structured = {"shown": arguments["what"]} if "data" in arguments else None
    assert message.artifact["structured_content"] == structured
    assert message.artifact["content"] == in_artifact
    assert message.artifact.keys() == MCPToolArtifact.__required_keys__
    assert (message.artifact["server"], message.artifact["tool"]) == ("desk", "show")


async def test_structured_content_over_a_session_is_in_the_artifact() -> None:
    async with Client(math_server()) as client:
        tools = by_name(await load_mcp_tools(client, server_name="math"))
        message = await message_of(tools["root"], square=9)

    assert message.status == "success"
    assert message.artifact["structured_content"] == {"value": 3.0, "exact": True}
    assert (message.artifact["server"], message.artifact["tool"]) == ("math", "root")


@pytest.mark.parametrize(
    ("what", "uri"),
    [
        ("link", "file:///form.pdf"),
        ("link to a text", "file:///a.txt"),
        ("link to anything", "file:///any"),
        ("link to a picture on a disk", "file:///p.jpg"),
        ("link to a picture", "https://example.com/p.png"),
    ],
)
@differs("Links to resources")
async def test_a_link_is_a_text_and_stays_in_the_artifact(
    what: str, uri: str, client: MultiServerMCPClient
) -> None:
    message = await message_of((await tools_of(client))["show"], what=what)
    assert isinstance(message.content, str)
    assert uri in message.content
    assert [block["uri"] for block in message.artifact["content"]] == [uri]


@pytest.mark.parametrize(
    ("what", "kind", "data"),
    [
        ("page", "text", {"text": "hello"}),
        ("photo", "image", {"base64": PIXEL, "mime_type": "image/png"}),
        ("form", "file", {"base64": PIXEL, "mime_type": "application/pdf"}),
    ],
)
@differs("Embedded resources")
async def test_an_embedded_resource_is_content_where_that_is_asked_for(
    what: str, kind: str, data: Json, client: MultiServerMCPClient, servers: Json
) -> None:
    message = await message_of((await tools_of(client))["show"], what=what)
    assert f"desk://{what}" in message.text
    assert message.artifact["content"][0]["resource"]["uri"] == f"desk://{what}"
    connections = {"desk": {"url": servers["desk"].url}}
    handling: Any = {"resource": "content"}
    async with MultiServerMCPClient(connections, output_handling=handling) as other:
        message = await message_of((await tools_of(other))["show"], what=what)
    line, block = message.content_blocks
    assert f"desk://{what}" in str(line)
    assert block["type"] == kind
    assert block.items() >= data.items()


@pytest.mark.parametrize(
    ("name", "arguments", "blocks"),
    [
        ("divide", {"a": 1, "b": 0}, [{"type": "text", "text": "b must not be 0"}]),
        ("give_up", {"how": "silently"}, [{"type": "text", "text": EMPTY}]),
        ("give_up", {"how": "with a picture only"}, [PICTURE]),
        (
            *("give_up", {"how": "with a picture"}),
            [{"type": "text", "text": "cannot draw"}, PICTURE],
        ),
    ],
)
async def test_a_failure_is_a_message_that_the_model_reads_or_is_raised(
    name: str, arguments: Json, blocks: list[Json]
) -> None:
    async with Client(math_server()) as client:
        tool = by_name(await load_mcp_tools(client))[name]
        message = await message_of(tool, **arguments)
        raising = by_name(await load_mcp_tools(client, handle_tool_errors=False))
        text = blocks[0].get("text")
        with pytest.raises(ToolException, match=text) as raised:
            await message_of(raising[name], **arguments)
        assert await raising["divide"].ainvoke({"a": 1, "b": 2}) == "0.5"

    assert (message.status, message.tool_call_id) == ("error", "c1")
    assert message.content_blocks == blocks
    if text and len(blocks) == 1:
        assert message.content == text
    assert message.artifact["tool"] == name
    assert isinstance(raised.value, ToolFailedError)


@pytest.mark.parametrize("server_name", [None, "math"], ids=["all servers", "one server"])
async def test_the_client_passes_on_how_failures_are_handled(server_name: str | None) -> None:
    servers = {"math": math_server(), "weather": weather_server()}
    async with MultiServerMCPClient(servers, handle_tool_errors=False) as client:
        tools = await tools_of(client, server_name)
        with pytest.raises(ToolException, match="b must not be 0"):
            await tools["divide"].ainvoke({"a": 1, "b": 0})
        with pytest.raises(ToolException, match="empty content"):
            await tools["give_up"].ainvoke({"how": "silently"})
    async with MultiServerMCPClient(servers) as client:
        divide = (await tools_of(client, server_name))["divide"]
        assert (await message_of(divide, a=1, b=0)).status == "error"


async def test_a_failure_of_a_tool_of_a_connection_or_of_one_that_was_converted_is_raised(
    servers: dict[str, ServerProcess],
) -> None:
    connection = {"url": servers["math"].url}
    loaded = await load_mcp_tools(None, connection=connection, handle_tool_errors=False)
    async with Client(math_server()) as client:
        converted = convert_mcp_tool_to_langchain_tool(client, DIVIDE, handle_tool_errors=False)
        for divide in (by_name(loaded)["divide"], converted):
            with pytest.raises(ToolException, match="b must not be 0"):
                await divide.ainvoke({"a": 1, "b": 0})


async def test_a_tool_handles_its_failures_as_langchain_says() -> None:
    async with MultiServerMCPClient({"math": math_server()}) as client:
        divide: Any = (await tools_of(client))["divide"]
        by_zero = {"a": 1, "b": 0}

        divide.handle_tool_error = "Try something else."
        assert (await message_of(divide, **by_zero)).content == "Try something else."
        divide.handle_tool_error = lambda error: f"handled: {error}"
        message = await message_of(divide, **by_zero)
        assert (message.content, message.status) == ("handled: b must not be 0", "error")
        divide.handle_tool_error = True
        assert (await message_of(divide, **by_zero)).content == "b must not be 0"
        assert await divide.ainvoke(by_zero) == "b must not be 0"
        divide.handle_tool_error = False
        with pytest.raises(ToolFailedException, match="b must not be 0") as raised:
            await message_of(divide, **by_zero)
        assert (raised.value.server, raised.value.tool) == ("math", "divide")
        with pytest.raises(ToolException, match="b must not be 0"):
            await asyncio.to_thread(divide.invoke, by_zero)
        divide.handle_tool_error = None
        assert (await message_of(divide, **by_zero)).artifact["tool"] == "divide"
        assert await divide.ainvoke({"a": 1, "b": 2}) == "0.5"


@differs("Connection lost, timeout, HTTP error during a call")
async def test_failures_over_a_mocked_session_are_messages_or_raised() -> None:
    content: list[Any] = [TextContent(text="no, not today")]
    content.append(ImageContent(data=PIXEL, mime_type="image/png"))
    refusal = CallToolResult(content=content, is_error=True)
    for answer, kinds in (refusal, ["text", "image"]), (httpx.ConnectError("not today"), ["text"]):
        session = AsyncMock()
        session.call_tool.side_effect = [answer, answer]
        message = await message_of(convert_mcp_tool_to_langchain_tool(session, DIVIDE))
        assert message.status == "error"
        assert "not today" in message.text
        assert [block["type"] for block in message.content_blocks] == kinds
        raising = convert_mcp_tool_to_langchain_tool(session, DIVIDE, handle_tool_errors=False)
        with pytest.raises(Exception, match="not today") as raised:
            await raising.ainvoke({})
        if answer is refusal:
            assert isinstance(raised.value, ToolException)
        else:
            assert raised.value.__cause__ is answer


async def test_a_server_that_is_gone_is_told_to_the_model() -> None:
    nobody = {**nowhere(), "reconnect": {"max_attempts": 1}}
    tool = convert_mcp_tool_to_langchain_tool(None, DIVIDE, connection=nobody, server_name="math")
    message = await message_of(tool)
    assert message.status == "error"
    assert "math" in message.content
    assert message.artifact["error"]["client"] == "math"
    assert message.artifact["structured_content"] is None


async def test_a_session_that_has_ended_is_told_to_the_model(
    servers: dict[str, ServerProcess],
) -> None:
    async with (
        streamable_http_client(servers["math"].url) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        (add, *_) = await load_mcp_tools(session)
    message = await message_of(add, a=1, b=1)
    assert message.status == "error"
    assert message.content
