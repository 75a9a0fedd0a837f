"""Answering servers that ask for the client's model: counted, approved, and never for long."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any

import mcp_types as types
from mcp.client import ClientRequestContext
from mcp.client.session import SamplingFnT

from plait._support.clock import Clock, SystemClock
from plait.client.calls.call_routing import ActiveCall, CallRouter
from plait.client.calls.sampling import Sampling, SamplingRequest, SamplingResult, refusal

logger = logging.getLogger("plait.client.calls")

_REFUSED = -1
"""The specification's code for a request that the user rejects."""

_WINDOW_SECONDS = 60.0


class SamplingDesk:
    """Decides about the requests of all servers; lives in the loop that owns the connections."""

    def __init__(
        self, sampling: Sampling, router: CallRouter, *, clock: Clock | None = None
    ) -> None:
        self.sampling = sampling
        self._router = router
        self._clock = clock or SystemClock()
        self._recent: deque[float] = deque()
        self._told: set[tuple[str, str]] = set()

    def for_server(self, server: str) -> SamplingFnT:
        """Return what answers one server."""

        async def answer(
            context: ClientRequestContext, params: SamplingRequest
        ) -> SamplingResult | types.ErrorData:
            del context
            return await self.answer(server, params)

        return answer

    async def answer(self, server: str, asked: SamplingRequest) -> SamplingResult | types.ErrorData:
        """Answer a request, where the call was made that it must belong to."""
        calls = self._router.calls_of(server)
        # Where it cannot be told which call asks, the most patient one pays.
        call = min(calls, key=lambda one: one.sampling_requests, default=None)
        in_call = None if call is None else call.sampling_requests
        reason = refusal(self.sampling, asked, in_call=in_call, in_minute=self._in_minute())
        if reason is not None:
            return self._refused(server, reason)
        self._recent.append(self._clock.monotonic())
        if call is not None:
            call.sampling_requests += 1
        asked = self.sampling.within_limits(asked)
        if len(calls) == 1 and calls[0].sample is not None:
            answering = calls[0].sample(server, asked)
        else:
            answering = ask_model(self.sampling, server, asked)
        answer = await self._finished(answering, calls)
        return self._refused(server, answer) if isinstance(answer, str) else answer

    async def _finished(
        self,
        answering: Coroutine[Any, Any, SamplingResult | types.ErrorData],
        calls: list[ActiveCall],
    ) -> SamplingResult | types.ErrorData | str:
        """Wait for the answer as long as one of the calls is under way that may want it."""
        task = asyncio.ensure_future(answering)
        try:
            with self._router.cancelled_with(calls, task):
                await asyncio.wait({task})
        finally:
            task.cancel()
        return "the tool call has ended" if task.cancelled() else task.result()

    def _in_minute(self) -> int:
        horizon = self._clock.monotonic() - _WINDOW_SECONDS
        while self._recent and self._recent[0] <= horizon:
            self._recent.popleft()
        return len(self._recent)

    def _refused(self, server: str, reason: str) -> types.ErrorData:
        level = logging.DEBUG if (server, reason) in self._told else logging.WARNING
        self._told.add((server, reason))
        logger.log(level, "%s asked for the model and did not get it: %s", server, reason)
        return types.ErrorData(code=_REFUSED, message=reason)


async def ask_model(
    sampling: Sampling, server: str, asked: SamplingRequest
) -> SamplingResult | types.ErrorData:
    """Have a request approved, and the model answer it; a failure is an answer too."""
    approved = await _approved(sampling, server, asked)
    if approved is None:
        return types.ErrorData(code=_REFUSED, message="the user rejected the request")
    limit = asyncio.timeout(sampling.timeout_seconds)
    try:
        async with limit:
            said = sampling.model(server, sampling.within_limits(approved))
            answer = await said if inspect.isawaitable(said) else said
    except Exception as error:  # boundary: a model may raise anything
        # The text of the error may quote credentials, and is not for the server.
        logger.warning("the model failed for %s: %s", server, type(error).__name__)
        logger.debug("the model failed for %s", server, exc_info=error)
        late = f"gave no answer within {sampling.timeout_seconds:g} s"
        reason = late if limit.expired() else "failed"
        return types.ErrorData(code=types.INTERNAL_ERROR, message=f"the model {reason}")
    return _result(answer)


async def _approved(
    sampling: Sampling, server: str, asked: SamplingRequest
) -> SamplingRequest | None:
    if sampling.approve is None:
        return asked
    try:
        verdict = sampling.approve(server, asked)
        if inspect.isawaitable(verdict):
            verdict = await verdict
    except Exception:  # boundary: a function of the user's that cannot decide has not agreed
        logger.exception("the approval of a request of %s failed", server)
        return None
    if isinstance(verdict, types.CreateMessageRequestParams):
        return verdict
    return asked if verdict is True else None


def _result(answer: SamplingResult | str) -> SamplingResult:
    if isinstance(answer, str):
        text = types.TextContent(text=answer)
        return types.CreateMessageResult(role="assistant", content=text, model="unknown")
    return answer
