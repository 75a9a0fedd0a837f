"""Whether, and how far, servers may use the client's model: the settings, and what they decide."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any, cast

import mcp_types as types

from plait.errors import ConfigError

SamplingRequest = types.CreateMessageRequestParams
"""What a server asks of the model."""

SamplingResult = types.CreateMessageResult | types.CreateMessageResultWithTools
"""What the model answered."""

Sampler = Callable[[str, SamplingRequest], Awaitable[SamplingResult | str] | SamplingResult | str]
"""Gets the server's name and what it asks, and returns what a model says to that."""

ApproveSampling = Callable[
    [str, SamplingRequest], Awaitable[bool | SamplingRequest] | bool | SamplingRequest
]
"""Gets the server's name and what it asks; returns whether it may, or what to ask instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How servers may use the client's model (`sampling/createMessage`)."""

    model: Any = field(kw_only=False, repr=False)
    """A function of the server's name and its request; frameworks also take their chat models."""

    servers: Sequence[str] | None = None
    """The servers that may ask, by name or glob; `None` is all of them."""

    max_tokens: int = 1024
    """The longest answer; a server that asks for more gets this much."""

    max_calls_per_call: int = 10
    """Requests during one tool call."""

    max_calls_per_minute: int = 30
    """Requests of all servers of this client together."""

    max_input_bytes: int = 256_000
    """The size of one request, images included."""

    timeout_seconds: float = 60.0
    """How long the model may take; the limit of the tool call holds too."""

    approve: ApproveSampling | None = None
    """Decides about each request before the model sees it."""

    allow_tools: bool = False
    """Whether a server may give the model tools, which the server runs."""

    outside_calls: bool = False
    """Whether a server may ask while none of its tools is being called."""

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        for name in _NUMBERS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ConfigError(f"sampling: {name} must be a number of more than 0")
        if isinstance(self.servers, str):
            raise ConfigError("sampling: servers is a list of names or globs")
        if self.approve is not None and not callable(self.approve):
            raise ConfigError("sampling: approve is a function of a server and its request")

    @classmethod
    def of(cls, given: object) -> Sampling | None:
        """Read a model, the settings themselves, or a mapping of them, as in a file.

        Raises:
            ConfigError: It is something else.
        """
        match given:
            case None | False:
                return None
            case True:
                raise ConfigError("sampling takes a model, or Sampling(model, …)")
            case Sampling():
                return given
            case Mapping():
                return cls(**_settings(cast("Mapping[str, Any]", given)))
            case _:
                return cls(given)

    def may_ask(self, server: str, *, own: bool | None = None) -> bool:
        """Say whether a server may use the model; its own setting wins over the list."""
        if own is not None:
            return own
        return self.servers is None or any(fnmatchcase(server, one) for one in self.servers)

    def within_limits(self, asked: SamplingRequest) -> SamplingRequest:
        """Return what the model is asked: no more tokens than allowed, and nothing of others."""
        # https://modelcontextprotocol.io/specification/2025-11-25/client/sampling
        # Context of other servers and settings for a provider are wishes, not conditions.
        changes: dict[str, Any] = {
            "max_tokens": min(asked.max_tokens, self.max_tokens),
            "include_context": None,
            "metadata": None,
        }
        return asked.model_copy(update=changes)


_NUMBERS = (
    "max_tokens",
    "max_calls_per_call",
    "max_calls_per_minute",
    "max_input_bytes",
    "timeout_seconds",
)


def refusal(
    sampling: Sampling, asked: SamplingRequest, *, in_call: int | None, in_minute: int
) -> str | None:
    """Say why a request must not reach the model, in a sentence for the server; `None` if it may.

    `in_call` counts the requests before this one in the tool call, and is `None` outside of
    calls; `in_minute` counts those of the client in the last minute.
    """
    if in_call is None and not sampling.outside_calls:
        return "this client lets servers use its model only during a tool call"
    if in_call is not None and in_call >= sampling.max_calls_per_call:
        most = sampling.max_calls_per_call
        return f"a tool call may use the model of this client {_times(most)}"
    if in_minute >= sampling.max_calls_per_minute:
        most = sampling.max_calls_per_minute
        return f"servers may use the model of this client {_times(most)} in a minute"
    if asked.max_tokens < 1:
        return "maxTokens must be at least 1"
    if _has_tools(asked) and not sampling.allow_tools:
        return "this client lets no server give tools to its model"
    if input_bytes(asked) > sampling.max_input_bytes:
        return f"the request is larger than {sampling.max_input_bytes} bytes"
    return None


def input_bytes(asked: SamplingRequest) -> float:
    """Measure what a model would have to read."""
    try:
        read = asked.model_dump_json(
            by_alias=True, exclude_none=True, include={"messages", "system_prompt", "tools"}
        )
    except ValueError:  # nested more deeply than anything that makes sense
        return float("inf")
    return len(read.encode())


def _has_tools(asked: SamplingRequest) -> bool:
    parts = (part for message in asked.messages for part in message.content_as_list)
    return bool(
        asked.tools
        or asked.tool_choice
        or any(isinstance(part, types.ToolUseContent | types.ToolResultContent) for part in parts)
    )


def _times(most: int) -> str:
    return "once" if most == 1 else f"{most} times"


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read the names of settings in both spellings."""
    known = {one.name for one in fields(Sampling)}
    read = {re.sub(r"(?<=[a-z])[A-Z]", lambda c: f"_{c[0]}", key).lower(): key for key in given}
    if unknown := sorted(key for name, key in read.items() if name not in known):
        raise ConfigError(f"sampling has no setting {', '.join(unknown)}")
    if "model" not in read:
        raise ConfigError("sampling needs a model")
    return {name: given[key] for name, key in read.items()}
