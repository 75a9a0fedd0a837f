"""Agents that use the tools of servers: state, commands, calls side by side."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

import pytest
from langchain.agents import AgentState, create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import MemorySaver
from langgraph.types import Command

from plait import MCPToolCallRequest, MCPToolCallResult, MultiServerMCPClient
from plait.testing import ScriptedChatModel, tool_call
from tests.integration.langchain.compatibility.common import Handler, Json, tools_of
from tests.servers.langchain_servers import math_server, time_server, weather_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

THREAD: Any = {"configurable": {"thread_id": "1"}}


def agent_with(tools: list[BaseTool], *calls: ToolCall, **options: Any) -> Any:
    """Make an agent whose model makes these calls in one turn; their ids are c1, c2 and so on."""
    turn = AIMessage("", tool_calls=[{**call, "id": f"c{n}"} for n, call in enumerate(calls, 1)])
    model = ScriptedChatModel([turn, AIMessage("Done.")])
    return create_agent(model, tools, **options)


def answers_in(result: Json) -> dict[str, ToolMessage]:
    found = [one for one in result["messages"] if isinstance(one, ToolMessage)]
    return {message.tool_call_id: message for message in found}


async def test_calls_of_one_turn_go_to_their_own_servers() -> None:
    servers = {"weather": weather_server(), "time": time_server()}
    async with MultiServerMCPClient(servers, tool_name_prefix=True) as client:
        calls = [tool_call(f"{server}_search", query="Paris") for server in servers]
        agent = agent_with(await client.get_tools(), *calls, checkpointer=MemorySaver())
        result = await agent.ainvoke({"messages": [HumanMessage("Look both up.")]}, THREAD)

    assert {call_id: answer.content for call_id, answer in answers_in(result).items()} == {
        "c1": "weather about Paris",
        "c2": "appointments about Paris",
    }
    assert result["messages"][-1].content == "Done."


async def test_an_agent_reads_a_failure_and_goes_on() -> None:
    async with MultiServerMCPClient({"math": math_server()}) as client:
        agent = agent_with(await client.get_tools(), tool_call("divide", a=1, b=0))
        result = await agent.ainvoke({"messages": [HumanMessage("Divide.")]})

    (answer,) = answers_in(result).values()
    assert (answer.status, answer.content) == ("error", "b must not be 0")
    assert result["messages"][-1].content == "Done."


class Counting(AgentState[Any]):
    counter: NotRequired[int]


async def test_a_command_of_an_interceptor_changes_the_state_of_the_agent() -> None:
    async def count(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        runtime = request.runtime
        assert isinstance(runtime, ToolRuntime)
        assert runtime.tool_call_id == "c1"
        told = ToolMessage("counted", tool_call_id=runtime.tool_call_id)
        counter = runtime.state["counter"] + 42
        return Command(
            update={"counter": counter, "messages": [told, AIMessage("bye")]}, goto="__end__"
        )

    async with MultiServerMCPClient({"math": math_server()}, tool_interceptors=[count]) as client:
        tools = await client.get_tools(server_name="math")
        call = tool_call("add", a=1, b=1)
        agent = agent_with(tools, call, state_schema=Counting, checkpointer=MemorySaver())
        result = await agent.ainvoke({"messages": [HumanMessage("Count.")], "counter": 1}, THREAD)

    assert result["counter"] == 43
    assert answers_in(result)["c1"].content == "counted"


class Given(TypedDict):
    b: int


async def test_an_interceptor_sees_state_and_context_of_the_run() -> None:
    seen: list[Any] = []

    async def look(request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        runtime = request.runtime
        assert isinstance(runtime, ToolRuntime)
        seen.append((runtime.tool_call_id, runtime.context, len(runtime.state["messages"])))
        return await handler(request.override(args={**request.args, "b": runtime.context["b"]}))

    async with MultiServerMCPClient({"math": math_server()}, tool_interceptors=[look]) as client:
        call = tool_call("add", a=1, b=1)
        agent = agent_with(await client.get_tools(), call, context_schema=Given)
        result = await agent.ainvoke({"messages": [HumanMessage("Add.")]}, context={"b": 9})

    assert seen == [("c1", {"b": 9}, 2)]
    assert answers_in(result)["c1"].content == "10"


async def test_an_agent_calls_the_coroutine_that_was_set() -> None:
    async with MultiServerMCPClient({"math": math_server()}) as client:
        add: Any = (await tools_of(client))["add"]
        original = add.coroutine

        async def louder(plait_runtime: Any = None, **arguments: Any) -> Any:
            content, artifact = await original(**arguments)
            return f"{content}!", artifact

        add.coroutine = louder
        agent = agent_with([add], tool_call("add", a=1, b=2))
        result = await agent.ainvoke({"messages": [HumanMessage("Add.")]})
    assert answers_in(result)["c1"].content == "3!"


async def test_the_limit_of_a_tool_holds_in_an_agent(faults_url: str) -> None:
    async with MultiServerMCPClient({"faults": {"url": faults_url}}) as client:
        hang: Any = (await tools_of(client))["hang"]
        agent = agent_with([hang.with_timeout(0.05)], tool_call("hang"))
        result = await agent.ainvoke({"messages": [HumanMessage("When?")]})
    assert answers_in(result)["c1"].status == "error"
