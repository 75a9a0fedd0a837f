"""Agents that use the tools of servers: state, commands, calls side by side."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NotRequired, TypedDict

import pytest
from langchain.agents import AgentState, create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import MemorySaver
from langgraph.types import Command

from plait import MCPToolCallRequest, MCPToolCallResult, MultiServerMCPClient
from plait.testing import ScriptedChatModel
from tests.servers.langchain_servers import math_server, time_server, weather_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

Handler = Callable[[MCPToolCallRequest], Awaitable[MCPToolCallResult]]


def calling(*calls: tuple[str, str, dict[str, Any]]) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[
            {"type": "tool_call", "id": call_id, "name": name, "args": args}
            for call_id, name, args in calls
        ],
    )


def answers_in(result: dict[str, Any]) -> dict[str, ToolMessage]:
    found = [one for one in result["messages"] if isinstance(one, ToolMessage)]
    return {message.tool_call_id: message for message in found}


async def test_calls_of_one_turn_go_to_their_own_servers() -> None:
    servers = {"weather": weather_server(), "time": time_server()}
    async with MultiServerMCPClient(servers, tool_name_prefix=True) as client:
        model = ScriptedChatModel(
            [
                calling(
                    ("c1", "weather_search", {"query": "Paris"}),
                    ("c2", "time_search", {"query": "Paris"}),
                ),
                AIMessage("Done."),
            ]
        )
        agent = create_agent(model, await client.get_tools(), checkpointer=MemorySaver())
        result = await agent.ainvoke(
            {"messages": [HumanMessage("Look both up.")]}, {"configurable": {"thread_id": "1"}}
        )

    answers = answers_in(result)
    assert {call_id: answer.content for call_id, answer in answers.items()} == {
        "c1": "weather about Paris",
        "c2": "appointments about Paris",
    }
    assert result["messages"][-1].content == "Done."


async def test_an_agent_reads_a_failure_and_goes_on() -> None:
    async with MultiServerMCPClient({"math": math_server()}) as client:
        model = ScriptedChatModel(
            [calling(("c1", "divide", {"a": 1, "b": 0})), AIMessage("That cannot be done.")]
        )
        agent = create_agent(model, await client.get_tools())
        result = await agent.ainvoke({"messages": [HumanMessage("Divide.")]})

    (answer,) = answers_in(result).values()
    assert (answer.status, answer.content) == ("error", "b must not be 0")
    assert result["messages"][-1].content == "That cannot be done."


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
        model = ScriptedChatModel([calling(("c1", "add", {"a": 1, "b": 1})), AIMessage("never")])
        agent = create_agent(
            model, await client.get_tools(), state_schema=Counting, checkpointer=MemorySaver()
        )
        result = await agent.ainvoke(
            {"messages": [HumanMessage("Count.")], "counter": 1},  # pyright: ignore[reportArgumentType]
            {"configurable": {"thread_id": "1"}},
        )

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
        model = ScriptedChatModel([calling(("c1", "add", {"a": 1, "b": 1})), AIMessage("Done.")])
        agent = create_agent(model, await client.get_tools(), context_schema=Given)
        result = await agent.ainvoke({"messages": [HumanMessage("Add.")]}, context={"b": 9})

    assert seen == [("c1", {"b": 9}, 2)]
    assert answers_in(result)["c1"].content == "10"
