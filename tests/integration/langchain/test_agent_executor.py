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

SERVERS: Any = {"server": stdio_config()}
QUESTION = {"input": "What is 2 + 3?"}
PROMPT = ChatPromptTemplate.from_messages(
    [("system", "Use the tools."), ("human", "{input}"), ("placeholder", "{agent_scratchpad}")]
)


def executor_of(tools: list[BaseTool]) -> AgentExecutor:
    calls = [tool_call("add", a=2, b=3)], [tool_call("fail", text="no more")]
    model = ScriptedChatModel([*calls, "It is 5."])
    agent: Any = create_tool_calling_agent(model, tools, PROMPT)
    return AgentExecutor(agent=agent, tools=tools, return_intermediate_steps=True)


def check(outcome: dict[str, Any]) -> None:
    assert outcome["output"] == "It is 5."
    first, second = [str(observation) for _, observation in outcome["intermediate_steps"]]
    assert first == "5"
    assert "no more" in second


async def test_an_agent_executor_calls_the_tools() -> None:
    async with MultiServerMCPClient(SERVERS) as client:
        tools = await client.get_tools(include=["add", "fail"])
        outcome = await executor_of(tools).ainvoke(QUESTION)
        (add,) = await client.get_tools(include=["add"])
        assert await add.arun({"a": 1, "b": 1}, config=None) == "2"
    check(outcome)


def test_an_agent_executor_without_a_loop_calls_them_too() -> None:
    with MultiServerMCPClient(SERVERS) as client:
        tools = client.get_tools_blocking(include=["add", "fail"])
        check(executor_of(tools).invoke(QUESTION))
