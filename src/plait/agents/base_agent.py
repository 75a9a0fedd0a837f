"""The base class of engines: a blocking `run` with a time limit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from plait.agents.config import AgentConfig
from plait.agents.port import AgentCapabilities, StaticTool
from plait.agents.result import AgentResult
from plait.agents.servers import AgentServers
from plait.client.connections.loop_bridge import run_blocking
from plait.errors import AgentTimeoutError
from plait.traces.messages.message import Message

_LONGEST_SECONDS = 600.0
"""How long a blocking run without a timeout may take."""

_GRACE_SECONDS = 30.0
"""Added to the timeout of a run, so that it can return its partial result."""


class BaseAgent(ABC):
    """An agent on one engine; subclasses implement `arun`."""

    @property
    def capabilities(self) -> AgentCapabilities:
        """What the engine supports."""
        return AgentCapabilities()

    @abstractmethod
    async def arun(
        self,
        messages: Sequence[Message],
        tools: Sequence[StaticTool] | None = None,
        mcp_servers: AgentServers | None = None,
        config: AgentConfig | None = None,
    ) -> AgentResult:
        """Run the agent until it answers, or until the turn limit or the timeout."""

    def run(
        self,
        messages: Sequence[Message],
        tools: Sequence[StaticTool] | None = None,
        mcp_servers: AgentServers | None = None,
        config: AgentConfig | None = None,
    ) -> AgentResult:
        """Run `arun`, and block until it returns; works inside a running event loop too.

        Raises:
            AgentTimeoutError: It took longer than 600 s, or 30 s more than its timeout.
        """
        timeout = self.seconds_for(config or AgentConfig())
        bound = _LONGEST_SECONDS if timeout is None else timeout + _GRACE_SECONDS
        return run_blocking(
            lambda: self.arun(messages, tools, mcp_servers, config),
            seconds=bound,
            timeout_error=AgentTimeoutError(
                f"the run took longer than {bound:g} s, and was stopped"
            ),
        )

    def seconds_for(self, config: AgentConfig) -> float | None:
        """Return the time limit of a run; `None` if there is none."""
        return config.timeout

    async def aclose(self) -> None:  # noqa: B027
        """Release the resources of the agent; most engines keep none between runs."""
