"""Tools of sessions that the user manages: loaded, converted, called, failing."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, cast

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException
from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import Tool, ToolAnnotations

from plait import (
    MCPToolArtifact,
    MultiServerMCPClient,
    ToolFailedError,
    convert_mcp_tool_to_langchain_tool,
    create_session,
    load_mcp_tools,
)
from plait.testing import ServerProcess, free_port, running
from tests.servers.langchain_servers import (
    PIXEL,
    math_server,
    paged_server,
    served,
    stdio_entry,
    weather_server,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

PAIR = {
    "type": "object",
    "title": "Pair",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}


def called(tool: BaseTool, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": "call 7", "name": tool.name, "args": arguments}


def by_name(tools: list[BaseTool]) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in tools}


@pytest.fixture(scope="module")
def servers() -> Generator[dict[str, ServerProcess]]:
    with running(served("math"), served("math", "sse"), served("math", "websocket")) as found:
        yield dict(zip(("http", "sse", "websocket"), found, strict=True))


@asynccontextmanager
async def of_sdk(kind: str, url: str) -> AsyncGenerator[ClientSession]:
    """Open a session with nothing but the SDK; it has no WebSocket, so that one is ours."""
    async with AsyncExitStack() as stack:
        if kind == "websocket":
            connection = {"transport": "websocket", "url": url}
            session = await stack.enter_async_context(create_session(connection))
        else:
            entry = cast("dict[str, Any]", stdio_entry("math"))
            opening: AbstractAsyncContextManager[Any] = {
                "stdio": lambda: stdio_client(
                    StdioServerParameters(command=entry["command"], args=entry["args"])
                ),
                "http": lambda: streamable_http_client(url),
                "sse": lambda: sse_client(url),
            }[kind]()
            streams = await stack.enter_async_context(opening)
            session = await stack.enter_async_context(ClientSession(streams[0], streams[1]))
        await session.initialize()
        yield session


@pytest.mark.parametrize("kind", ["stdio", "http", "sse", "websocket"])
async def test_tools_are_loaded_over_a_session_of_the_user(
    kind: str, servers: dict[str, ServerProcess]
) -> None:
    url = servers[kind].url if kind in servers else ""
    async with of_sdk(kind, url) as session:
        tools = by_name(await load_mcp_tools(session))

        assert list(tools) == ["add", "multiply", "root", "divide", "give_up", "hum"]
        assert all(isinstance(tool, BaseTool) for tool in tools.values())
        assert await tools["add"].ainvoke({"a": 2, "b": 3}) == "5"
        assert await tools["multiply"].ainvoke({"a": 4, "b": 5}) == "20"


async def test_tools_are_loaded_over_a_client_of_the_user(
    servers: dict[str, ServerProcess],
) -> None:
    async with Client(servers["http"].url) as client:
        tools = by_name(await load_mcp_tools(client))
        message = await tools["add"].ainvoke(called(tools["add"], a=2, b=3))

    assert (message.content, message.name, message.tool_call_id) == ("5", "add", "call 7")


@pytest.mark.parametrize("kind", ["stdio", "http", "sse", "websocket"])
async def test_tools_of_a_connection_keep_it_open_and_it_is_closed_after_them(
    kind: str, servers: dict[str, ServerProcess]
) -> None:
    connection: dict[str, Any] = (
        stdio_entry("math") if kind == "stdio" else {"transport": kind, "url": servers[kind].url}
    )
    tools = by_name(await load_mcp_tools(None, connection=connection))
    assert await tools["add"].ainvoke({"a": 20, "b": 3}) == "23"
    assert await tools["multiply"].ainvoke({"a": 20, "b": 3}) == "60"

    with warnings.catch_warnings(record=True) as left_open:
        warnings.simplefilter("always", ResourceWarning)
        del tools
        await asyncio.to_thread(gc.collect)
        await asyncio.to_thread(gc.collect)
    assert [str(warning.message) for warning in left_open] == []


@pytest.mark.parametrize(
    "opened", [lambda session: session, lambda session: session.session], ids=["client", "session"]
)
async def test_every_page_of_tools_is_loaded(opened: Callable[[Client], Any]) -> None:
    names = [f"tool_{number}" for number in range(7)]
    async with Client(paged_server(names)) as client:
        tools = await load_mcp_tools(opened(client))
        assert [tool.name for tool in tools] == names
        assert await tools[6].ainvoke({}) == "tool_6"


async def test_without_a_session_or_a_connection_nothing_is_loaded() -> None:
    with pytest.raises(ValueError, match="session or a connection"):
        await load_mcp_tools(None)
    with pytest.raises(ValueError, match="session or a connection"):
        convert_mcp_tool_to_langchain_tool(None, Tool(name="add", input_schema=PAIR))


async def test_the_server_s_name_is_a_prefix_where_that_is_asked_for() -> None:
    async with Client(math_server()) as client:
        prefixed = await load_mcp_tools(client, server_name="math", tool_name_prefix=True)
        named_only = await load_mcp_tools(client, server_name="math")
        nameless = await load_mcp_tools(client, tool_name_prefix=True)
        add = prefixed[0]

        assert (add.name, named_only[0].name, nameless[0].name) == ("math_add", "add", "add")
        assert await add.ainvoke({"a": 1, "b": 2}) == "3"


async def test_one_tool_is_converted() -> None:
    async with Client(math_server()) as client:
        described = Tool(name="add", description="Add up.", input_schema=PAIR)
        tool = convert_mcp_tool_to_langchain_tool(client, described)

        assert (tool.name, tool.description, tool.args_schema) == ("add", "Add up.", PAIR)
        message = await tool.ainvoke(called(tool, a=1, b=41))
        assert (message.content, message.status, message.name) == ("42", "success", "add")


async def test_one_tool_of_a_connection_is_converted() -> None:
    described = Tool(name="add", input_schema=PAIR)
    tool = convert_mcp_tool_to_langchain_tool(
        None, described, connection=stdio_entry("math"), server_name="m", tool_name_prefix=True
    )
    assert tool.name == "m_add"
    assert await tool.ainvoke({"a": 1, "b": 41}) == "42"


@pytest.mark.parametrize(
    ("annotations", "meta", "told"),
    [
        (None, None, {}),
        (
            ToolAnnotations(title="Sum", read_only_hint=True, idempotent_hint=False),
            None,
            {
                "title": "Sum",
                "read_only_hint": True,
                "idempotent_hint": False,
                "destructive_hint": None,
                "open_world_hint": None,
                "readOnlyHint": True,
                "idempotentHint": False,
                "destructiveHint": None,
                "openWorldHint": None,
            },
        ),
        (None, {"origin": "a test", "version": 1}, {"_meta": {"origin": "a test", "version": 1}}),
        (
            ToolAnnotations(title="Sum"),
            {"flag": True},
            {
                "title": "Sum",
                "read_only_hint": None,
                "idempotent_hint": None,
                "destructive_hint": None,
                "open_world_hint": None,
                "readOnlyHint": None,
                "idempotentHint": None,
                "destructiveHint": None,
                "openWorldHint": None,
                "_meta": {"flag": True},
            },
        ),
    ],
    ids=["neither", "annotations", "meta", "both"],
)
async def test_annotations_and_meta_are_in_the_metadata(
    annotations: ToolAnnotations | None, meta: dict[str, Any] | None, told: dict[str, Any]
) -> None:
    described = Tool(name="add", input_schema=PAIR, annotations=annotations, _meta=meta)
    tool = convert_mcp_tool_to_langchain_tool(
        None, described, connection=stdio_entry("math"), server_name="math"
    )
    metadata = dict(tool.metadata or {})
    origin = {name: metadata.pop(name) for name in ("server", "wire_name", "annotations")}

    assert metadata == told
    assert origin["server"] == "math"
    assert origin["wire_name"] == "add"


async def test_icons_title_and_annotations_of_a_server_s_tool_are_in_the_metadata() -> None:
    async with Client(weather_server()) as client:
        report = (await load_mcp_tools(client))[0]

    metadata = report.metadata or {}
    assert metadata["title"] == "Weather report"
    assert metadata["read_only_hint"] is True
    assert metadata["open_world_hint"] is True
    assert metadata["_meta"] == {"source": "a window", "version": 3}
    assert metadata["icons"][0]["src"] == "https://example.com/sun.png"


async def test_structured_content_is_in_the_artifact_of_the_message() -> None:
    async with Client(math_server()) as client:
        root = by_name(await load_mcp_tools(client, server_name="math"))["root"]
        message = await root.ainvoke(called(root, square=9))

    assert message.status == "success"
    assert message.artifact.keys() == MCPToolArtifact.__required_keys__
    assert message.artifact["structured_content"] == {"value": 3.0, "exact": True}
    assert (message.artifact["server"], message.artifact["tool"]) == ("math", "root")


async def test_a_result_without_structured_content_has_an_artifact_too() -> None:
    async with Client(math_server()) as client:
        add = (await load_mcp_tools(client))[0]
        message = await add.ainvoke(called(add, a=1, b=1))

    assert message.artifact["structured_content"] is None
    assert message.artifact["content"] == []


async def test_audio_is_in_the_artifact_for_no_provider_takes_it_in_tool_messages() -> None:
    async with Client(math_server()) as client:
        hum = by_name(await load_mcp_tools(client))["hum"]
        message = await hum.ainvoke(called(hum))

    assert message.content == "[audio/wav, 9 B, not shown]"
    assert message.artifact["content"] == [
        {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"}
    ]


async def test_a_failure_is_a_message_that_the_model_reads() -> None:
    async with Client(math_server()) as client:
        divide = by_name(await load_mcp_tools(client))["divide"]
        message = await divide.ainvoke(called(divide, a=1, b=0))

    assert isinstance(message, ToolMessage)
    assert (message.status, message.content) == ("error", "b must not be 0")
    assert message.tool_call_id == "call 7"
    assert message.artifact["tool"] == "divide"


async def test_a_failure_is_raised_where_that_is_asked_for() -> None:
    async with Client(math_server()) as client:
        divide = by_name(await load_mcp_tools(client, handle_tool_errors=False))["divide"]
        with pytest.raises(ToolException, match="b must not be 0") as raised:
            await divide.ainvoke(called(divide, a=1, b=0))
        assert isinstance(raised.value, ToolFailedError)
        assert await divide.ainvoke({"a": 1, "b": 2}) == "0.5"

        one = convert_mcp_tool_to_langchain_tool(
            client, Tool(name="divide", input_schema=PAIR), handle_tool_errors=False
        )
        with pytest.raises(ToolException, match="b must not be 0"):
            await one.ainvoke({"a": 1, "b": 0})


async def test_a_failure_without_a_reason_is_not_empty() -> None:
    async with Client(math_server()) as client:
        give_up = by_name(await load_mcp_tools(client))["give_up"]
        message = await give_up.ainvoke(called(give_up, how="silently"))
        raising = by_name(await load_mcp_tools(client, handle_tool_errors=False))["give_up"]
        with pytest.raises(ToolException) as raised:
            await raising.ainvoke({"how": "silently"})

    assert message.status == "error"
    assert message.text.strip()
    assert message.text in str(raised.value)


@pytest.mark.parametrize(
    ("how", "kinds"), [("with a picture", ["text", "image"]), ("with a picture only", ["image"])]
)
async def test_a_failure_keeps_its_pictures(how: str, kinds: list[str]) -> None:
    async with Client(math_server()) as client:
        give_up = by_name(await load_mcp_tools(client))["give_up"]
        message = await give_up.ainvoke(called(give_up, how=how))

    assert message.status == "error"
    assert [block["type"] for block in message.content_blocks] == kinds
    assert message.content_blocks[-1] == {
        "type": "image",
        "base64": PIXEL,
        "mime_type": "image/png",
    }


@pytest.mark.parametrize("server_name", [None, "math"], ids=["all servers", "one server"])
async def test_the_client_passes_on_how_failures_are_handled(server_name: str | None) -> None:
    servers = {"math": math_server(), "weather": weather_server()}
    async with MultiServerMCPClient(servers, handle_tool_errors=False) as client:
        divide = by_name(await client.get_tools(server_name=server_name))["divide"]
        with pytest.raises(ToolException, match="b must not be 0"):
            await divide.ainvoke({"a": 1, "b": 0})
    async with MultiServerMCPClient(servers) as client:
        divide = by_name(await client.get_tools(server_name=server_name))["divide"]
        message = await divide.ainvoke(called(divide, a=1, b=0))
        assert message.status == "error"


async def test_a_server_that_is_gone_is_told_to_the_model() -> None:
    described = Tool(name="add", input_schema=PAIR)
    url = f"http://127.0.0.1:{free_port()}/mcp"
    nobody = {"transport": "http", "url": url, "reconnect": {"max_attempts": 1}}
    tool = convert_mcp_tool_to_langchain_tool(
        None, described, connection=nobody, server_name="math"
    )
    message = await tool.ainvoke(called(tool, a=1, b=1))

    assert message.status == "error"
    assert "math" in message.content
    assert message.artifact["error"]["client"] == "math"
    assert message.artifact["structured_content"] is None


async def test_a_session_that_has_ended_is_told_to_the_model(
    servers: dict[str, ServerProcess],
) -> None:
    async with of_sdk("http", servers["http"].url) as session:
        add = (await load_mcp_tools(session))[0]
    message = await add.ainvoke(called(add, a=1, b=1))

    assert message.status == "error"
    assert message.content
