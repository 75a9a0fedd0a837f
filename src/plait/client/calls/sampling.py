"""Sampling: answers the requests of servers for the client's model, within limits."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from plait._support import mcp_types as types
from plait._support.clock import Clock, SystemClock
from plait._support.gather import resolve
from plait._support.sanitize import Care, is_clean_json, sanitize_text, with_texts
from plait.errors import ConfigError

if TYPE_CHECKING:
    from plait.client.calls.call_routing import CallRouter
    from plait.client.protocol.session import RequestContext

SamplingRequest: TypeAlias = "types.CreateMessageRequestParams"

SamplingResult: TypeAlias = "types.CreateMessageResult | types.CreateMessageResultWithTools"

Sampler: TypeAlias = (
    "Callable[[str, SamplingRequest], Awaitable[SamplingResult | str] | SamplingResult | str]"
)
"""Gets the server's name and its request, and returns the reply of a model."""

ApproveSampling: TypeAlias = (
    "Callable[[str, SamplingRequest], Awaitable[bool | SamplingRequest] | bool | SamplingRequest]"
)
"""Gets the server's name and its request; returns whether it may, or a request to use instead."""

logger = logging.getLogger("plait.client.calls")

_REFUSED_CODE = -1
"""The error code for a request that the user rejects.

https://modelcontextprotocol.io/specification/2025-11-25/client/sampling#error-handling
"""

