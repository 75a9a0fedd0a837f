"""Agents that remember how they were made, so that they can be made again with more tools."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from langchain import agents
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph

AgentTool = BaseTool | Callable[..., Any] | dict[str, Any]
"""What LangChain takes for a tool."""

Agent = CompiledStateGraph[Any, Any, Any, Any]


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """The arguments of `create_agent`."""

    model: str | BaseChatModel
    tools: Sequence[AgentTool] = ()
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The other arguments, by name: `system_prompt`, `middleware`, `checkpointer` …"""

    @classmethod
    def of(cls, agent: object) -> AgentSpec:
        """Return how an agent was made; a spec is its own.

        Raises:
            TypeError: The agent was not made by `plait.create_agent`.
        """
        if isinstance(agent, AgentSpec):
            return agent
        try:
            found = _made.get(agent)
        except TypeError:  # it cannot be in the map: it has no weak references, or no hash
            found = None
        if found is None:
            raise TypeError(
                f"it is not known how this {type(agent).__name__} was made: make it with "
                "plait.create_agent(model, tools, ...) in place of langchain's, or give "
                "plait.AgentSpec(model, tools, {...}) instead of the agent"
            )
        return found

    def with_tools(self, tools: Iterable[AgentTool]) -> AgentSpec:
        """Return the same with these tools instead."""
        return replace(self, tools=tuple(tools))

    def create(self) -> Agent:
        """Make the agent."""
        create = cast("Callable[..., Agent]", agents.create_agent)
        agent = create(self.model, list(self.tools), **self.options)
        _made[agent] = self
        return agent


_made: weakref.WeakKeyDictionary[Any, AgentSpec] = weakref.WeakKeyDictionary()
"""How each agent was made, for as long as it is there."""


def create_agent(
    model: str | BaseChatModel, tools: Sequence[AgentTool] | None = None, **options: Any
) -> Agent:
    """Make an agent as `langchain.agents.create_agent` does, and remember how.

    Takes the same arguments.
    """
    return AgentSpec(model, tuple(tools or ()), options).create()


def name_of(tool: AgentTool) -> str:
    """Return what a tool is called, or an empty text if nothing says so."""
    if isinstance(tool, BaseTool):
        return tool.name
    if isinstance(tool, Mapping):
        fields = cast("Mapping[str, Any]", tool)
        return str((fields.get("function") or fields).get("name") or "")
    return str(getattr(tool, "__name__", ""))
