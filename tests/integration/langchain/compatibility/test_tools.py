"""Tools: loaded, converted, described, called, and what programs do with them besides calling."""

from __future__ import annotations

import asyncio
import copy
import gc
import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, MagicMock

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CallToolResult,
    ListToolsResult,
    TextContent,
    Tool,
    ToolAnnotations,
)

from plait import (
    ConfigError,
    MultiServerMCPClient,
    ProtocolError,
    convert_mcp_tool_to_langchain_tool,
    create_session,
    load_mcp_server_info,
    load_mcp_tools,
)
from plait.langchain import MCPTool
from plait.testing import ServerProcess
from tests.integration.langchain.compatibility.common import (
    Json,
    by_name,
    called,
    differs,
    message_of,
    tools_of,
)
from tests.servers import raw_stdio_config
from tests.servers.langchain_servers import math_server, paged_server, stdio_entry, weather_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

PAIR: Json = {
    "type": "object",
    "title": "Pair",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
ADD = Tool(name="add", description="Add up.", input_schema=PAIR)
SUM = {"a": 1, "b": 2}


@pytest.fixture
async def math() -> AsyncGenerator[dict[str, MCPTool]]:
    async with MultiServerMCPClient({"math": math_server()}) as client:
        tools = {tool.name: tool for tool in await client.get_tools() if isinstance(tool, MCPTool)}
        assert len(tools) == 6
        yield tools


def parameters_of(entry: Any) -> StdioServerParameters:
    return StdioServerParameters(command=entry["command"], args=entry["args"])


@asynccontextmanager
async def of_sdk(wire: Any) -> AsyncGenerator[ClientSession]:
    """Open a session with nothing but the SDK; it has no WebSocket, so that one is ours."""
    async with AsyncExitStack() as stack:
        if wire["transport"] == "websocket":
            session = await stack.enter_async_context(create_session(wire))
        else:
            opening: AbstractAsyncContextManager[Any] = {
                "stdio": lambda: stdio_client(parameters_of(wire)),
                "http": lambda: streamable_http_client(wire["url"]),
                "sse": lambda: sse_client(wire["url"]),
            }[wire["transport"]]()
            streams = await stack.enter_async_context(opening)
            session = await stack.enter_async_context(ClientSession(streams[0], streams[1]))
        await session.initialize()
        yield session


async def test_tools_are_loaded_over_a_session_of_the_user(wire: Any) -> None:
    async with of_sdk(wire) as session:
        tools = by_name(await load_mcp_tools(session))

        assert list(tools) == ["now", "search", "work", "visitor", "variable", "create_profile"]
        assert all(isinstance(tool, BaseTool) for tool in tools.values())
        assert await tools["now"].ainvoke({}) == "twenty past five"
        assert await tools["search"].ainvoke({"query": "x"}) == "appointments about x"


async def test_tools_of_a_connection_keep_it_open_and_it_is_closed_after_them(wire: Any) -> None:
    tools = by_name(await load_mcp_tools(None, connection=wire))
    for _ in range(2):
        assert await tools["now"].ainvoke({}) == "twenty past five"

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


async def test_without_a_session_or_a_connection_there_is_nothing() -> None:
    with pytest.raises(ValueError, match="a session or a connection"):
        await load_mcp_tools(None)
    with pytest.raises(ValueError, match="a session or a connection"):
        convert_mcp_tool_to_langchain_tool(None, ADD)
    with pytest.raises(ValueError, match="a session or a connection"):
        await load_mcp_server_info(None)


async def test_the_server_s_name_is_a_prefix_where_that_is_asked_for() -> None:
    async with Client(math_server()) as client:
        for options, name in (
            ({"server_name": "math", "tool_name_prefix": True}, "math_add"),
            ({"server_name": "math"}, "add"),
            ({"tool_name_prefix": True}, "add"),
        ):
            (add, *_) = await load_mcp_tools(client, **cast("Any", options))
            assert (add.name, await add.ainvoke(SUM)) == (name, "3")


async def test_tools_of_a_client_or_connection_are_loaded_or_converted(
    servers: dict[str, ServerProcess],
) -> None:
    async with Client(servers["math"].url) as client:
        tool = convert_mcp_tool_to_langchain_tool(client, ADD)
        assert (tool.name, tool.description, tool.args_schema) == ("add", "Add up.", PAIR)
        (loaded, *_) = await load_mcp_tools(client)
        for add in (tool, loaded):
            message = await message_of(add, a=1, b=41)
            assert (message.content, message.status) == ("42", "success")
            assert (message.name, message.tool_call_id) == ("add", "c1")

    described = Tool(name="add", input_schema=PAIR)
    tool = convert_mcp_tool_to_langchain_tool(
        None, described, connection=stdio_entry("math"), server_name="m", tool_name_prefix=True
    )
    assert tool.name == "m_add"
    assert await tool.ainvoke({"a": 1, "b": 41}) == "42"


def hints(**given: Any) -> Json:
    """Return the annotations of a tool under their names here and under those of MCP."""
    names = {
        "read_only_hint": "readOnlyHint",
        "idempotent_hint": "idempotentHint",
        "destructive_hint": "destructiveHint",
        "open_world_hint": "openWorldHint",
    }
    values = {"title": None, **dict.fromkeys(names), **given}
    return values | {there: values[here] for here, there in names.items()}


META = {"origin": "a test", "version": 1}
TITLE = ToolAnnotations(title="Sum", read_only_hint=True, idempotent_hint=False)


@pytest.mark.parametrize(
    ("annotations", "meta", "expected"),
    [
        (None, None, {}),
        (TITLE, None, hints(title="Sum", read_only_hint=True, idempotent_hint=False)),
        (None, META, {"_meta": META}),
        (ToolAnnotations(title="Sum"), META, {**hints(title="Sum"), "_meta": META}),
    ],
    ids=["neither", "annotations", "meta", "both"],
)
async def test_annotations_and_meta_are_in_the_metadata(
    annotations: ToolAnnotations | None, meta: Json | None, expected: Json
) -> None:
    described = Tool(name="add", input_schema=PAIR, annotations=annotations, _meta=meta)
    tool = convert_mcp_tool_to_langchain_tool(
        None, described, connection=stdio_entry("math"), server_name="math"
    )
    metadata = dict(tool.metadata or {})
    del metadata["annotations"]
    assert (metadata.pop("server"), metadata.pop("wire_name")) == ("math", "add")
    assert metadata == expected


@differs("Metadata of a tool")
async def test_icons_title_and_annotations_of_a_server_s_tool_are_in_the_metadata() -> None:
    connections = {"math": math_server(), "weather": weather_server()}
    async with MultiServerMCPClient(connections) as client:
        tools = await tools_of(client)

    metadata = tools["report"].metadata or {}
    assert metadata["title"] == "Weather report"
    assert metadata["read_only_hint"] is True
    assert metadata["open_world_hint"] is True
    assert metadata["_meta"] == {"source": "a window", "version": 3}
    assert metadata["icons"][0]["src"] == "https://example.com/sun.png"
    metadata = tools["add"].metadata or {}
    told = hints(title="Adding up", read_only_hint=True, idempotent_hint=False)
    assert metadata.items() >= told.items()
    assert (metadata["server"], metadata["wire_name"]) == ("math", "add")


def answering(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)])