_WINDOW_SECONDS = 60.0
"""A minute, in which requests are counted."""
_CAPITAL = re.compile(r"(?<=[a-z])[A-Z]")
"""In files, settings are written in camelCase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How servers may use the client's model (`sampling/createMessage`)."""

    model: Any = field(kw_only=False, repr=False)
    """A function of the server's name and its request; frameworks also accept their chat models."""
    servers: Sequence[str] | None = None
    """The servers that may use the model, by name or glob; `None` means all."""
    max_tokens: int = 1024
    """The longest reply; a larger limit in a request is reduced to this."""
    max_calls_per_call: int = 10
    """Requests during one tool call."""
    max_calls_per_minute: int = 30
    """Requests of all servers of this client together."""
    max_input_bytes: int = 256_000
    """The size of one request, images included."""
    timeout_seconds: float = 60.0
    """The timeout of the model; that of the tool call holds too."""
    approve: ApproveSampling | None = None
    """Approves each request before the model gets it."""
    allow_tools: bool = False
    """Whether requests may contain tools, which the server runs."""
    outside_calls: bool = False
    """Whether a server may use the model while none of its tools is being called."""

    def __post_init__(self) -> None:
        """Validate the settings."""
        names = ("max_tokens", "max_calls_per_call", "max_calls_per_minute", "max_input_bytes")
        for name in (*names, "timeout_seconds"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 < value < math.inf:
                raise ConfigError(f"sampling: {name} must be a finite number of more than 0")
        if isinstance(self.servers, str):
            raise ConfigError("sampling: servers is a list of names or globs")
        if self.approve is not None and not callable(self.approve):
            raise ConfigError("sampling: approve is a function of a server and its request")

    @classmethod
    def of(cls, value: object) -> Sampling | None:
        """Read a model, settings, or a mapping of them as in a file; else raise `ConfigError`."""
        match value:
            case None | False:
                return None
            case True:
                raise ConfigError("sampling takes a model, or Sampling(model, …)")
            case Sampling():
                return value
            case Mapping():
                settings = cast("Mapping[str, Any]", value)
                keys = {_CAPITAL.sub(lambda c: f"_{c[0]}", key).lower(): key for key in settings}
                known = {field.name for field in fields(cls)}
                if unknown := sorted(key for name, key in keys.items() if name not in known):
                    raise ConfigError(f"sampling has no setting {', '.join(unknown)}")
                if "model" not in keys:
                    raise ConfigError("sampling needs a model")
                return cls(**{name: settings[key] for name, key in keys.items()})
            case _:
                return cls(value)

    def may_sample(self, server: str, *, own: bool | None = None) -> bool:
        """Say whether a server may use the model; its own setting wins over the list."""
        if own is not None:
            return own
        return self.servers is None or any(fnmatchcase(server, name) for name in self.servers)

    def within_limits(self, request: SamplingRequest) -> SamplingRequest:
        """Return the request for the model: limited tokens, and no context of other servers."""
        # https://modelcontextprotocol.io/specification/2025-11-25/client/sampling
        # The client may ignore `includeContext` and `metadata`.
        changes: dict[str, Any] = {
            "max_tokens": min(request.max_tokens, self.max_tokens),
            "include_context": None,
            "metadata": None,
        }
        return request.model_copy(update=changes)


def refusal(
    sampling: Sampling, request: SamplingRequest, *, in_call: int | None, in_minute: int
) -> str | None:
    """Return why a request must not reach the model, in words for the server; `None` if it may.

    `in_call` counts the earlier requests of the tool call, and is `None` outside of calls;
    `in_minute` counts those of the client in the last minute.
    """
    if in_call is None and not sampling.outside_calls:
        return "this client lets servers use its model only during a tool call"
    if in_call is not None and in_call >= sampling.max_calls_per_call:
        most = sampling.max_calls_per_call
        return f"a tool call may use the model of this client {_times(most)}"
    if in_minute >= sampling.max_calls_per_minute:
        most = sampling.max_calls_per_minute
        return f"servers may use the model of this client {_times(most)} in a minute"
    if request.max_tokens < 1:
        return "maxTokens must be at least 1"
    parts = (part for message in request.messages for part in message.content_as_list)
    has_tools = (
        request.tools
        or request.tool_choice
        or any(isinstance(part, types.ToolUseContent | types.ToolResultContent) for part in parts)
    )
    if has_tools and not sampling.allow_tools:
        return "this client lets no server give tools to its model"
    if input_bytes(request) > sampling.max_input_bytes:
        return f"the request is larger than {sampling.max_input_bytes} bytes"
    return None


def input_bytes(request: SamplingRequest) -> float:
    """Return the size of what the model would read."""
    try:
        text = request.model_dump_json(
            by_alias=True, exclude_none=True, include={"messages", "system_prompt", "tools"}
        )
    except ValueError:  # nested too deeply
        return float("inf")
    return len(text.encode())


def sanitized_request(request: SamplingRequest) -> SamplingRequest:
    """Return the request without characters that hide text; the same object if there are none."""
    fields = request.model_dump(mode="json", by_alias=True, exclude_none=True)
    if is_clean_json(fields):
        return request
    clean = with_texts(fields, partial(sanitize_text, care=Care()))
    return type(request).model_validate(clean)


def _times(most: int) -> str:
    return "once" if most == 1 else f"{most} times"


class SamplingRequests:
    """Answers the sampling requests of all servers; lives in the loop of the connections."""

    def __init__(
        self,
        sampling: Sampling,
        router: CallRouter,
        *,
        sanitize: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self.sampling = sampling
        self._router = router
        self._sanitize = sanitize
        self._clock = clock or SystemClock()
        self._recent: deque[float] = deque()
        self._logged: set[tuple[str, str]] = set()

    async def answer(
        self, server: str, context: RequestContext, params: SamplingRequest
    ) -> SamplingResult | types.ErrorData:
        """Answer a request, in the loop of the tool call that it belongs to."""
        calls = self._router.calls_of(server, context.session)
        # If several calls may have caused it, it counts for the one with the fewest requests.
        call = min(calls, key=lambda call: call.sampling_requests, default=None)
        in_call = None if call is None else call.sampling_requests
        began = self._clock.monotonic()
        while self._recent and self._recent[0] <= began - _WINDOW_SECONDS:
            self._recent.popleft()
        in_minute = len(self._recent)
        reason = refusal(self.sampling, params, in_call=in_call, in_minute=in_minute)
        if reason is not None:
            return self._refuse(server, reason)
        self._recent.append(began)
        if call is not None:
            call.sampling_requests += 1
        request = self.sampling.within_limits(params)
        if self._sanitize:
            request = sanitized_request(request)
        if len(calls) == 1 and calls[0].sample is not None:
            answering = calls[0].sample(server, request)
        else:
            answering = sample_from_model(self.sampling, server, request)
        task = asyncio.ensure_future(answering)

        async def cancel_when_unwanted() -> None:
            # Nobody needs it any more when the last of the calls has ended.
            for call in calls:
                await call.ended.wait()
            task.cancel()

        watching = asyncio.ensure_future(cancel_when_unwanted()) if calls else None
        try:
            await asyncio.wait({task})
        finally:
            if watching is not None:
                watching.cancel()
            task.cancel()
        return (
            self._refuse(server, "the tool call has ended") if task.cancelled() else task.result()
        )

    def _refuse(self, server: str, reason: str) -> types.ErrorData:
        level = logging.DEBUG if (server, reason) in self._logged else logging.WARNING
        self._logged.add((server, reason))
        logger.log(level, "%s: sampling request refused: %s", server, reason)
        return types.ErrorData(code=_REFUSED_CODE, message=reason)


async def sample_from_model(
    sampling: Sampling, server: str, request: SamplingRequest
) -> SamplingResult | types.ErrorData:
    """Get approval for a request, then the model's answer; a failure is an error reply."""
    approved: object = True
    if sampling.approve is not None:
        try:
            approved = await resolve(sampling.approve(server, request))
        except Exception:  # boundary: a failing function of the user has not approved
            logger.exception("the approval of a request of %s failed", server)
            approved = False
    if isinstance(approved, types.CreateMessageRequestParams):
        request = approved
    elif approved is not True:
        return types.ErrorData(code=_REFUSED_CODE, message="the user rejected the request")
    limit = asyncio.timeout(sampling.timeout_seconds)
    try:
        async with limit:
            answer = await resolve(sampling.model(server, sampling.within_limits(request)))
    except Exception as error:  # boundary: a model may raise anything
        # The text of the error may quote credentials, so the server does not get it.
        logger.warning("the model failed for %s: %s", server, type(error).__name__)
        logger.debug("the model failed for %s", server, exc_info=error)
        timeout = f"gave no answer within {sampling.timeout_seconds:g} s"
        reason = timeout if limit.expired() else "failed"
        return types.ErrorData(code=types.INTERNAL_ERROR, message=f"the model {reason}")
    if isinstance(answer, str):
        text = types.TextContent(text=answer)
        return types.CreateMessageResult(role="assistant", content=text, model="unknown")
    return answer
