"""What the suite of `langchain-mcp-adapters` checks of its client, in our words, on real servers.

`test_peer_tools.py` and `test_peer_reading.py` have the rest. A test with `differs` shows a
deliberate difference, which the migration page explains in the row of that name.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator
from importlib import import_module
from typing import Any, NotRequired, cast

import httpx
import httpx2
import pytest
from langchain.agents import AgentState, create_agent
from langchain.tools import ToolRuntime
from langchain_core.documents.base import Blob
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import MemorySaver
from langgraph.types import Command
from mcp.client import ClientRequestContext
from mcp.types import (
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    LoggingMessageNotificationParams,
    TextContent,
)

import plait
from plait import (
    CallbackContext,
    Callbacks,
    ConfigError,
    MCPToolCallRequest,
    MCPToolCallResult,
    MultiServerMCPClient,
    PlaitError,
    load_mcp_tools,
)
from plait.testing import ScriptedChatModel, ServerProcess, eventually, running, tool_call
from tests.integration.langchain.peer import DIFFERENCES, PEER_TESTS, SHOWN, differs, rows_of_page
from tests.servers.langchain_servers import served, stdio_entry

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Json = dict[str, Any]
Handler = Callable[[MCPToolCallRequest], Awaitable[MCPToolCallResult]]


@pytest.fixture(scope="module")
def servers() -> Generator[dict[str, ServerProcess]]:
    with running(
        served("math"), served("weather"), served("time"), served("desk"), served("time", "sse")
    ) as found:
        yield dict(zip(("math", "weather", "time", "desk", "sse"), found, strict=True))


@pytest.fixture(scope="module")
def websocket() -> Generator[str]:
    with running(served("time", "websocket")) as (server,):
        yield server.url


def http(server: ServerProcess, transport: str = "streamable_http", **more: Any) -> Json:
    return {"transport": transport, "url": server.url, **more}


def by_name(tools: list[BaseTool]) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in tools}


def called(name: str, call_id: str = "1", /, **arguments: Any) -> Json:
    return {"type": "tool_call", "id": call_id, "name": name, "args": arguments}


def test_every_difference_is_shown_by_a_test_and_is_on_the_migration_page() -> None:
    for module in ("test_peer_tools", "test_peer_reading"):
        import_module(f"tests.integration.langchain.{module}")
    assert SHOWN == DIFFERENCES
    assert rows_of_page() >= DIFFERENCES
    assert PEER_TESTS.keys() <= DIFFERENCES


@differs("Modules")
def test_everything_that_programs_import_is_in_one_module() -> None:
    for name in (
        *("MultiServerMCPClient", "Callbacks", "CallbackContext", "load_mcp_tools", "to_fastmcp"),
        *("convert_mcp_tool_to_langchain_tool", "MCPToolCallRequest", "ToolCallInterceptor"),
        *("load_mcp_prompt", "load_mcp_resources", "get_mcp_resource", "create_session"),
        *("load_mcp_server_info", "StdioConnection", "StreamableHttpConnection"),
        *("SSEConnection", "WebsocketConnection", "Connection", "McpHttpClientFactory"),
    ):
        assert hasattr(plait, name), name


async def test_callbacks_are_made_for_the_sdk_with_their_context() -> None:
    logs: list[Any] = []
    steps: list[Any] = []

    async def log(params: LoggingMessageNotificationParams, context: CallbackContext) -> None:
        logs.append((params, context.server_name))

    async def step(
        progress: float, total: float | None, message: str | None, context: CallbackContext
    ) -> None:
        steps.append((progress, total, message, context))

    context = CallbackContext(server_name="desk", tool_name="show")
    made = Callbacks(on_logging_message=log, on_progress=step).to_mcp_format(context=context)
    params = LoggingMessageNotificationParams(level="info", data={"message": "a line"})
    assert made.logging_callback is not None
    assert made.progress_callback is not None
    await made.logging_callback(params)
    await cast("Any", made.progress_callback)(0.75, 1.0, "Soon")
    assert logs == [(params, "desk")]
    assert steps == [(0.75, 1.0, "Soon", context)]


async def test_progress_and_log_messages_of_a_call_arrive(
    servers: dict[str, ServerProcess],
) -> None:
    levels: list[Any] = []
    steps: list[Any] = []

    async def log(params: LoggingMessageNotificationParams, context: CallbackContext) -> None:
        levels.append(params.level)

    async def step(
        progress: float, total: float | None, message: str | None, context: CallbackContext
    ) -> None:
        steps.append((progress, context.tool_name))

    callbacks = Callbacks(on_logging_message=log, on_progress=step)
    connections = {"time": http(servers["time"])}
    async with MultiServerMCPClient(connections, callbacks=callbacks) as client:
        work = by_name(await client.get_tools(server_name="time"))["work"]
        message = await work.ainvoke(called("work", task="tea"))
        assert "tea is done" in message.text
        await eventually(lambda: len(steps) >= 3 and len(levels) >= 2)
    assert [number for number, _ in steps] == [1, 2, 3]
    assert {name for _, name in steps} == {"work"}
    assert "info" in levels


ANSWERS: list[tuple[Json, str]] = [
    ({"action": "accept", "content": {"email": "al@x.org", "age": 28}}, "accept: al@x.org, 28 (1)"),
    ({"action": "decline"}, "decline: - (1)"),
    ({"action": "cancel"}, "cancel: - (1)"),
]


@pytest.mark.parametrize(("answer", "text"), ANSWERS, ids=["accept", "decline", "cancel"])
async def test_a_question_in_the_middle_of_a_call_is_answered_and_the_call_runs_once(
    answer: Json, text: str, servers: dict[str, ServerProcess]
) -> None:
    asked: list[tuple[str, str, str | None]] = []

    async def on_elicitation(
        mcp_context: ClientRequestContext, params: ElicitRequestParams, context: CallbackContext
    ) -> ElicitResult:
        asked.append((params.message, context.server_name, context.tool_name))
        return ElicitResult(**answer)

    connections = {"desk": http(servers["desk"], "http")}
    callbacks = Callbacks(on_elicitation=on_elicitation)
    name = f"Visitor to {answer['action']}"
    async with MultiServerMCPClient(connections, callbacks=callbacks) as client:
        register = by_name(await client.get_tools())["register"]
        message = await register.ainvoke(called("register", name=name))
    assert asked == [(f"Details of {name}?", "desk", "register")]
    assert message.text == text


async def test_variables_in_the_environment_of_a_program_are_filled_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PEER_TOKEN", "s3cret")
    monkeypatch.setenv("word123", "OOPS")
    env = {
        "TOKEN": "${PEER_TOKEN}",
        "PLAIN": "as it is",
        "INSIDE": "Bearer ${PEER_TOKEN}",
        "PASSWORD": "p@ss$word123",
    }
    async with MultiServerMCPClient({"time": stdio_entry("time", env)}) as client:
        variable = by_name(await client.get_tools())["variable"]
        values = {name: await variable.ainvoke({"name": name}) for name in env}
    assert values == {
        "TOKEN": "s3cret",
        "PLAIN": "as it is",
        "INSIDE": "Bearer s3cret",
        "PASSWORD": "p@ss$word123",
    }


@pytest.mark.parametrize("env", [None, {}], ids=["none", "empty"])
async def test_a_program_without_variables_of_its_own_has_a_path_to_run_with(
    env: dict[str, str] | None,
) -> None:
    entry = {**stdio_entry("time"), "env": env}
    async with MultiServerMCPClient({"time": entry}) as client:
        variable = by_name(await client.get_tools())["variable"]
        assert await variable.ainvoke({"name": "PATH"}) == os.environ["PATH"]


@differs("`${VAR}` that is not set")
async def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PEER_UNSET", raising=False)
    with pytest.raises(PlaitError, match="PEER_UNSET"):
        await MultiServerMCPClient(
            {"time": stdio_entry("time", {"TOKEN": "${PEER_UNSET}"})}
        ).get_tools()


@differs("Content of a single text")
async def test_the_tools_of_several_transports_are_listed_and_called(websocket: str) -> None:
    connections: Json = {
        "math": stdio_entry("math"),
        "weather": stdio_entry("weather"),
        "time": {"transport": "websocket", "url": websocket},
    }
    async with MultiServerMCPClient(connections) as client:
        tools = by_name(await client.get_tools())
        assert all(isinstance(tool, BaseTool) for tool in tools.values())
        assert {"add", "multiply", "report", "now"} <= set(tools)
        assert "report" not in by_name(await client.get_tools(server_name="math"))
        assert "report" in by_name(await client.get_tools(server_name="weather"))
        assert "now" in by_name(await client.get_tools(server_name="time"))
        assert await tools["add"].ainvoke({"a": 2, "b": 3}) == "5"
        assert await tools["multiply"].ainvoke({"a": 4, "b": 5}) == "20"
        assert await tools["report"].ainvoke({"city": "London"}) == "Drizzle in London"
        assert await tools["now"].ainvoke({"args": ""}) == "twenty past five"


async def test_tools_are_loaded_over_sessions_of_the_client(websocket: str) -> None:
    connections: Json = {
        "math": stdio_entry("math"),
        "time": {"transport": "websocket", "url": websocket},
    }
    client = MultiServerMCPClient(connections)
    async with client.session("math") as session:
        math = await load_mcp_tools(session)
        assert await math[0].ainvoke({"a": 2, "b": 3}) == "5"
    async with client.session("time") as session:
        clock = await load_mcp_tools(session)
        assert await clock[0].ainvoke({"args": ""}) == "twenty past five"
    assert {"add", "now"} <= set(by_name([*math, *clock]))
    await client.aclose()


@differs("Sessions")
async def test_calls_share_a_session(servers: dict[str, ServerProcess]) -> None:
    connections = {"time": http(servers["time"], protocol="legacy")}
    async with MultiServerMCPClient(connections) as client:
        visitor = by_name(await client.get_tools())["visitor"]
        first = str(await visitor.ainvoke({})).split()[-1]
        assert first != "-"
        assert str(await visitor.ainvoke({})).split()[-1] == first


@differs("Client in `async with`")
async def test_a_client_may_be_used_with_a_block() -> None:
    async with MultiServerMCPClient({"math": stdio_entry("math")}) as client:
        assert await client.get_tools()


async def test_a_prompt_of_the_client_becomes_messages() -> None:
    async with MultiServerMCPClient({"math": stdio_entry("math")}) as client:
        messages = await client.get_prompt("math", "tutor", arguments={"topic": "roots, powers"})
    assert isinstance(messages[0], AIMessage)
    assert messages[0].content == "Let us look at roots, powers."


async def test_resources_of_all_servers_or_of_one_become_blobs() -> None:
    connections = {"math": stdio_entry("math"), "weather": stdio_entry("weather")}
    async with MultiServerMCPClient(connections) as client:
        blobs = await client.get_resources()
        assert all(isinstance(blob, Blob) for blob in blobs)
        data = {str(blob.metadata["uri"]): blob.data for blob in blobs}
        assert data["math://formulas"] == "a² + b² = c²"
        assert data["weather://today"] == "Drizzle, later rain"
        (formulas,) = await client.get_resources(server_name="math")
        assert (formulas.metadata["uri"], formulas.data) == ("math://formulas", "a² + b² = c²")
        some = await client.get_resources("weather", uris="weather://today")
        assert [blob.data for blob in some] == ["Drizzle, later rain"]


async def loaded(server: ServerProcess, *interceptors: Any) -> dict[str, BaseTool]:
    tools = await load_mcp_tools(
        None, connection=http(server), tool_interceptors=list(interceptors)
    )
    return by_name(tools)


async def test_an_interceptor_changes_arguments_and_the_tool(
    servers: dict[str, ServerProcess],
) -> None:
    async def doubled(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        doubled = {name: 2 * value for name, value in request.args.items()}
        return await handler(request.override(args=doubled))

    async def redirected(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        assert request.name == "add"
        return await handler(request.override(name="multiply"))

    assert await (await loaded(servers["math"], doubled))["add"].ainvoke({"a": 2, "b": 3}) == "10"
    assert (
        await (await loaded(servers["math"], redirected))["add"].ainvoke({"a": 5, "b": 2}) == "10"
    )


@differs("MCP types")
async def test_an_interceptor_changes_or_replaces_the_result(
    servers: dict[str, ServerProcess],
) -> None:
    async def marked(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        result = await handler(request)
        assert isinstance(result, CallToolResult)
        texts = [cast("TextContent", block).text for block in result.content]
        content: list[Any] = [TextContent(text=f"Modified: {text}") for text in texts]
        return CallToolResult(content=content, is_error=result.is_error)

    async def invented(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        return CallToolResult(content=[TextContent(text="made up")], is_error=False)

    add = (await loaded(servers["math"], marked))["add"]
    assert await add.ainvoke({"a": 2, "b": 3}) == "Modified: 5"
    add = (await loaded(servers["math"], invented))["add"]
    assert await add.ainvoke({"a": 2, "b": 3}) == "made up"


async def test_an_interceptor_keeps_results_for_later_calls(
    servers: dict[str, ServerProcess],
) -> None:
    kept: dict[str, MCPToolCallResult] = {}

    async def caching(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        key = f"{request.name}:{request.args}"
        if key not in kept:
            kept[key] = await handler(request)
        return kept[key]

    add = (await loaded(servers["math"], caching))["add"]
    assert [await add.ainvoke({"a": 2, "b": 3}) for _ in range(2)] == ["5", "5"]
    assert len(kept) == 1
    assert await add.ainvoke({"a": 5, "b": 7}) == "12"
    assert len(kept) == 2


async def test_interceptors_wrap_each_other_in_their_order(
    servers: dict[str, ServerProcess],
) -> None:
    order: list[str] = []

    def noting(name: str) -> Any:
        async def note(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
            order.append(f"before {name}")
            result = await handler(request)
            order.append(f"after {name}")
            return result

        return note

    add = (await loaded(servers["math"], noting("1"), noting("2")))["add"]
    assert await add.ainvoke({"a": 2, "b": 3}) == "5"
    assert order == ["before 1", "before 2", "after 2", "after 1"]


async def test_what_an_interceptor_raises_is_raised_and_its_message_is_the_answer(
    servers: dict[str, ServerProcess],
) -> None:
    async def failing(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        raise ValueError("no, not today")

    async def answering(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        return ToolMessage("in its own words", name=request.name, tool_call_id="c9")

    with pytest.raises(ValueError, match="not today"):
        await (await loaded(servers["math"], failing))["add"].ainvoke({"a": 2, "b": 3})
    add = (await loaded(servers["math"], answering))["add"]
    message = await add.ainvoke(called("add", "c9", a=2, b=3))
    assert isinstance(message, ToolMessage)
    assert (message.content, message.name, message.tool_call_id) == (
        *("in its own words", "add"),
        "c9",
    )


class Counted(AgentState[Any]):
    counter: NotRequired[int]


async def test_a_command_of_an_interceptor_changes_the_state_of_an_agent(
    servers: dict[str, ServerProcess],
) -> None:
    async def count(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        runtime = cast("ToolRuntime[Any, Any]", request.runtime)
        told = ToolMessage("counted", tool_call_id=cast("str", runtime.tool_call_id))
        return Command(update={"counter": 42, "messages": [told]}, goto="__end__")

    connections = {"math": http(servers["math"])}
    async with MultiServerMCPClient(connections, tool_interceptors=[count]) as client:
        call = tool_call("add", a=1, b=1)
        model = ScriptedChatModel([AIMessage("", tool_calls=[call]), AIMessage("never")])
        agent = create_agent(
            model,
            await client.get_tools(server_name="math"),
            state_schema=Counted,
            checkpointer=MemorySaver(),
        )
        state = cast("Any", {"messages": [HumanMessage("Count.")], "counter": 0})
        result = await agent.ainvoke(state, {"configurable": {"thread_id": "1"}})
    assert result["counter"] == 42
    assert "counted" in [message.content for message in result["messages"]]


async def test_prefixed_tools_of_one_name_go_to_their_own_servers_in_one_turn(
    servers: dict[str, ServerProcess],
) -> None:
    connections = {"weather": http(servers["weather"]), "time": http(servers["time"])}
    async with MultiServerMCPClient(connections, tool_name_prefix=True) as client:
        tools = await client.get_tools()
        assert {"weather_search", "time_search"} <= set(by_name(tools))
        calls = [
            {**tool_call("weather_search", query="rain"), "id": "w"},
            {**tool_call("time_search", query="tea"), "id": "t"},
        ]
        model = ScriptedChatModel([AIMessage("", tool_calls=calls), AIMessage("Here.")])
        agent = create_agent(model, tools, checkpointer=MemorySaver())
        result = await agent.ainvoke(
            {"messages": [HumanMessage("Search.")]}, {"configurable": {"thread_id": "1"}}
        )
    answers = {
        message.tool_call_id: message.content
        for message in result["messages"]
        if isinstance(message, ToolMessage)
    }
    assert answers == {"w": "weather about rain", "t": "appointments about tea"}


@differs("Two servers with one tool name")
async def test_tools_of_one_name_are_told_apart_without_a_prefix(
    servers: dict[str, ServerProcess],
) -> None:
    connections = {"weather": http(servers["weather"]), "time": http(servers["time"])}
    async with MultiServerMCPClient(connections, tool_name_prefix=False) as client:
        names = [tool.name for tool in await client.get_tools() if "search" in tool.name]
    assert sorted(names) == ["time__search", "weather__search"]


@pytest.mark.parametrize("transport", ["http", "streamable_http", "streamable-http"])
async def test_streamable_http_has_three_names(
    transport: str, servers: dict[str, ServerProcess]
) -> None:
    async with MultiServerMCPClient({"desk": http(servers["desk"], transport)}) as client:
        assert "opened" in by_name(await client.get_tools(server_name="desk"))


@pytest.mark.parametrize("kind", ["time", "sse"])
@differs("HTTP client")
async def test_a_factory_makes_the_http_client(
    kind: str, servers: dict[str, ServerProcess]
) -> None:
    made: list[Any] = []

    def factory(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        made.append((headers, timeout, auth))
        limits = httpx2.Limits(max_keepalive_connections=5, max_connections=10)
        return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, limits=limits)

    transport = "sse" if kind == "sse" else "streamable_http"
    entry = http(servers[kind], transport, httpx_client_factory=factory)
    async with MultiServerMCPClient({"time": entry}) as client:
        now = by_name(await client.get_tools(server_name="time"))["now"]
        message = await now.ainvoke(called("now"))
    assert message.content == "twenty past five"
    assert made

    def older(headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        return httpx.AsyncClient(headers=headers, auth=auth)

    entry = http(servers[kind], transport, httpx_client_factory=older)
    with pytest.raises(ConfigError, match="httpx2"):
        await MultiServerMCPClient({"time": entry}).get_tools()
