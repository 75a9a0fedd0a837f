"""A call on a handshake-era server whose caller is paused while the user answers a question."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from plait._support import mcp_types as types
from plait.client.calls.tool_call import PausableRequest
from plait.client.connections.connection import Answer, ServerConnection
from plait.client.connections.deadline import Deadline
from plait.errors import ClientClosedError, InputNeededError, PlaitError

if TYPE_CHECKING:
    from plait.client.calls.call_routing import Turn
    from plait.client.connections.operations import InputAnswers
    from plait.client.connections.session import Session
    from plait.client.protocol.exchange import PendingRequest
    from plait.client.protocol.inbound import RequestContext

ANSWER_TIMEOUT_SECONDS = 600.0
"""How long an elicitation request waits for its answer before it is cancelled."""
_KEY = "question"
"""The key of an elicitation request; there is only one per round."""

Send: TypeAlias = "Callable[[PausedCall], Awaitable[Answer[types.CallToolResult]]]"
"""Sends the request of a call that may be paused."""


class PausedCall:
    """A call on a handshake-era server, which continues while its caller is paused and resumed.

    A resumed caller starts over, so it goes through the elicitation requests from the first one;
    those that are answered are not put to the user again.
    """

    def __init__(
        self, connection: ServerConnection, known: Sequence[types.ElicitResult] = ()
    ) -> None:
        self.connection = connection
        self.expired = False
        """Whether a request was cancelled because it was not answered in time."""
        self._known = dict(enumerate(known))
        self._requests: list[types.ElicitRequest] = []
        self._answers: list[asyncio.Future[types.ElicitResult]] = []
        self._result: asyncio.Future[Answer[types.CallToolResult]] = asyncio.Future()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[object] | None = None
        self._turn: Turn | None = None

    @property
    def has_elicited(self) -> bool:
        """Whether the server has sent an elicitation request so far."""
        return bool(self._requests)

    @property
    def answers(self) -> list[types.ElicitResult]:
        """The user's answers so far."""
        done = (answer for answer in self._answers if answer.done() and not answer.cancelled())
        return [answer.result() for answer in done]

    async def run(self, send: Send, turn: Turn | None, turn_timeout: float | None) -> None:
        """Make the call and keep its result; a call that may elicit waits for its turn."""
        self._task = asyncio.current_task()
        try:
            if turn is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(turn_timeout):
                        await turn.acquire()
                        self._turn = turn
            answer = await send(self)
        except PlaitError as error:
            self._fail(error)
        except asyncio.CancelledError:
            self._fail(ClientClosedError("the client was closed during the call"))
            raise
        else:
            if not self._result.done():
                self._result.set_result(answer)
                self._notify()
        finally:
            self._release_turn()
            self.connection.keeper.release(self)

    async def ask(
        self, context: RequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        """Pass an elicitation request to the caller, and wait for the answer."""
        self.connection.keeper.reserve(context.session, self)
        self._release_turn()
        answer: asyncio.Future[types.ElicitResult] = asyncio.Future()
        if (known := self._known.get(len(self._requests))) is not None:
            answer.set_result(known)
        self._requests.append(types.ElicitRequest(params=params))
        self._answers.append(answer)
        self._notify()
        try:
            async with self.connection.concurrency.released(self._task):
                async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                    return await answer
        except TimeoutError:
            self.expired = True
            self._fail(ClientClosedError("the elicitation was not answered in time"))
            return types.ElicitResult(action="cancel")

    async def outcome(self, responses: InputAnswers | None) -> Answer[types.CallToolResult]:
        """Wait for the result, or raise `InputNeededError` for the next elicitation request."""
        number = 0
        if responses is not None:
            number = int(responses.request_state or 0) + 1
            self._answer(number - 1, responses.responses)
        while len(self._requests) <= number and not self._result.done():
            await self._changed.wait()
        if len(self._requests) > number:
            requests = {_KEY: self._requests[number]}
            raise InputNeededError(requests=requests, request_state=str(number))
        return self._result.result()

    def cancel(self) -> None:
        """Cancel the call, on the server too."""
        if self._task is not None:
            self._task.cancel()

    def _answer(self, number: int, responses: Mapping[str, types.InputResponse]) -> None:
        answer = cast("types.ElicitResult", responses[_KEY])
        if number >= len(self._answers):
            self._known[number] = answer
        elif not self._answers[number].done():
            self._answers[number].set_result(answer)

    def _release_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.release()

    def _fail(self, error: PlaitError) -> None:
        if not self._result.done():
            self._result.set_exception(error)
            self._result.exception()  # marks it as retrieved: the caller may never resume
            self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


@dataclass(frozen=True, slots=True)
class DirectCall:
    """A direct call that is under way when its server asks something."""

    request: PendingRequest
    session: Session

    @property
    def server(self) -> str:
        """The name of its server."""
        return self.session.wire.server

    @property
    def can_ask(self) -> bool:
        """Whether its caller can be paused, to answer elicitation requests."""
        return isinstance(self.request, PausableRequest)

    @property
    def is_underway(self) -> bool:
        """Whether the server may still respond."""
        return self.request.request_id in self.session.wire.requests

    @property
    def abandoned(self) -> bool:
        """Whether it ended without a response, so that the server may still wait for an answer."""
        return not self.is_underway and self.request.message is None

    def call_at_end(self, function: Callable[[], None]) -> None:
        """Call a function in this loop when the call has ended, after its caller is woken."""
        loop, wake_caller = asyncio.get_running_loop(), self.request.wake

        def wake() -> None:
            wake_caller()
            loop.call_soon_threadsafe(function)

        self.request.wake = wake


class HeldCall(PausedCall):
    """A direct call whose server asked something: from then on its caller can be paused."""

    def __init__(
        self, connection: ServerConnection, session: Session, request: PausableRequest
    ) -> None:
        super().__init__(connection)
        self._session = session
        self._request = request
        self._ended = asyncio.Event()
        wake_caller, request.wake = request.wake, self._ended.set
        request.paused = self
        wake_caller()

    @contextlib.contextmanager
    def time_stopped(self) -> Generator[None]:
        """Let the call not run out of time in the block, in which the user is asked."""
        request, began = self._request, time.monotonic()
        request.expires_at += ANSWER_TIMEOUT_SECONDS
        request.latest += ANSWER_TIMEOUT_SECONDS
        try:
            yield
        finally:
            left = ANSWER_TIMEOUT_SECONDS - (time.monotonic() - began)
            request.expires_at -= left
            request.latest -= left
            self._session.wire.expire(request, asyncio.get_running_loop())

    async def response(self, _: PausedCall) -> Answer[types.CallToolResult]:
        """Wait for the response to the request, which is already sent."""
        request, wire = self._request, self._session.wire
        try:
            await self._ended.wait()
        except asyncio.CancelledError:
            if wire.requests.pop(request.request_id, None) is not None:
                wire.cancel(request)
            raise
        result = (request.message or {}).get("result")
        if result is None:
            deadline = Deadline(request.timeout_seconds)
            raise self.connection.failure_of(self._session, request, deadline, request.call.tool)
        wire.note_repairs(request)
        parsed = types.CallToolResult.model_validate(result, by_name=False)
        return Answer(parsed, request.notes)
