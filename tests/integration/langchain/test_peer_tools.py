"""What the suite of `langchain-mcp-adapters` checks of tools and results; see `test_peer_suite`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from types import SimpleNamespace
from typing import Annotated, Any, cast
from unittest.mock import AsyncMock

import httpx
import pytest
from langchain_core.callbacks import CallbackManagerForToolRun
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, ToolException, tool
from mcp import Client
from mcp.server import MCPServer
from mcp.types import CallToolResult, ImageContent, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel

from plait import (
    MultiServerMCPClient,
    convert_mcp_tool_to_langchain_tool,
    load_mcp_tools,
    to_fastmcp,
)
from plait.testing import ServerProcess, running
from tests.integration.langchain.peer import differs
from tests.servers.langchain_servers import PIXEL, served, stdio_entry

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Json = dict[str, Any]
SCHEMA: Json = {
    "properties": {
        "param1": {"title": "Param1", "type": "string"},
        "param2": {"title": "Param2", "type": "integer"},
    },
    "required": ["param1", "param2"],
    "title": "ToolSchema",
    "type": "object",
}
EMPTY: Json = {"properties": {}, "required": [], "title": "Empty", "type": "object"}
IMAGE = {"type": "image", "base64": PIXEL, "mime_type": "image/jpeg"}


@pytest.fixture(scope="module")
def desk() -> Generator[ServerProcess]:
    with running(served("desk")) as (server,):
        yield server


@pytest.fixture
async def client(desk: ServerProcess) -> AsyncGenerator[MultiServerMCPClient]:
    connection = {"transport": "streamable_http", "url": desk.url}
    async with MultiServerMCPClient({"desk": connection}) as client:
        yield client


async def shown(client: MultiServerMCPClient, what: str, **more: Any) -> ToolMessage:
    show = next(tool for tool in await client.get_tools() if tool.name == "show")
    call = {"type": "tool_call", "id": "1", "name": "show", "args": {"what": what, **more}}
    return await show.ainvoke(call)


@differs("A result without content")
async def test_a_result_without_content_is_not_empty(client: MultiServerMCPClient) -> None:
    message = await shown(client, "nothing")
    assert (message.content, message.status) == ("The tool returned nothing.", "success")


@differs("Content of a single text")
async def test_one_text_is_a_string(client: MultiServerMCPClient) -> None:
    message = await shown(client, "text")
    assert message.content == "one"
    assert message.content_blocks == [{"type": "text", "text": "one"}]


@differs("Ids of content blocks")
async def test_several_texts_are_blocks_in_their_order(client: MultiServerMCPClient) -> None:
    message = await shown(client, "texts")
    assert message.content == [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]


async def test_a_picture_is_an_image_block(client: MultiServerMCPClient) -> None:
    assert (await shown(client, "picture")).content == [IMAGE]


@differs("Artifact")
async def test_structured_content_is_in_the_artifact(client: MultiServerMCPClient) -> None:
    message = await shown(client, "text", data=True)
    assert message.artifact["structured_content"] == {"shown": "text"}
    assert message.content == "one"
    artifact = (await shown(client, "text")).artifact
    assert set(artifact) >= {"structured_content", "content", "_meta", "server", "tool"}
    assert artifact["structured_content"] is None


@differs("Structured content without text")
async def test_the_model_reads_structured_content_that_no_text_repeats(
    client: MultiServerMCPClient,
) -> None:
    message = await shown(client, "picture", data=True)
    assert message.artifact["structured_content"] == {"shown": "picture"}
    assert message.content == [IMAGE, {"type": "text", "text": '{"shown": "picture"}'}]


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
    message = await shown(client, what)
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
    what: str, kind: str, data: Json, client: MultiServerMCPClient, desk: ServerProcess
) -> None:
    message = await shown(client, what)
    assert f"desk://{what}" in message.text
    assert message.artifact["content"][0]["resource"]["uri"] == f"desk://{what}"
    connections = {"desk": {"url": desk.url}}
    handling: Any = {"resource": "content"}
    async with MultiServerMCPClient(connections, output_handling=handling) as other:
        blocks = (await shown(other, what)).content_blocks
    assert f"desk://{what}" in str(blocks[0])  # a line before the contents
    assert blocks[1]["type"] == kind
    assert {name: blocks[1][name] for name in data} == data  # pyright: ignore[reportGeneralTypeIssues]


@pytest.mark.parametrize("fails", [False, True])
@differs("Audio")
async def test_audio_is_a_line_with_the_data_in_the_artifact(
    fails: bool, client: MultiServerMCPClient
) -> None:
    message = await shown(client, "sound", fails=fails)
    assert "audio/wav" in message.text
    assert [block["data"] for block in message.artifact["content"]] == [PIXEL]
    assert message.status == ("error" if fails else "success")


async def test_a_failure_is_a_message_with_the_content_of_the_server(
    client: MultiServerMCPClient,
) -> None:
    message = await shown(client, "text", fails=True)
    assert (message.content, message.status, message.tool_call_id) == ("one", "error", "1")
    assert (await shown(client, "picture", fails=True)).content_blocks == [IMAGE]
    assert (await shown(client, "text")).status == "success"


async def test_a_failure_without_content_has_a_text(client: MultiServerMCPClient) -> None:
    message = await shown(client, "nothing", fails=True)
    assert (message.content, message.status) == (
        "MCP tool returned an error with empty content.",
        "error",
    )


@pytest.mark.parametrize("server_name", [None, "desk"])
async def test_a_failure_is_raised_where_the_client_is_told_to(
    server_name: str | None, desk: ServerProcess
) -> None:
    connections = {"desk": {"url": desk.url}}
    async with MultiServerMCPClient(connections, handle_tool_errors=False) as client:
        tools = await client.get_tools(server_name=server_name)
        show = next(tool for tool in tools if tool.name == "show")
        with pytest.raises(ToolException, match="one"):
            await show.ainvoke({"what": "text", "fails": True})
        with pytest.raises(ToolException, match="empty content"):
            await show.ainvoke({"what": "nothing", "fails": True})
    (show, *_) = await load_mcp_tools(None, connection={"url": desk.url}, handle_tool_errors=False)
    with pytest.raises(ToolException, match="one"):
        await show.ainvoke({"what": "text", "fails": True})


def answering(*content: Any, **more: Any) -> AsyncMock:
    session = AsyncMock()
    session.call_tool.return_value = CallToolResult(content=list(content), **more)
    return session


def converted(session: Any, **options: Any) -> BaseTool:
    described = Tool(name="lookup", description="Look something up", input_schema=SCHEMA)
    return convert_mcp_tool_to_langchain_tool(session, described, **options)


CALL: Json = {
    "type": "tool_call",
    "id": "1",
    "name": "lookup",
    "args": {"param1": "x", "param2": 42},
}


async def test_a_tool_over_a_mocked_session_is_described_and_called() -> None:
    session = answering(TextContent(text="found"), structured_content={"result": "found"})
    lookup = converted(session)
    assert (lookup.name, lookup.description) == ("lookup", "Look something up")
    assert lookup.args_schema == SCHEMA
    message = await lookup.ainvoke(CALL)
    session.call_tool.assert_awaited_once_with("lookup", CALL["args"], progress_callback=None)
    assert (message.name, message.tool_call_id, message.content) == ("lookup", "1", "found")
    assert message.artifact["structured_content"] == {"result": "found"}


def test_a_tool_over_a_mocked_session_is_made_and_called_without_a_loop() -> None:
    lookup = converted(answering(TextContent(text="found")))
    assert lookup.invoke(CALL).content == "found"
    assert asyncio.run(lookup.ainvoke(CALL)).content == "found"


async def test_the_tools_of_a_mocked_session_are_loaded_and_called() -> None:
    async def call(name: str, arguments: Json, progress_callback: Any = None) -> CallToolResult:
        return CallToolResult(content=[TextContent(text=f"{name} with {arguments}")])

    session = AsyncMock()
    listed = [Tool(name=name, description=name, input_schema=SCHEMA) for name in ("one", "two")]
    session.list_tools.return_value = SimpleNamespace(tools=listed, next_cursor=None)
    session.call_tool.side_effect = call
    tools = await load_mcp_tools(session)
    assert [tool.name for tool in tools] == ["one", "two"]
    for loaded in tools:
        message = await loaded.ainvoke({**CALL, "name": loaded.name})
        assert message.content == f"{loaded.name} with {CALL['args']}"


async def test_failures_over_a_mocked_session_are_messages_or_raised() -> None:
    session = answering(
        TextContent(text="cannot draw"), ImageContent(data=PIXEL, mime_type="image/png"),
        is_error=True,
    )  # fmt: skip
    message = await converted(session).ainvoke(CALL)
    assert message.status == "error"
    assert [block["type"] for block in message.content_blocks] == ["text", "image"]
    with pytest.raises(ToolException, match="cannot draw"):
        await converted(session, handle_tool_errors=False).ainvoke(CALL)


@differs("Connection lost, timeout, HTTP error during a call")
async def test_a_broken_connection_is_a_message_or_raised() -> None:
    session = AsyncMock()
    session.call_tool.side_effect = httpx.ConnectError("connection refused")
    message = await converted(session).ainvoke(CALL)
    assert message.status == "error"
    assert "connection refused" in message.content
    with pytest.raises(Exception, match="connection refused") as raised:
        await converted(session, handle_tool_errors=False).ainvoke(CALL)
    assert isinstance(raised.value.__cause__, httpx.ConnectError)


@differs("Arguments")
async def test_wrong_arguments_do_not_reach_the_server() -> None:
    session = answering(TextContent(text="found"))
    message = await converted(session).ainvoke({**CALL, "args": {"param1": "x"}})
    assert message.status == "error"
    assert "param2" in message.content
    session.call_tool.assert_not_awaited()


HINTS = {
    "title": "Adding up",
    "readOnlyHint": True,
    "idempotentHint": False,
    "destructiveHint": None,
    "openWorldHint": None,
}


@differs("Metadata of a tool")
async def test_annotations_are_in_the_metadata_under_the_names_of_the_protocol(
    client: MultiServerMCPClient,
) -> None:
    tools = await client.get_tools(server_name="desk")
    metadata = next(tool for tool in tools if tool.name == "opened").metadata or {}
    assert {name: metadata[name] for name in HINTS} == HINTS
    assert (metadata["server"], metadata["wire_name"]) == ("desk", "opened")


@pytest.mark.parametrize(
    ("annotations", "meta", "expected"),
    [
        (None, None, {}),
        (
            ToolAnnotations(title="Adding up", read_only_hint=True, idempotent_hint=False),
            None,
            HINTS,
        ),
        (None, {"source": "a test", "version": 1}, {"_meta": {"source": "a test", "version": 1}}),
        (
            ToolAnnotations(title="Both"),
            {"flag": True},
            {**dict.fromkeys(HINTS), "title": "Both", "_meta": {"flag": True}},
        ),
    ],
    ids=["neither", "annotations", "meta", "both"],
)
async def test_annotations_and_meta_are_joined_in_the_metadata(
    annotations: ToolAnnotations | None, meta: Json | None, expected: Json
) -> None:
    described = Tool(name="t", input_schema=EMPTY, annotations=annotations, _meta=meta)
    made = convert_mcp_tool_to_langchain_tool(answering(), described)
    metadata = dict(made.metadata or {})
    ours = {"server", "wire_name", "annotations"}
    assert {name for name in metadata if not name.endswith("_hint")} == {*expected, *ours}
    assert {name: metadata[name] for name in expected} == expected


@differs("Class of a tool")
async def test_a_tool_of_a_server_is_a_tool_with_a_coroutine() -> None:
    async with MultiServerMCPClient({"math": stdio_entry("math")}) as client:
        add = (await client.get_tools())[0]
    assert isinstance(add, BaseTool)
    assert not isinstance(add, StructuredTool)
    assert callable(cast("Any", add).coroutine)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers"""
    return a + b


