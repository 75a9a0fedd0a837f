"""What programs do with tools besides calling them: copy, wrap, limit, mock and reconfigure."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Generator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

from plait import (
    ConfigError,
    MCPToolCallRequest,
    MultiServerMCPClient,
    ProtocolError,
    convert_mcp_tool_to_langchain_tool,
    create_session,
    load_mcp_tools,
)
from plait.langchain import MCPTool, ToolFailedException
from plait.testing import ScriptedChatModel, running, tool_call
from tests.nursery import fault_server
from tests.servers import raw_stdio_config
from tests.servers.langchain_servers import math_server, served, stdio_entry

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Json = dict[str, Any]
NUMBER: Json = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a"],
}
ADD = Tool(name="add", input_schema=NUMBER)


@pytest.fixture(scope="module")
def time_url() -> Generator[str]:
    with running(served("time")) as (server,):
        yield server.url


@pytest.fixture(scope="module")
def faults_url() -> Generator[str]:
    """A server with the tool `hang`, which never answers."""
    with fault_server() as server:
        yield server.url


async def tool_of(client: MultiServerMCPClient, name: str) -> MCPTool:
    tool = next(tool for tool in await client.get_tools() if tool.name == name)
    assert isinstance(tool, MCPTool)
    return tool


def called(tool: BaseTool, **arguments: Any) -> Json:
    return {"type": "tool_call", "id": "c1", "name": tool.name, "args": arguments}


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda tool: tool.model_copy(deep=True)])
async def test_a_deep_copy_is_a_tool_of_the_same_connection(copied: Any) -> None:
    async with MultiServerMCPClient({"math": math_server()}) as client:
        add = await tool_of(client, "add")
        assert await add.ainvoke({"a": 1, "b": 2}) == "3"
        other = copied(add)
        other.description = "Another."
        other.metadata["own"] = True
        other.args_schema["properties"]["a"]["title"] = "Other"

        assert (await other.ainvoke({"a": 1, "b": 2}), other.name) == ("3", "add")
        assert (add.description, "own" in (add.metadata or {})) == ("Add two integers.", False)
        assert add.args["a"]["title"] == "A"


async def test_the_coroutine_of_a_tool_returns_content_and_artifact_or_raises() -> None:
    async with MultiServerMCPClient({"math": math_server()}) as client:
        divide = await tool_of(client, "divide")
        content, artifact = await divide.coroutine(a=1, b=2)
        assert (content, artifact["tool"]) == ("0.5", "divide")
        with pytest.raises(ToolException, match="b must not be 0"):
            await divide.coroutine(a=1, b=0)


@pytest.mark.parametrize("how", ["set", "copied"])
async def test_a_coroutine_around_that_of_a_tool_is_called_instead(how: str) -> None:
    seen: list[Json] = []
    async with MultiServerMCPClient({"math": math_server()}) as client:
        divide = await tool_of(client, "divide")
        original = divide.coroutine

        async def wrapped(**arguments: Any) -> Any:
            seen.append(arguments)
            return await original(**{**arguments, "a": 10 * arguments["a"]})

        if how == "set":
            divide.coroutine = wrapped
        else:
            divide = divide.model_copy(update={"coroutine": wrapped})
        assert divide.coroutine is wrapped
        message = await divide.ainvoke(called(divide, a=1, b=2))
        assert (message.content, message.artifact["tool"], message.status) == (
            *("5", "divide"),
            "success",
        )
        failed = await divide.ainvoke(called(divide, a=1, b=0))
        assert (failed.content, failed.status) == ("b must not be 0", "error")
        assert failed.artifact["tool"] == "divide"
        assert await asyncio.to_thread(divide.invoke, {"a": 3, "b": 2}) == "15"
        assert await divide.arun({"a": 4, "b": 2}) == "20"
    assert seen == [{"a": 1, "b": 2}, {"a": 1, "b": 0}, {"a": 3, "b": 2}, {"a": 4, "b": 2}]


async def test_an_agent_calls_the_coroutine_that_was_set() -> None:
    async with MultiServerMCPClient({"math": math_server()}) as client:
        add = await tool_of(client, "add")
        original = add.coroutine

        async def louder(plait_runtime: Any = None, **arguments: Any) -> Any:
            content, artifact = await original(**arguments)
            return f"{content}!", artifact

        add.coroutine = louder
        model = ScriptedChatModel(
            [AIMessage("", tool_calls=[tool_call("add", a=1, b=2)]), AIMessage("Done.")]
        )
        result = await create_agent(model, [add]).ainvoke({"messages": [HumanMessage("Add.")]})
    (answer,) = [one for one in result["messages"] if isinstance(one, ToolMessage)]
    assert answer.content == "3!"


async def test_a_tool_handles_its_failures_as_langchain_says() -> None:
    async with MultiServerMCPClient({"math": math_server()}) as client:
        divide = await tool_of(client, "divide")
        call = called(divide, a=1, b=0)

        divide.handle_tool_error = "Try something else."
        assert (await divide.ainvoke(call)).content == "Try something else."
        divide.handle_tool_error = lambda error: f"handled: {error}"
        message = await divide.ainvoke(call)
        assert (message.content, message.status) == ("handled: b must not be 0", "error")
        divide.handle_tool_error = True
        assert (await divide.ainvoke(call)).content == "b must not be 0"
        assert await divide.ainvoke({"a": 1, "b": 0}) == "b must not be 0"
        divide.handle_tool_error = False
        with pytest.raises(ToolFailedException, match="b must not be 0") as raised:
            await divide.ainvoke(call)
        assert (raised.value.server, raised.value.tool) == ("math", "divide")
        with pytest.raises(ToolException, match="b must not be 0"):
            await asyncio.to_thread(divide.invoke, {"a": 1, "b": 0})
        divide.handle_tool_error = None
        assert (await divide.ainvoke(call)).artifact["tool"] == "divide"
        assert await divide.ainvoke({"a": 1, "b": 2}) == "0.5"


async def test_run_and_arun_take_what_an_agent_executor_passes() -> None:
    async with MultiServerMCPClient({"math": math_server()}) as client:
        add = await tool_of(client, "add")
        passed: Json = {"verbose": False, "color": "green", "callbacks": None}
        assert await add.arun({"a": 1, "b": 2}, **passed) == "3"
        assert await asyncio.to_thread(lambda: add.run({"a": 1, "b": 2}, **passed)) == "3"
        assert await add.arun({"a": 1, "b": 2}, llm_prefix="Thought:", **passed) == "3"


async def test_a_tool_with_a_timeout_of_its_own_gives_up_in_time(faults_url: str) -> None:
    async with MultiServerMCPClient({"faults": {"url": faults_url}}) as client:
        slow, hang = await tool_of(client, "slow"), await tool_of(client, "hang")
        for patient in (slow.with_timeout(30), slow.with_timeout(timedelta(seconds=30)), slow):
            assert await patient.ainvoke({"seconds": 0}) == "slept 0 s"
        message = await hang.with_timeout(0.05).ainvoke(called(hang))
        assert (message.status, message.artifact["error"]["error"]) == ("error", "CallTimeoutError")
        message = await hang.with_config(timeout=0.05).ainvoke(called(hang))  # pyright: ignore[reportCallIssue]
        assert (message.status, message.artifact["error"]["error"]) == ("error", "CallTimeoutError")
        assert await slow.ainvoke({"seconds": 0}) == "slept 0 s"
        with pytest.raises(ConfigError):
            slow.with_timeout(-1)


async def test_the_limit_of_a_tool_holds_in_an_agent(faults_url: str) -> None:
    async with MultiServerMCPClient({"faults": {"url": faults_url}}) as client:
        tool = (await tool_of(client, "hang")).with_timeout(0.05)
        model = ScriptedChatModel(
            [AIMessage("", tool_calls=[tool_call("hang")]), AIMessage("Done.")]
        )
        result = await create_agent(model, [tool]).ainvoke({"messages": [HumanMessage("When?")]})
    (answer,) = [one for one in result["messages"] if isinstance(one, ToolMessage)]
    assert answer.status == "error"


async def test_changed_headers_reach_tools_that_were_handed_out(time_url: str) -> None:
    headers = {"X-User": "ada"}
    async with MultiServerMCPClient({"time": {"url": time_url, "headers": headers}}) as client:
        visitor = await tool_of(client, "visitor")
        assert str(await visitor.ainvoke({})).startswith("ada ")
        client.connections["time"]["headers"]["X-User"] = "grace"
        assert str(await visitor.ainvoke({})).startswith("grace ")
        client.connections["time"] = {"url": time_url, "headers": {"X-User": "mary"}}
        assert str(await asyncio.to_thread(visitor.invoke, {})).startswith("mary ")
        message = await visitor.ainvoke(called(visitor), {"callbacks": []})
        assert str(message.content).startswith("mary ")


async def test_a_server_taken_from_the_connections_serves_its_tools_until_the_next_use() -> None:
    servers: Json = {"math": math_server(), "more": math_server()}
    async with MultiServerMCPClient(servers, tool_name_prefix=True) as client:
        add = await tool_of(client, "math_add")
        del client.connections["math"]
        assert await add.ainvoke({"a": 1, "b": 2}) == "3"
        assert not [tool for tool in await client.get_tools() if tool.name == "math_add"]


async def test_the_client_tells_whether_it_prefixes_names() -> None:
    assert MultiServerMCPClient({"math": math_server()}).tool_name_prefix is False
    assert MultiServerMCPClient({}, tool_name_prefix=True).tool_name_prefix is True


@pytest.mark.parametrize("limit", [timedelta(seconds=20), 20, 20.5])
async def test_the_read_timeout_of_a_session_may_be_a_timedelta(limit: Any) -> None:
    entry: Json = {**stdio_entry("math"), "session_kwargs": {"read_timeout_seconds": limit}}
    async with MultiServerMCPClient({"math": entry}) as client:
        add = await tool_of(client, "add")
        assert await add.ainvoke({"a": 1, "b": 2}) == "3"
        async with client.session("math") as session:
            assert len((await session.list_tools()).tools) == 6


async def test_session_kwargs_may_have_a_callback_that_the_client_has_too() -> None:
    heard: list[Any] = []

    async def hear(params: Any) -> None:
        heard.append(params.data)

    entry: Json = {**stdio_entry("time"), "session_kwargs": {"logging_callback": hear}}
    async with create_session(entry) as session:
        await session.initialize()
        (work,) = [tool for tool in await load_mcp_tools(session) if tool.name == "work"]
        assert await work.ainvoke({"task": "tea"}) == "tea is done"
    assert "tea 0" in heard


def answering(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)])


async def test_a_mocked_session_is_called_as_a_session_is() -> None:
    session = AsyncMock()
    session.call_tool.return_value = answering("mocked")
    session.list_tools.return_value = SimpleNamespace(tools=[ADD])

    (loaded,) = await load_mcp_tools(session)
    assert await loaded.ainvoke({"a": "1"}) == "mocked"
    session.call_tool.assert_awaited_once_with("add", {"a": 1}, progress_callback=None)
    session.list_tools.assert_awaited_once_with()
    converted = convert_mcp_tool_to_langchain_tool(session, ADD)
    assert await converted.ainvoke({"a": 2}) == "mocked"


async def test_a_mock_with_the_methods_of_a_session_is_one() -> None:
    session = AsyncMock(spec=ClientSession)
    session.call_tool.return_value = answering("mocked")
    session.list_tools.side_effect = [
        ListToolsResult(tools=[ADD], next_cursor="2"),
        ListToolsResult(tools=[Tool(name="other", input_schema=NUMBER)]),
    ]
    tools = await load_mcp_tools(session)
    assert [tool.name for tool in tools] == ["add", "other"]
    assert await tools[1].ainvoke({"a": 1}) == "mocked"


class Duck:
    """Has what tools need of a session, and nothing else."""

    async def list_tools(self, cursor: str | None = None) -> Any:
        pages = {None: ([ADD], "next"), "next": ([Tool(name="quack", input_schema=NUMBER)], None)}
        tools, after = pages[cursor]
        return SimpleNamespace(tools=tools, next_cursor=after)

    async def call_tool(self, name: str, arguments: Json, progress_callback: Any = None) -> Any:
        return answering(f"{name} {sorted(arguments)}")


async def test_what_looks_like_a_session_is_called() -> None:
    tools = await load_mcp_tools(cast("Any", Duck()))
    assert [await tool.ainvoke({"a": 1}) for tool in tools] == ["add ['a']", "quack ['a']"]


class Counting(ClientSession):
    """A session that counts its calls."""

    calls = 0

    async def call_tool(self, *args: Any, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.calls += 1
        return await super().call_tool(*args, **options)


async def test_a_method_of_a_subclass_of_the_session_is_called() -> None:
    entry = cast("Json", stdio_entry("math"))
    parameters = StdioServerParameters(command=entry["command"], args=entry["args"])
    async with stdio_client(parameters) as streams, Counting(*streams) as session:
        await session.initialize()
        (add, *_) = await load_mcp_tools(session)
        assert await add.ainvoke({"a": 1, "b": 2}) == "3"
        assert session.calls == 1


async def test_a_method_that_a_test_replaced_on_a_client_is_called() -> None:
    async with Client(math_server()) as client:
        (add, *_) = await load_mcp_tools(client)
        client.call_tool = AsyncMock(return_value=answering("replaced"))  # ty: ignore[invalid-assignment]
        assert await add.ainvoke({"a": 1, "b": 2}) == "replaced"


def sdk_parameters(mode: str) -> StdioServerParameters:
    entry = cast("Json", raw_stdio_config(mode, era="legacy"))
    return StdioServerParameters(command=entry["command"], args=entry["args"])


@pytest.mark.parametrize("whose", ["the SDK's", "ours"])
async def test_one_bad_tool_does_not_lose_the_list_of_a_session(
    whose: str, caplog: pytest.LogCaptureFixture
) -> None:
    if whose == "ours":
        async with create_session(raw_stdio_config("tool-with-bad-schema", era="legacy")) as ours:
            await ours.initialize()
            await check_bad_tool(ours, caplog)
        return
    parameters = sdk_parameters("tool-with-bad-schema")
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        await check_bad_tool(session, caplog)


async def check_bad_tool(session: ClientSession, caplog: pytest.LogCaptureFixture) -> None:
    tools = await load_mcp_tools(session, server_name="raw")
    assert [tool.name for tool in tools] == ["good"]
    assert await tools[0].ainvoke({}) == "good"
    assert "bad_schema" in caplog.text
    with pytest.raises(ProtocolError, match="bad_schema"):
        await load_mcp_tools(session, throw_on_load_error=True)


async def test_a_resource_of_which_a_session_gets_the_uri_is_read() -> None:
    parameters = sdk_parameters("uri-only-resource")
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        tools = await load_mcp_tools(session, output_handling={"resource": "content"})
        found = next(tool for tool in tools if tool.name == "uri-only-resource")
        content = await found.ainvoke({})
    assert "text of raw://only/uri" in str(content)


async def test_arguments_over_a_session_are_checked_first() -> None:
    async with Client(math_server()) as client:
        (add, *_) = await load_mcp_tools(client)
        assert await add.ainvoke({"a": "1", "b": 2}) == "3"
        message = await add.ainvoke(called(add, a="one", b=2))
        assert message.artifact["error"]["error"] == "InvalidArgumentsError"
        one = convert_mcp_tool_to_langchain_tool(client, ADD)
        message = await one.ainvoke(called(one, b=2))
        assert message.artifact["error"]["error"] == "InvalidArgumentsError"


@pytest.mark.parametrize("limit", [0.05, timedelta(milliseconds=50)])
async def test_the_tools_of_a_session_or_connection_have_a_limit(
    limit: float | timedelta, faults_url: str
) -> None:
    async with Client(faults_url) as client:
        await check_limit(await load_mcp_tools(client, default_tool_timeout=limit))
    connection: Any = {"url": faults_url}
    await check_limit(await load_mcp_tools(None, connection=connection, default_tool_timeout=limit))


async def check_limit(tools: list[BaseTool]) -> None:
    hang = next(tool for tool in tools if tool.name == "hang")
    message = await hang.ainvoke(called(hang))
    assert message.artifact["error"]["error"] == "CallTimeoutError"


async def test_hooks_outside_a_graph_get_an_empty_state() -> None:
    states: list[Any] = []

    def before(request: MCPToolCallRequest, state: Any) -> None:
        states.append(state)

    async with MultiServerMCPClient({"math": math_server()}, before_tool_call=before) as client:
        await (await tool_of(client, "add")).ainvoke({"a": 1, "b": 2})
    assert states == [{}]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    "pair", [["short", {"own": 1}], ([{"type": "text", "text": "block"}], None)]
)
async def test_a_hook_may_return_content_and_artifact(pair: Any, wrapped: bool) -> None:
    def after(end: Any) -> Any:
        return {"result": pair} if wrapped else pair

    async with MultiServerMCPClient({"math": math_server()}, after_tool_call=after) as client:
        add = await tool_of(client, "add")
        message = await add.ainvoke(called(add, a=1, b=2))
        assert (message.content, message.artifact) == tuple(pair)
        assert (message.status, message.tool_call_id) == ("success", "c1")
        assert await add.ainvoke({"a": 1, "b": 2}) == pair[0]


async def test_a_tool_is_no_structured_tool() -> None:
    async with MultiServerMCPClient({"math": math_server()}) as client:
        assert not isinstance(await tool_of(client, "add"), StructuredTool)
