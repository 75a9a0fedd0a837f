"""Answering the sampling requests of servers, within limits and after approval."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import mcp_types as types

from plait._support.clock import Clock, SystemClock
from plait.client.calls.callbacks import resolve
from plait.client.calls.sampling import Sampling, SamplingRequest, SamplingResult, refusal

if TYPE_CHECKING:
    from mcp.client import ClientRequestContext

    from plait.client.calls.call_routing import ActiveCall, CallRouter

logger = logging.getLogger("plait.client.calls")

_REFUSED = -1
"""The error code for a request that the user rejects.

https://modelcontextprotocol.io/specification/2025-11-25/client/sampling#error-handling
"""

_WINDOW_SECONDS = 60.0


class SamplingRequests:
    """Answers the sampling requests of all servers; lives in the loop of the connections."""

    def __init__(
        self, sampling: Sampling, router: CallRouter, *, clock: Clock | None = None
    ) -> None:
        self.sampling = sampling
        self._router = router
        self._clock = clock or SystemClock()
        self._recent: deque[float] = deque()
        self._logged: set[tuple[str, str]] = set()

    async def answer(
        self, server: str, context: ClientRequestContext, params: SamplingRequest
    ) -> SamplingResult | types.ErrorData:
        """Answer a request, in the loop of the tool call that it belongs to."""
        del context
        calls = self._router.calls_of(server)
        # If several calls may have caused it, it counts for the one with the fewest requests.
        call = min(calls, key=lambda call: call.sampling_requests, default=None)
        in_call = None if call is None else call.sampling_requests
        reason = refusal(self.sampling, params, in_call=in_call, in_minute=self._in_minute())
        if reason is not None:
            return self._refuse(server, reason)
        self._recent.append(self._clock.monotonic())
        if call is not None:
            call.sampling_requests += 1
        request = self.sampling.within_limits(params)
        if len(calls) == 1 and calls[0].sample is not None:
            answering = calls[0].sample(server, request)
        else:
            answering = sample_from_model(self.sampling, server, request)
        answer = await self._answer_during_calls(answering, calls)
        return self._refuse(server, answer) if isinstance(answer, str) else answer

    async def _answer_during_calls(
        self,
        answering: Coroutine[Any, Any, SamplingResult | types.ErrorData],
        calls: list[ActiveCall],
    ) -> SamplingResult | types.ErrorData | str:
        """Wait for the answer until the last of the calls that may need it has ended."""
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

    def _refuse(self, server: str, reason: str) -> types.ErrorData:
        level = logging.DEBUG if (server, reason) in self._logged else logging.WARNING
        self._logged.add((server, reason))
        logger.log(level, "%s: sampling request refused: %s", server, reason)
        return types.ErrorData(code=_REFUSED, message=reason)


async def sample_from_model(
    sampling: Sampling, server: str, request: SamplingRequest
) -> SamplingResult | types.ErrorData:
    """Get approval for a request, then the model's answer; a failure is an error reply."""
    approved = await _approve(sampling, server, request)
    if approved is None:
        return types.ErrorData(code=_REFUSED, message="the user rejected the request")
    limit = asyncio.timeout(sampling.timeout_seconds)
    try:
        async with limit:
            answer = await resolve(sampling.model(server, sampling.within_limits(approved)))
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


async def _approve(
    sampling: Sampling, server: str, request: SamplingRequest
) -> SamplingRequest | None:
    if sampling.approve is None:
        return request
    try:
        approval = await resolve(sampling.approve(server, request))
    except Exception:  # boundary: a failing function of the user has not approved
        logger.exception("the approval of a request of %s failed", server)
        return None
    if isinstance(approval, types.CreateMessageRequestParams):
        return approval
    return request if approval is True else None