def mock_of(spec: type | None = None, /, **fields: Any) -> MagicMock:
    mock = MagicMock(spec=spec)
    for name, value in fields.items():  # `name` means something else to the constructor
        setattr(mock, name, value)
    return mock


FIELDS = {"name": "add", "description": "Add up."}


@pytest.mark.parametrize(
    "page",
    [
        SimpleNamespace(tools=[ADD]),
        mock_of(tools=[ADD]),
        SimpleNamespace(tools=[mock_of(**FIELDS, input_schema=PAIR)]),
        mock_of(tools=[mock_of(**FIELDS, inputSchema=PAIR)]),
        mock_of(tools=[SimpleNamespace(**FIELDS, inputSchema=PAIR)]),
        mock_of(ListToolsResult, tools=[mock_of(Tool, **FIELDS, inputSchema=PAIR)]),
    ],
    ids=["tool", "mocked page", "mocked tool", "mocked tool of SDK 1", "namespace", "with a spec"],
)
async def test_a_mocked_session_is_called_as_a_session_is(page: Any) -> None:
    session = AsyncMock()
    session.call_tool.return_value = answering("mocked")
    session.call_tool.return_value.structured_content = {"result": "mocked"}
    session.list_tools.return_value = page

    (loaded,) = await load_mcp_tools(session)
    assert await loaded.ainvoke({"a": "1", "b": 2}) == "mocked"
    session.call_tool.assert_awaited_once_with("add", SUM, progress_callback=None)
    session.list_tools.assert_awaited_once_with()
    converted = convert_mcp_tool_to_langchain_tool(session, page.tools[0])
    for tool in (loaded, converted):
        assert (tool.name, tool.description, tool.args_schema) == ("add", "Add up.", PAIR)
    message = await message_of(converted, **SUM)
    assert (message.name, message.tool_call_id, message.content) == ("add", "c1", "mocked")
    assert message.artifact["structured_content"] == {"result": "mocked"}