class Pair(BaseModel):
    """Add two numbers"""

    a: int
    b: int


@tool("add", args_schema=Pair)
def add_pair(a: int, b: int) -> int:
    return a + b


class AddTool(BaseTool):
    name: str = "add"
    description: str = "Add two numbers"
    args_schema: Any = Pair

    def _run(self, a: int, b: int, run_manager: CallbackManagerForToolRun | None = None) -> int:
        return a + b


@pytest.mark.parametrize("given", [add, add_pair, AddTool()], ids=["tool", "schema", "class"])
async def test_a_langchain_tool_becomes_a_tool_of_a_server(given: BaseTool) -> None:
    made = to_fastmcp(given)
    properties = {"a": {"title": "A", "type": "integer"}, "b": {"title": "B", "type": "integer"}}
    assert (made.name, made.description) == ("add", "Add two numbers")
    assert made.parameters == {
        "description": "Add two numbers",
        "properties": properties,
        "required": ["a", "b"],
        "title": "add",
        "type": "object",
    }
    assert made.fn_metadata.arg_model.model_json_schema() == {
        "properties": properties,
        "required": ["a", "b"],
        "title": "addArguments",
        "type": "object",
    }
    assert await made.run({"a": 1, "b": 2}, cast("Any", None)) == 3


def test_a_langchain_tool_with_injected_arguments_is_refused() -> None:
    @tool("add")
    def add_secretly(a: int, b: int, key: Annotated[str, InjectedToolArg()]) -> int:
        """Add two numbers"""
        return a + b

    with pytest.raises(NotImplementedError):
        to_fastmcp(add_secretly)


@differs("Content blocks served by `to_fastmcp`")
async def test_content_blocks_of_a_langchain_tool_are_content_of_the_server() -> None:
    @tool
    def draw() -> list[Json]:
        """Draw."""
        return [{"type": "image", "base64": PIXEL, "mime_type": "image/png"}]

    async with Client(MCPServer("own", tools=[to_fastmcp(draw)])) as client:
        (block,) = (await client.call_tool("draw", {})).content
    assert block == ImageContent(data=PIXEL, mime_type="image/png")


@differs("Failures served by `to_fastmcp`")
async def test_the_text_of_a_tool_exception_reaches_the_model() -> None:
    @tool
    def refuse() -> str:
        """Refuse."""
        raise ToolException("not on Sundays")

    async with Client(MCPServer("own", tools=[to_fastmcp(refuse)])) as client:
        result = await client.call_tool("refuse", {})
    assert result.is_error
    assert cast("TextContent", result.content[0]).text == "not on Sundays"
