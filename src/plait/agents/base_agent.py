"""The base of engines: a blocking `run` that is safe everywhere and never waits for ever."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from plait.agents.blocking import run_bounded
from plait.agents.config import AgentConfig
from plait.agents.port import AgentCapabilities
from plait.agents.result import AgentResult
from plait.agents.servers import MCPServerConfig
from plait.agents.static_tool import StaticTool
from plait.traces.messages.message import Message

_LONGEST_SECONDS = 600.0
"""How long a blocking run without a timeout may take."""

_GRACE_SECONDS = 30.0
"""What a run with a timeout gets on top, to end by itself with a partial result."""


class BaseAgent(ABC):
    """An engine; subclasses write `arun`."""

    @property
    def capabilities(self) -> AgentCapabilities:
        """What it can do."""
        return AgentCapabilities()

    @abstractmethod
    async def arun(
        self,
        messages: Sequence[Message],
        tools: Sequence[StaticTool] | None = None,
        mcp_servers: Mapping[str, MCPServerConfig] | None = None,
        config: AgentConfig | None = None,
    ) -> AgentResult:
        """Run an agent to its answer, or until turns or time are used up."""

    def run(
        self,
        messages: Sequence[Message],
        tools: Sequence[StaticTool] | None = None,
        mcp_servers: Mapping[str, MCPServerConfig] | None = None,
        config: AgentConfig | None = None,
    ) -> AgentResult:
        """Do what `arun` does, and block until it is done; a running loop does not matter.

        Raises:
            AgentTimeoutError: It took longer than 600 s, or half a minute more than its timeout.
        """
        timeout = self.seconds_for(config or AgentConfig())
        bound = _LONGEST_SECONDS if timeout is None else timeout + _GRACE_SECONDS
        return run_bounded(lambda: self.arun(messages, tools, mcp_servers, config), seconds=bound)

    def seconds_for(self, config: AgentConfig) -> float | None:
        """Say how long a run may take; `None` if that is not limited."""
        return config.timeout

    async def aclose(self) -> None:  # noqa: B027
        """Give back what the engine holds; most hold nothing between runs."""
