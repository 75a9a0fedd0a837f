"""The agents of langchain-classic, which run tools with `tool.run` and without a config."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import BaseTool

from plait import MultiServerMCPClient
from plait.testing import ScriptedChatModel, tool_call
from tests.nursery import stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

PROMPT = ChatPromptTemplate.from_messages(
    [("system", "Use the tools."), ("human", "{input}"), ("placeholder", "{agent_scratchpad}")]
)


def executor_of(tools: list[BaseTool]) -> AgentExecutor:
    calls = [tool_call("add", a=2, b=3)], [tool_call("fail", text="no more")]
    model = ScriptedChatModel([*calls, "It is 5."])
    agent: Any = create_tool_calling_agent(model, tools, PROMPT)
    return AgentExecutor(agent=agent, tools=tools, return_intermediate_steps=True)


def seen(outcome: dict[str, Any]) -> list[str]:
    return [str(observation) for _, observation in outcome["intermediate_steps"]]


async def test_an_agent_executor_calls_the_tools() -> None:
    async with MultiServerMCPClient({"server": stdio_config()}) as client:
        tools = await client.get_tools(include=["add", "fail"])
        outcome = await executor_of(tools).ainvoke({"input": "What is 2 + 3?"})

    assert outcome["output"] == "It is 5."
    first, second = seen(outcome)
    assert first == "5"
    assert "no more" in second


def test_an_agent_executor_without_a_loop_calls_them_too() -> None:
    client = MultiServerMCPClient({"server": stdio_config()})
    try:
        tools = client.get_tools_blocking(include=["add", "fail"])
        outcome = executor_of(tools).invoke({"input": "What is 2 + 3?"})
    finally:
        client.close()

    assert outcome["output"] == "It is 5."
    assert seen(outcome)[0] == "5"


async def test_run_and_arun_take_no_config() -> None:
    async with MultiServerMCPClient({"server": stdio_config()}) as client:
        (add,) = await client.get_tools(include=["add"])

        assert await add.arun({"a": 1, "b": 1}, config=None) == "2"
