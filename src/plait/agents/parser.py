"""The parser port: a model fills a pydantic model from messages that the caller has assembled."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, cast, runtime_checkable

from pydantic import BaseModel, ValidationError

from plait.agents.config import AgentConfig, ModelConfig
from plait.agents.port import AgentCapabilities, AgentPort
from plait.agents.registry import get_agent
from plait.client.connections.loop_bridge import run_blocking
from plait.errors import AgentTimeoutError, EngineUnavailableError, ParseError, PlaitError
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


def get_parser(model_config: ModelConfig | None, *, max_retries: int = MAX_RETRIES) -> ParserPort:
    """Create a parser on the engine of a model.

    Raises:
        EngineUnavailableError: No engine can be used, or the model is a recording.
    """
    if model_config is not None and model_config.interface == "manual":
        text = "recorded answers cannot fill a schema: use a model"
        raise EngineUnavailableError(text, "manual_parser")
    return AgentParser(get_agent(model_config), max_retries=max_retries)


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
        form = json.dumps(schema.model_json_schema(), ensure_ascii=False)
        rule = f"Reply with one JSON object that fits this JSON Schema, and nothing else:\n{form}"
        conversation = [*messages, Message.user(rule)]
        usage = UsageMetadata()
        problem, reply = "", ""
        for _ in range(1 + self._max_retries):
            try:
                result = await self._agent.arun(conversation, config=config)
            except PlaitError as error:
                error.usage = usage if error.usage is None else usage + error.usage
                raise
            usage += result.usage
            reply = result.final_response
            if result.status != "completed":
                problem = f"the reply ended as {result.status}"
                break
            try:
                value = json_in(reply)
                if value is not None:
                    return ParsePortResult(schema.model_validate(value), usage)
                problem = "there is no JSON object in the reply"
            except ValidationError as error:
                problem = "; ".join(
                    f"{'.'.join(map(str, one['loc'])) or 'the object'}: {one['msg']}"
                    for one in error.errors(
                        include_url=False, include_context=False, include_input=False
                    )
                )
            feedback = Message.user(f"That does not fit: {problem}\n{rule}")
            conversation = [*conversation, Message.assistant(reply or "(nothing)"), feedback]
        failure = ParseError(problem, raw_response=reply)
        failure.usage = usage
        raise failure

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


def json_in(text: str) -> dict[str, Any] | None:
    """Find the JSON object in a reply, which may have words around it."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(text, start)
        except ValueError:
            start = text.find("{", start + 1)
            continue
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
        start = text.find("{", start + 1)
    return None
