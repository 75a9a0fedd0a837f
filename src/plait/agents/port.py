"""The protocol and base class of every engine: results, and tools of the program."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from plait._support.gather import resolve
from plait.agents.config import AgentConfig
from plait.agents.servers import AgentServers
from plait.client.connections.loop_bridge import run_blocking
from plait.errors import AgentTimeoutError
from plait.traces.messages.message import Message, UsageMetadata
from plait.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The answer of an agent, with the steps that led to it."""

    final_response: str
    raw_trace: str
    """The messages of the model and the tools, as one text."""
    trace_messages: list[Message]
    """The same messages, without those of user and system."""
    usage: UsageMetadata
    turns: int
    """How often the model answered."""
    limit_reached: bool
    """Whether the run ended at its turn limit; the response is then partial."""
    session_id: str | None = None
    """The engine's id of the conversation."""
    actual_model: str | None = None
    """The model that answered, as the provider names it."""
    timeout_reached: bool = False
    """Whether the run ended at its timeout; the response is then partial."""


def result_from_trace(trace: Trace) -> AgentResult:
    """Create the result of a run from its trace, which may be incomplete."""
    ended = trace.ended
    messages = trace.messages
    return AgentResult(
        final_response=trace.final_response,
        raw_trace=trace.raw_trace_of(messages),
        trace_messages=messages,
        usage=trace.usage,
        turns=trace.turns,
        limit_reached=trace.limit_reached,
        session_id=ended.session_id if ended else None,
        actual_model=trace.actual_model,
        timeout_reached=trace.timeout_reached,
    )


_LONGEST_SECONDS = 600.0
"""How long a blocking run without a timeout may take."""

_GRACE_SECONDS = 30.0
"""Added to the timeout of a run, so that it can return its partial result."""


@dataclass(frozen=True, slots=True)
class StaticTool:
    """A tool of the program; without a function, calls of it are errors."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )
    function: Callable[..., Awaitable[Any] | Any] | None = None
    """Takes the arguments by name, and returns the text for the model."""

    async def call(self, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """Run the function; returns a text for the model, and whether it is an error."""
        if self.function is None:
            return f"{self.name} cannot be called: it has no function", True
        try:
            result = await resolve(self.function(**arguments))
        except Exception as error:  # noqa: BLE001  # boundary: the model reads the error
            return f"{self.name} failed: {type(error).__name__}: {error}", True
        return result if isinstance(result, str) else str(result), False


@dataclass(frozen=True, slots=True)
class AgentCapabilities:
    """What an engine supports."""

    supports_system_prompt: bool = True
    supports_structured_output: bool = False
    supports_streaming: bool = False
    supports_file_tools: bool = False
    supports_code_execution: bool = False
    uses_sandboxed_execution: bool = False


@runtime_checkable
class AgentPort(Protocol):
    """An agent on one engine."""

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
        """Run the agent until it answers, or until the turn limit or the timeout.

        Raises:
            AgentError: There is no result, not even a partial one.
        """

    def run(
        self,
        messages: Sequence[Message],
        tools: Sequence[StaticTool] | None = None,
        mcp_servers: AgentServers | None = None,
        config: AgentConfig | None = None,
    ) -> AgentResult:
        """Run `arun`, and block until it returns."""
        ...

    async def aclose(self) -> None:
        """Release the resources of the agent; it cannot be used afterwards."""


class BaseAgent(AgentPort):
    """An agent on one engine; subclasses implement `arun`."""

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
        late = AgentTimeoutError(f"the run took longer than {bound:g} s, and was stopped")
        return run_blocking(
            lambda: self.arun(messages, tools, mcp_servers, config),
            seconds=bound,
            timeout_error=late,
        )

    def seconds_for(self, config: AgentConfig) -> float | None:
        """Return the time limit of a run; `None` if there is none."""
        return config.timeout
