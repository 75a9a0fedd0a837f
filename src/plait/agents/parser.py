"""The parser port: a model fills a pydantic model from messages that the caller has assembled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from plait.agents.config import AgentConfig, ModelConfig
from plait.agents.port import AgentCapabilities, AgentPort
from plait.agents.registry import get_agent
from plait.client.connections.loop_bridge import run_blocking
from plait.errors import AgentTimeoutError, EngineUnavailableError, ParseError
from plait.traces.messages.message import Message, UsageMetadata

T = TypeVar("T", bound=BaseModel)

MAX_RETRIES: Final = 2
MAX_BLOCKING_SECONDS: Final = 300.0
"""How long a blocking call may take."""


@dataclass(frozen=True, slots=True)
class ParsePortResult(Generic[T]):
    """A model that was filled, and what all requests for it used."""

    parsed: T
    usage: UsageMetadata


@runtime_checkable
class ParserPort(Protocol):
    """Fills pydantic models by a language model."""

    @property
    def capabilities(self) -> AgentCapabilities:
        """What the engine supports."""
        ...

    async def aparse_to_pydantic(
        self, messages: Sequence[Message], schema: type[T], config: AgentConfig | None = None
    ) -> ParsePortResult[T]:
        """Let the model reply to the messages in the form of a schema.

        Raises:
            ParseError: No reply fits the schema.
            AgentError: The model cannot be called.
        """
        ...

    def parse_to_pydantic(
        self, messages: Sequence[Message], schema: type[T], config: AgentConfig | None = None
    ) -> ParsePortResult[T]:
        """Run `aparse_to_pydantic`, and block until it returns."""
        ...

    async def aclose(self) -> None:
        """Release the resources of the parser."""
        ...


def get_parser(
    model_config: ModelConfig | None, *, max_retries: int = MAX_RETRIES, auto_fallback: bool = True
) -> ParserPort:
    """Create a parser on the engine of a model; `auto_fallback` is that of `get_agent`.

    Raises:
        EngineUnavailableError: No engine can be used, or the model is a recording.
    """
    if model_config is not None and model_config.interface == "manual":
        text = "recorded answers cannot fill a schema: use a model"
        raise EngineUnavailableError(text, "manual_parser")
    return AgentParser(
        get_agent(model_config, auto_fallback=auto_fallback), max_retries=max_retries
    )


class AgentParser(ParserPort):
    """A parser over an agent of any engine, without tools.

    A reply that does not fit is returned to the model with what is wrong, up to `max_retries`
    times. Settings such as the timeout count for each request.
    """

    def __init__(self, agent: AgentPort, *, max_retries: int = MAX_RETRIES) -> None:
        self._agent = agent
        self._max_retries = max_retries

    @property
    def capabilities(self) -> AgentCapabilities:
        """What the engine supports."""
        return self._agent.capabilities

    async def aparse_to_pydantic(
        self, messages: Sequence[Message], schema: type[T], config: AgentConfig | None = None
    ) -> ParsePortResult[T]:
        """Let the model reply to the messages in the form of a schema."""
        settings = AgentConfig.of(config)
        settings = replace(
            settings,
            output_type=schema,
            output_retries=self._max_retries,
            max_turns=max(settings.max_turns, 1 + self._max_retries),
        )
        result = await self._agent.arun(messages, config=settings)
        if not isinstance(result.output, schema):
            failure = ParseError(
                f"the reply ended as {result.status}", raw_response=result.final_response
            )
            failure.usage = result.usage
            raise failure
        return ParsePortResult(result.output, result.usage)

    def parse_to_pydantic(
        self, messages: Sequence[Message], schema: type[T], config: AgentConfig | None = None
    ) -> ParsePortResult[T]:
        """Run `aparse_to_pydantic`, and block until it returns."""
        return run_blocking(
            lambda: self.aparse_to_pydantic(messages, schema, config),
            seconds=MAX_BLOCKING_SECONDS,
            timeout_error=AgentTimeoutError(f"parsing took longer than {MAX_BLOCKING_SECONDS:g} s"),
        )

    async def aclose(self) -> None:
        """Close the agent."""
        await self._agent.aclose()
