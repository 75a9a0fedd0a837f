"""Calls that wait for the user's answer while the graph that made them is paused."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast
from weakref import WeakKeyDictionary

from mcp.client import ClientRequestContext
from mcp_types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestParams,
    ElicitResult,
    InputResponse,
)

from plait.client.calls.tool_call import ToolCall
from plait.client.connections.connection import Answer, ServerConnection
from plait.client.connections.operations import Given
from plait.client.connections.pool import ConnectionPool
from plait.errors import ClientClosedError, InputNeededError, OutcomeUnknownError, PlaitError

ANSWER_TIMEOUT_SECONDS = 600.0
"""How long a question waits for its answer before it is cancelled."""

_PATIENCE_SECONDS = 10.0
"""How long a call waits for another of which it is not known whether it asks something."""

_MOST_REMEMBERED = 128
"""Of how many calls that failed after a question the answers are remembered."""

_KEY = "question"
"""Under which a question is put; there is never more than one in a round."""

Send = Callable[["PausedCall"], Awaitable[Answer[CallToolResult]]]
"""Makes the request of a held call."""


class PausedCall:
    """A call on a server of the handshake era, which goes on however often its caller is paused.

    A caller that was paused starts over, so it is led through the questions from the first one;
    those that have their answer are not asked again.
    """

    def __init__(self, connection: ServerConnection, known: Sequence[ElicitResult] = ()) -> None:
        self.connection = connection
        self.lapsed = False
        """Whether a question was cancelled because nobody answered it."""
        self._known = dict(enumerate(known))
        self._questions: list[ElicitRequest] = []
        self._answers: list[asyncio.Future[ElicitResult]] = []
        self._result: asyncio.Future[Answer[CallToolResult]] = asyncio.Future()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[object] | None = None
        self._turn: asyncio.Lock | None = None

    @property
    def has_asked(self) -> bool:
        """Whether the server has asked something so far."""
        return bool(self._questions)

    @property
    def answers(self) -> list[ElicitResult]:
        """What the user answered so far."""
        given = (one for one in self._answers if one.done() and not one.cancelled())
        return [one.result() for one in given]

    async def run(self, send: Send, turn: asyncio.Lock | None, patience: float | None) -> None:
        """Make the call, and keep what it comes to; a call that may ask waits for its turn."""
        self._task = asyncio.current_task()
        try:
            await self._take(turn, patience)
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
            self._give_turn_back()
            self.connection.release(self)

    async def ask(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        """Put a question of the server to the caller, and wait for the answer."""
        self.connection.reserve(context.session, self)
        self._give_turn_back()
        answer: asyncio.Future[ElicitResult] = asyncio.Future()
        if (known := self._known.get(len(self._questions))) is not None:
            answer.set_result(known)
        self._questions.append(ElicitRequest(params=params))
        self._answers.append(answer)
        self._notify()
        try:
            async with self.connection.slots.lent(self._task):
                async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                    return await answer
        except TimeoutError:
            self.lapsed = True
            self._fail(ClientClosedError("nobody answered in time"))
            return ElicitResult(action="cancel")

    async def outcome(self, given: Given | None) -> Answer[CallToolResult]:
        """Wait for the result, or for the question after those that are answered.

        Raises:
            InputNeededError: The server asks something.
            PlaitError: The call failed.
        """
        number = 0
        if given is not None:
            number = int(given.request_state or 0) + 1
            self._answer(number - 1, given.responses)
        while len(self._questions) <= number and not self._result.done():
            await self._changed.wait()
        if len(self._questions) > number:
            asked = {_KEY: self._questions[number]}
            raise InputNeededError(requests=asked, request_state=str(number))
        return self._result.result()

    def cancel(self) -> None:
        """Call the call off, on the server too."""
        if self._task is not None:
            self._task.cancel()

    def _answer(self, number: int, responses: Mapping[str, InputResponse]) -> None:
        answer = cast("ElicitResult", responses[_KEY])
        if number >= len(self._answers):
            self._known[number] = answer
        elif not self._answers[number].done():
            self._answers[number].set_result(answer)

    async def _take(self, turn: asyncio.Lock | None, patience: float | None) -> None:
        if turn is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await turn.acquire()
                    self._turn = turn

    def _give_turn_back(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.release()

    def _fail(self, error: PlaitError) -> None:
        if not self._result.done():
            self._result.set_exception(error)
            self._result.exception()  # whoever asked may be gone for good
            self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class PausedCalls:
    """The held calls of a client; lives in the loop that owns the connections."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._held: dict[object, PausedCall] = {}
        self._known: OrderedDict[object, list[ElicitResult]] = OrderedDict()
        self._turns: WeakKeyDictionary[ServerConnection, asyncio.Lock] = WeakKeyDictionary()
        self._asks: dict[tuple[str, str], bool] = {}
        """By server and tool, whether it has ever asked something."""

    def holds(self, call: ToolCall) -> bool:
        """Say whether the call was made before, and waits."""
        held = self._held.get(_key(call))
        return held is not None and not held.lapsed

    async def run(self, call: ToolCall, send: Send, *, idempotent: bool) -> Answer[CallToolResult]:
        """Make the call, or go on with it where it was paused.

        Raises:
            InputNeededError: The server asks something; the call waits for the answer.
            OutcomeUnknownError: The answer came too late, or to another process.
            PlaitError: The call failed.
        """
        key = _key(call)
        held = self._held[key] if self.holds(call) else None
        if held is None:
            if (
                call.input_responses is None
                and call.pause
                and call.pause.resumed
                and not idempotent
            ):
                raise _gone(call)
            connection = self._pool.connection(call.server, call.access)
            known = self._known.pop(key, ()) if call.input_responses is not None else ()
            held = self._held[key] = PausedCall(connection, known)
            self._start(call, held, send)
        try:
            answer = await held.outcome(call.input_responses)
        except InputNeededError:
            self._asks[call.server, call.tool] = True
            raise
        except asyncio.CancelledError:
            held.cancel()
            self._drop(key, held)
            raise
        except PlaitError:
            self._drop(key, held)
            self._remember(key, held.answers)
            if held.lapsed:
                raise _gone(call) from None
            raise
        self._drop(key, held)
        return answer

    def _start(self, call: ToolCall, held: PausedCall, send: Send) -> None:
        asks = self._asks.get((call.server, call.tool))
        # Questions carry no word of the call they belong to, so those that may ask take turns.
        turn = None if asks is False else self._turns.setdefault(held.connection, asyncio.Lock())
        patience = None if asks else _PATIENCE_SECONDS

        async def work() -> None:
            try:
                await held.run(send, turn, patience)
            finally:
                if not held.has_asked:
                    self._asks.setdefault((call.server, call.tool), False)
                elif held.lapsed:
                    self._drop(_key(call), held)

        self._pool.start(work, name=f"plait call {call.where}")

    def _drop(self, key: object, held: PausedCall) -> None:
        if self._held.get(key) is held:
            del self._held[key]

    def _remember(self, key: object, answers: list[ElicitResult]) -> None:
        """Keep the answers for another attempt at the same call."""
        if answers:
            self._known[key] = answers
            while len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)


def _key(call: ToolCall) -> object:
    return call.server, call.tool, call.pause and call.pause.key


def _gone(call: ToolCall) -> OutcomeUnknownError:
    return OutcomeUnknownError(
        f"{call.where}: the answer came too late, or to another process than the one in which the "
        "server asked; the call was not repeated, because it may have taken effect: check first",
        server=call.server,
        tool=call.tool,
    )
