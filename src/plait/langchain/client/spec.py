"""Agents with the arguments that created them, to create them again with more tools."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from langchain import agents
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

AgentTool = BaseTool | Callable[..., Any] | dict[str, Any]
"""What LangChain accepts as a tool."""

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
        """Return the spec of an agent from `plait.langchain.create_agent`; a spec is its own.

        Raises:
            TypeError: Something else created the agent.
        """
        if isinstance(agent, AgentSpec):
            return agent
        try:
            spec = _specs.get(agent)
        except TypeError:  # it has no weak references, or no hash
            spec = None
        if spec is None:
            raise TypeError(
                f"the arguments of this {type(agent).__name__} are not known: create it with "
                "plait.langchain.create_agent(model, tools, ...), pass "
                "plait.langchain.AgentSpec(model, tools, {...}) instead of the agent, or create it "
                "with the middleware plait.gateway.GatewayToolsMiddleware(service)"
            )
        return spec

    def with_tools(self, tools: Iterable[AgentTool]) -> AgentSpec:
        """Return a copy with other tools."""
        return replace(self, tools=tuple(tools))

    def create(self) -> Agent:
        """Create the agent."""
        create = cast("Callable[..., Agent]", agents.create_agent)
        agent = create(self.model, list(self.tools), **self.options)
        _specs[agent] = self
        return agent


_specs: weakref.WeakKeyDictionary[Any, AgentSpec] = weakref.WeakKeyDictionary()
"""The spec of each agent that exists."""


def create_agent(
    model: str | BaseChatModel, tools: Sequence[AgentTool] | None = None, **options: Any
) -> Agent:
    """Create an agent with `langchain.agents.create_agent`, and remember the arguments."""
    return AgentSpec(model, tuple(tools or ()), options).create()


def name_of(tool: AgentTool) -> str:
    """Return the name of a tool, or an empty string if it has none."""
    if isinstance(tool, BaseTool):
        return tool.name
    if isinstance(tool, Mapping):
        fields = cast("Mapping[str, Any]", tool)
        return str((fields.get("function") or fields).get("name") or "")
    return str(getattr(tool, "__name__", ""))
