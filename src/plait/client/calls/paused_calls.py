"""Calls that wait for the user's answer while the graph that made them is paused."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

from cachetools import LRUCache
from mcp_types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestParams,
    ElicitResult,
    InputResponse,
)

from plait.client.connections.connection import Answer, ServerConnection
from plait.errors import ClientClosedError, InputNeededError, OutcomeUnknownError, PlaitError

if TYPE_CHECKING:
    from mcp.client import ClientRequestContext

    from plait.client.calls.tool_call import ToolCall
    from plait.client.connections.operations import InputAnswers
    from plait.client.connections.pool import ConnectionPool

ANSWER_TIMEOUT_SECONDS = 600.0
"""How long an elicitation request waits for its answer before it is cancelled."""
_TURN_TIMEOUT_SECONDS = 10.0
"""How long a call waits for another one that may or may not elicit."""
_MOST_REMEMBERED = 128
"""For how many calls that failed after an elicitation the answers are remembered."""
_KEY = "question"
"""The key of an elicitation request; there is only one per round."""

Send = Callable[["PausedCall"], Awaitable[Answer[CallToolResult]]]
"""Sends the request of a call that may be paused."""


class PausedCall:
    """A call on a handshake-era server, which continues while its caller is paused and resumed.

    A resumed caller starts over, so it goes through the elicitation requests from the first one;
    those that are answered are not put to the user again.
    """

    def __init__(self, connection: ServerConnection, known: Sequence[ElicitResult] = ()) -> None:
        self.connection = connection
        self.expired = False
        """Whether a request was cancelled because it was not answered in time."""
        self._known = dict(enumerate(known))
        self._requests: list[ElicitRequest] = []
        self._answers: list[asyncio.Future[ElicitResult]] = []
        self._result: asyncio.Future[Answer[CallToolResult]] = asyncio.Future()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[object] | None = None
        self._turn: asyncio.Lock | None = None

    @property
    def has_elicited(self) -> bool:
        """Whether the server has sent an elicitation request so far."""
        return bool(self._requests)

    @property
    def answers(self) -> list[ElicitResult]:
        """The user's answers so far."""
        done = (answer for answer in self._answers if answer.done() and not answer.cancelled())
        return [answer.result() for answer in done]

    async def run(self, send: Send, turn: asyncio.Lock | None, turn_timeout: float | None) -> None:
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

    async def ask(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        """Pass an elicitation request to the caller, and wait for the answer."""
        self.connection.keeper.reserve(context.session, self)
        self._release_turn()
        answer: asyncio.Future[ElicitResult] = asyncio.Future()
        if (known := self._known.get(len(self._requests))) is not None:
            answer.set_result(known)
        self._requests.append(ElicitRequest(params=params))
        self._answers.append(answer)
        self._notify()
        try:
            async with self.connection.concurrency.released(self._task):
                async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                    return await answer
        except TimeoutError:
            self.expired = True
            self._fail(ClientClosedError("the elicitation was not answered in time"))
            return ElicitResult(action="cancel")

    async def outcome(self, responses: InputAnswers | None) -> Answer[CallToolResult]:
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

    def _answer(self, number: int, responses: Mapping[str, InputResponse]) -> None:
        answer = cast("ElicitResult", responses[_KEY])
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


class PausedCalls:
    """The paused calls of a client; lives in the loop that owns the connections."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._calls: dict[object, PausedCall] = {}
        self._answers: LRUCache[object, list[ElicitResult]] = LRUCache(_MOST_REMEMBERED)
        """Answers of failed calls, for another attempt at the same call."""
        self._turns: WeakKeyDictionary[ServerConnection, asyncio.Lock] = WeakKeyDictionary()
        self._elicits: dict[tuple[str, str], bool] = {}
        """By server and tool, whether it has ever sent an elicitation request."""

    def has(self, call: ToolCall) -> bool:
        """Say whether the call was made before, and waits."""
        paused = self._calls.get(_key(call))
        return paused is not None and not paused.expired

    async def run(self, call: ToolCall, send: Send, *, idempotent: bool) -> Answer[CallToolResult]:
        """Make the call, or continue it where it was paused.

        Raises:
            InputNeededError: The server sent an elicitation request; the call waits for the answer.
            OutcomeUnknownError: The answer came too late, or to another process.
            PlaitError: The call failed.
        """
        key, responses = _key(call), call.input_answers
        if self.has(call):
            paused = self._calls[key]
        else:
            if responses is None and call.pause and call.pause.resumed and not idempotent:
                raise _expired(call)
            connection = self._pool.connection(call.server, call.access)
            known = self._answers.pop(key, ()) if responses is not None else ()
            paused = self._calls[key] = PausedCall(connection, known)
            self._start(call, paused, send)
        try:
            answer = await paused.outcome(responses)
        except InputNeededError:
            self._elicits[call.server, call.tool] = True
            raise
        except asyncio.CancelledError:
            paused.cancel()
            self._drop(key, paused)
            raise
        except PlaitError:
            self._drop(key, paused)
            if paused.answers:
                self._answers[key] = paused.answers
            if paused.expired:
                raise _expired(call) from None
            raise
        self._drop(key, paused)
        return answer

    def _start(self, call: ToolCall, paused: PausedCall, send: Send) -> None:
        elicits = self._elicits.get((call.server, call.tool))
        # Elicitation requests do not name their call, so calls that may elicit take turns.
        turn = (
            None if elicits is False else self._turns.setdefault(paused.connection, asyncio.Lock())
        )
        turn_timeout = None if elicits else _TURN_TIMEOUT_SECONDS

        async def work() -> None:
            try:
                await paused.run(send, turn, turn_timeout)
            finally:
                if not paused.has_elicited:
                    self._elicits.setdefault((call.server, call.tool), False)
                elif paused.expired:
                    self._drop(_key(call), paused)

        self._pool.start(work, name=f"plait call {call.where}")

    def _drop(self, key: object, paused: PausedCall) -> None:
        if self._calls.get(key) is paused:
            del self._calls[key]


def _key(call: ToolCall) -> object:
    return call.server, call.tool, call.pause and call.pause.key


def _expired(call: ToolCall) -> OutcomeUnknownError:
    return OutcomeUnknownError(
        f"{call.where}: the answer came too late, or to another process than the one in which the "
        "server asked; the call was not repeated, because it may have taken effect: check first",
        server=call.server,
        tool=call.tool,
    )
