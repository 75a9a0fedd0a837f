"""Running agents by script, and looking at what their tools answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import BaseTool

from plait import MCPToolsMiddleware
from plait.agents.engines.langchain.scripted_model import Answer, Turn
from plait.testing import ScriptedChatModel, tool_call

Script = Sequence[Turn] | Answer

END = "done"
"""What a scripted agent says last."""


def agent_of(script: Script, tools: Sequence[BaseTool] | MCPToolsMiddleware) -> tuple[Any, Any]:
    """Make an agent and its model, with tools given once or turn by turn."""
    model = ScriptedChatModel(script)
    if isinstance(tools, MCPToolsMiddleware):
        return create_agent(model, [], middleware=[tools]), model
    return create_agent(model, list(tools)), model


async def arun(
    script: Script,
    tools: Sequence[BaseTool] | MCPToolsMiddleware,
    config: Mapping[str, Any] | None = None,
) -> list[ToolMessage]:
    """Run an agent to its end in this loop, and return what its tools answered."""
    agent, _ = agent_of(script, tools)
    return answers_of(await agent.ainvoke(question(), config))


def run(
    script: Script,
    tools: Sequence[BaseTool] | MCPToolsMiddleware,
    config: Mapping[str, Any] | None = None,
) -> list[ToolMessage]:
    """Run an agent to its end without a loop, and return what its tools answered."""
    agent, _ = agent_of(script, tools)
    return answers_of(agent.invoke(question(), config))


def question() -> dict[str, Any]:
    """Return what a run starts with."""
    return {"messages": [HumanMessage("go")]}


def answers_of(result: Mapping[str, Any]) -> list[ToolMessage]:
    """Return the tool messages of a run that has come to its end."""
    messages = result["messages"]
    assert messages[-1].text == END
    return [message for message in messages if isinstance(message, ToolMessage)]


def one_by_one(*calls: Any) -> list[Turn]:
    """Return a script with one call a turn."""
    return [*([call] for call in calls), END]


def at_once(*calls: Any) -> list[Turn]:
    """Return a script with all calls in one turn."""
    return [list(calls), END]


def named(tools: Sequence[BaseTool], name: str) -> BaseTool:
    """Find a tool by its name."""
    return next(tool for tool in tools if tool.name == name)


__all__ = [
    "END",
    "Script",
    "agent_of",
    "answers_of",
    "arun",
    "at_once",
    "named",
    "one_by_one",
    "question",
    "run",
    "tool_call",
]
