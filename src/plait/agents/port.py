"""What every engine can be asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from plait.agents.config import AgentConfig
from plait.agents.result import AgentResult
from plait.agents.servers import MCPServerConfig
from plait.agents.static_tool import StaticTool
from plait.traces.messages.message import Message


@dataclass(frozen=True, slots=True)
class AgentCapabilities:
    """What an engine can do."""

    supports_system_prompt: bool = True

    supports_structured_output: bool = False

    supports_streaming: bool = False

    supports_file_tools: bool = False

    supports_code_execution: bool = False

    uses_sandboxed_execution: bool = False


@runtime_checkable
class AgentPort(Protocol):
    """An engine that runs agents."""

    @property
    def capabilities(self) -> AgentCapabilities:
        """What it can do."""
        ...

    async def arun(
        self,
        messages: Sequence[Message],
        tools: Sequence[StaticTool] | None = None,
        mcp_servers: Mapping[str, MCPServerConfig] | None = None,
        config: AgentConfig | None = None,
    ) -> AgentResult:
        """Run an agent to its answer, or until turns or time are used up.

        Raises:
            AgentError: There is no result, not even a part of one.
        """
        ...

    def run(
        self,
        messages: Sequence[Message],
        tools: Sequence[StaticTool] | None = None,
        mcp_servers: Mapping[str, MCPServerConfig] | None = None,
        config: AgentConfig | None = None,
    ) -> AgentResult:
        """Do what `arun` does, and block until it is done."""
        ...

    async def aclose(self) -> None:
        """Give back what the engine holds; it is not used afterwards."""
        ...