def test_a_tool_over_a_mocked_session_is_made_and_called_without_a_loop() -> None:
    session = AsyncMock()
    session.call_tool.return_value = answering("mocked")
    add = convert_mcp_tool_to_langchain_tool(session, ADD)
    assert add.invoke(called(add, **SUM)).content == "mocked"
    assert asyncio.run(add.ainvoke(called(add, **SUM))).content == "mocked"


def mock_with_two_pages() -> AsyncMock:
    session = AsyncMock(spec=ClientSession)
    session.call_tool.side_effect = Duck().call_tool
    session.list_tools.side_effect = [
        ListToolsResult(tools=[ADD], next_cursor="2"),
        ListToolsResult(tools=[Tool(name="quack", input_schema=PAIR)]),
    ]
    return session


class Duck:
    """Has what tools need of a session, and nothing else."""

    async def list_tools(self, cursor: str | None = None) -> Any:
        pages = {None: ([ADD], "next"), "next": ([Tool(name="quack", input_schema=PAIR)], None)}
        tools, after = pages[cursor]
        return SimpleNamespace(tools=tools, next_cursor=after)

    async def call_tool(self, name: str, arguments: Json, progress_callback: Any = None) -> Any:
        return answering(f"{name} {arguments}")


@pytest.mark.parametrize("session", [mock_with_two_pages, Duck], ids=["mock", "duck"])
async def test_what_looks_like_a_session_is_one(session: Callable[[], Any]) -> None:
    tools = await load_mcp_tools(session())
    said = [(tool.name, (await message_of(tool, **SUM)).content) for tool in tools]
    assert said == [("add", f"add {SUM}"), ("quack", f"quack {SUM}")]


class Counting(ClientSession):
    """A session that counts its calls."""

    calls = 0

    async def call_tool(self, *args: Any, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.calls += 1
        return await super().call_tool(*args, **options)


async def test_a_method_of_a_subclass_of_the_session_is_called() -> None:
    parameters = parameters_of(stdio_entry("math"))
    async with stdio_client(parameters) as streams, Counting(*streams) as session:
        await session.initialize()
        (add, *_) = await load_mcp_tools(session)
        assert await add.ainvoke(SUM) == "3"
        assert session.calls == 1


async def test_a_method_that_a_test_replaced_on_a_client_is_called() -> None:
    async with Client(math_server()) as client:
        (add, *_) = await load_mcp_tools(client)
        client.call_tool = AsyncMock(return_value=answering("replaced"))  # ty: ignore[invalid-assignment]
        assert await add.ainvoke(SUM) == "replaced"


@pytest.mark.parametrize("whose", ["the SDK's", "ours"])
async def test_one_bad_tool_does_not_lose_the_list_of_a_session(
    whose: str, caplog: pytest.LogCaptureFixture
) -> None:
    entry = raw_stdio_config("tool-with-bad-schema", era="legacy")
    async with AsyncExitStack() as stack:
        if whose == "ours":
            session = await stack.enter_async_context(create_session(entry))
        else:
            streams = await stack.enter_async_context(stdio_client(parameters_of(entry)))
            session = await stack.enter_async_context(ClientSession(*streams))
        await session.initialize()
        (good,) = await load_mcp_tools(session, server_name="raw")
        assert (good.name, await good.ainvoke({})) == ("good", "good")
        assert "bad_schema" in caplog.text
        with pytest.raises(ProtocolError, match="bad_schema"):
            await load_mcp_tools(session, throw_on_load_error=True)


async def test_a_resource_of_which_a_session_gets_the_uri_is_read() -> None:
    parameters = parameters_of(raw_stdio_config("uri-only-resource", era="legacy"))
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        tools = by_name(await load_mcp_tools(session, output_handling={"resource": "content"}))
        content = await tools["uri-only-resource"].ainvoke({})
    assert "text of raw://only/uri" in str(content)


@pytest.mark.parametrize("how", ["loaded", "converted", "of a client", "mocked"])
@differs("Arguments")
async def test_arguments_that_do_not_fit_are_not_sent(how: str) -> None:
    session = AsyncMock()
    session.call_tool.return_value = answering("3")
    async with (
        Client(math_server()) as sdk,
        MultiServerMCPClient({"math": math_server()}) as client,
    ):
        if how == "loaded":
            (add, *_) = await load_mcp_tools(sdk)
        elif how == "of a client":
            (add, *_) = await client.get_tools()
        else:
            add = convert_mcp_tool_to_langchain_tool(session if how == "mocked" else sdk, ADD)
        for arguments, reason in (
            ({"a": "one", "b": 2}, "a: must be an integer"),
            ({"a": 1, "c": 2}, "missing required argument: b"),
        ):
            message = await message_of(add, **arguments)
            assert message.status == "error"
            assert message.artifact["error"]["error"] == "InvalidArgumentsError"
            assert reason in message.text
        session.call_tool.assert_not_awaited()
        assert await add.ainvoke({"a": "1", "b": 2}) == "3"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda tool: tool.model_copy(deep=True)])
async def test_a_deep_copy_is_a_tool_of_the_same_connection(
    copied: Any, math: dict[str, MCPTool]
) -> None:
    add = math["add"]
    assert await add.ainvoke(SUM) == "3"
    other = copied(add)
    other.description = "Another."
    other.metadata["own"] = True
    other.args_schema["properties"]["a"]["title"] = "Other"

    assert (await other.ainvoke(SUM), other.name) == ("3", "add")
    assert (add.description, "own" in (add.metadata or {})) == ("Add two integers.", False)
    assert add.args["a"]["title"] == "A"


@differs("Class of a tool")
async def test_the_coroutine_of_a_tool_returns_content_and_artifact_or_raises(
    math: dict[str, MCPTool],
) -> None:
    divide = math["divide"]
    assert isinstance(divide, BaseTool)
    assert not isinstance(divide, StructuredTool)
    content, artifact = await divide.coroutine(a=1, b=2)
    assert (content, artifact["tool"]) == ("0.5", "divide")
    with pytest.raises(ToolException, match="b must not be 0"):
        await divide.coroutine(a=1, b=0)


@pytest.mark.parametrize("how", ["set", "copied"])
async def test_a_coroutine_around_that_of_a_tool_is_called_instead(
    how: str, math: dict[str, MCPTool]
) -> None:
    seen: list[Json] = []
    divide = math["divide"]
    original = divide.coroutine

    async def wrapped(settings: RunnableConfig, **arguments: Any) -> Any:
        seen.append({**arguments, "tags": settings.get("tags")})
        return await original(**{**arguments, "a": 10 * arguments["a"]})

    if how == "set":
        divide.coroutine = wrapped
    else:
        divide = divide.model_copy(update={"coroutine": wrapped})
    assert divide.coroutine is wrapped
    message = await divide.ainvoke(called(divide, a=1, b=2), {"tags": ["mine"]})
    assert (message.content, message.status) == ("5", "success")
    failed = await message_of(divide, a=1, b=0)
    assert (failed.content, failed.status) == ("b must not be 0", "error")
    assert message.artifact["tool"] == failed.artifact["tool"] == "divide"
    assert await asyncio.to_thread(divide.invoke, {"a": 3, "b": 2}, {"tags": ["mine"]}) == "15"
    assert await divide.arun({"a": 4, "b": 2}) == "20"
    assert [(one["a"], one["b"]) for one in seen] == [(1, 2), (1, 0), (3, 2), (4, 2)]
    assert ["mine" in (one["tags"] or ()) for one in seen] == [True, False, True, False]


async def test_run_and_arun_take_what_an_agent_executor_passes(
    servers: dict[str, ServerProcess],
) -> None:
    executor: Json = {"verbose": False, "color": "green", "callbacks": None}
    for passed in (Json(), executor):
        client = MultiServerMCPClient({"math": {"url": servers["math"].url}})
        add = (await tools_of(client))["add"]
        for _ in range(2):
            assert await add.arun(SUM, **passed) == "3"
            assert await asyncio.to_thread(add.run, SUM, **passed) == "3"
        assert await add.arun(SUM, llm_prefix="Thought:", **passed) == "3"
        await client.aclose()


@pytest.mark.parametrize("limit", [0.05, timedelta(milliseconds=50)])
async def test_a_limit_of_a_tool_of_its_session_or_connection_holds(
    limit: float | timedelta, faults_url: str
) -> None:
    connection: Json = {"url": faults_url}
    async with MultiServerMCPClient({"faults": connection}) as client, Client(faults_url) as sdk:
        tools = cast("Any", await tools_of(client))
        slow, hang = tools["slow"], tools["hang"]
        await check_limit(hang.with_timeout(limit))
        await check_limit(hang.with_config(timeout=0.05))
        for patient in (slow.with_timeout(30), slow.with_timeout(timedelta(seconds=30)), slow):
            assert await patient.ainvoke({"seconds": 0}) == "slept 0 s"
        with pytest.raises(ConfigError):
            slow.with_timeout(-1)
        await check_limit(by_name(await load_mcp_tools(sdk, default_tool_timeout=limit))["hang"])
    loaded = await load_mcp_tools(None, connection=connection, default_tool_timeout=limit)
    await check_limit(by_name(loaded)["hang"])


async def check_limit(hang: BaseTool) -> None:
    message = await message_of(hang)
    assert (message.status, message.artifact["error"]["error"]) == ("error", "CallTimeoutError")
