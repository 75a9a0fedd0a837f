"""Calls in progress: routes what servers send during them, and pauses those that need an answer.

A paused call, such as one of a graph on a handshake-era server, waits for the user's answer until
its caller is resumed. Calls that may be paused take turns on their connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from cachetools import LRUCache

from plait._support import mcp_types as types
from plait.client.calls.tool_call import CallbackContext, PausableRequest
from plait.client.connections.connection import Answer, ServerConnection
from plait.client.connections.deadline import Deadline
from plait.client.protocol.exchange import wake
from plait.errors import ClientClosedError, InputNeededError, OutcomeUnknownError, PlaitError
from plait.telemetry.spans import waiting_span

if TYPE_CHECKING:
    from plait.client.calls.sampling import SamplingRequest, SamplingResult
    from plait.client.calls.tool_call import OnAnyProgress, ToolCall
    from plait.client.connections.connection import ConnectionPool
    from plait.client.connections.loop_bridge import LoopBridge
    from plait.client.connections.operations import InputAnswers
    from plait.client.connections.session_keeper import Session
    from plait.client.protocol.exchange import PendingRequest
    from plait.client.protocol.session import McpSession, OnElicitation, RequestContext

logger = logging.getLogger("plait.client.calls")

T = TypeVar("T", "types.ElicitResult", "types.ElicitResult | types.ErrorData")

Sample: TypeAlias = (
    "Callable[[str, SamplingRequest], Coroutine[Any, Any, SamplingResult | types.ErrorData]]"
)
"""Sends a server's sampling request to the model."""


ANSWER_TIMEOUT_SECONDS = 600.0
"""How long an elicitation request waits for its answer before it is cancelled."""
_QUESTION_KEY = "question"
"""The key of an elicitation request; there is only one per round."""

_TURN_TIMEOUT_SECONDS = 10.0
"""How long a call waits for another one that may or may not elicit."""
_SHARED_TURN_SECONDS = 2.0
"""The same for a call whose caller is not paused, and gets no question but its own anyway."""
_MAX_REMEMBERED_CALLS = 128
"""For how many calls that failed after an elicitation the answers are remembered."""

_EXPIRED_TEXT = (
    "the answer came too late, or to another process than the one in which the server asked; the "
    "call was not repeated, because it may have taken effect: check first"
)

Send: TypeAlias = "Callable[[PausedCall], Awaitable[Answer[types.CallToolResult]]]"
"""Sends the request of a call that may be paused."""


@dataclass(slots=True, eq=False)
class ActiveCall:
    """A call in progress, with the callbacks of its caller."""

    server: str
    tool: str
    on_log: Callable[[types.LoggingMessageNotificationParams], None] | None = None
    on_elicitation: OnElicitation | None = None
    sample: Sample | None = None
    on_progress: Sequence[Callable[[float, float | None, str | None], None]] = ()
    """The callbacks of the call and of the client."""
    sampling_requests: int = 0
    """How many sampling requests the server has made during this call."""
    pausing: bool = False
    """Whether an elicitation pauses the caller, so that it must not get another call's answer."""
    session: McpSession | None = None
    source: object | None = None
    """What log messages of its connection are known by."""
    deadline: Deadline | None = None
    abandoned: bool = False
    """Whether it ended without a response, so that the server may still wait for an answer."""
    on_asked: Callable[[McpSession], None] | None = None
    """Called when an elicitation request of this call arrives."""
    has_elicited: bool = False
    """Whether the server may have sent an elicitation request during this call."""
    is_underway: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def can_ask(self) -> bool:
        """Whether its caller answers elicitation requests."""
        return self.on_elicitation is not None

    @classmethod
    def of(
        cls,
        call: ToolCall,
        bridge: LoopBridge,
        sample: Sample | None,
        on_any_progress: OnAnyProgress | None,
    ) -> ActiveCall:
        """Create it in the caller's event loop, where its callbacks and those of the client run."""
        on_progress = [] if call.on_progress is None else [call.on_progress]
        if on_any_progress is not None:
            context = CallbackContext(server_name=call.server, tool_name=call.tool)
            on_progress.append(
                lambda progress, total, message: on_any_progress(progress, total, message, context)
            )
        return cls(
            call.server,
            call.tool,
            call.on_log and bridge.bind_callback(call.on_log),
            call.on_elicitation and bridge.bind_handler(call.on_elicitation),
            sample and bridge.bind_handler(sample),
            tuple(bridge.bind_callback(callback) for callback in on_progress),
        )


_current: ContextVar[ActiveCall | None] = ContextVar("plait_active_call", default=None)


class CallRouter:
    """Holds the calls in progress; lives in the loop that owns the connections."""

    def __init__(self, sessions_of: Callable[[McpSession], list[Session]] = lambda _: []) -> None:
        """Take what finds the session that a message came from, with its direct calls."""
        self._sessions_of = sessions_of
        self.paused_calls: PausedCalls | None = None
        self._active: list[ActiveCall] = []
        self._changed = asyncio.Event()
        self._unassigned: Counter[McpSession] = Counter()
        """By session, the elicitation requests whose call is not known yet."""

    @contextlib.contextmanager
    def active(
        self, call: ActiveCall, session: McpSession, deadline: Deadline | None = None
    ) -> Generator[None]:
        """Route what the server sends on the session to this call during the block.

        The deadline is paused while the caller answers an elicitation request.
        """
        call.session, call.deadline, call.abandoned = session, deadline, False
        call.is_underway = True
        call.ended.clear()
        self._active.append(call)
        token = _current.set(call)
        try:
            yield
        except BaseException:
            call.abandoned = True
            raise
        finally:
            _current.reset(token)
            call.is_underway = False
            call.ended.set()
            self._active.remove(call)
            self._notify()

    def dispatch_log(
        self, server: str, source: object, message: types.LoggingMessageNotificationParams
    ) -> bool:
        """Pass a log message to its call; return whether there is one that takes it.

        `source` is the connection that it came from, as `ActiveCall.source` has it.
        """
        call = _current.get()
        if call is None or call.server != server:
            here = [each for each in self._active if each.source is source]
            call = here[0] if len(here) == 1 and not self._direct_calls(here[0].session) else None
        if call is None or call.on_log is None:
            return False
        call.on_log(message)
        return True

    async def answer_elicitation(
        self,
        context: RequestContext,
        params: types.ElicitRequestParams,
        default: OnElicitation,
    ) -> types.ElicitResult | types.ErrorData:
        """Answer an elicitation request by the callback of its call, or by `default`."""
        call = _current.get()
        for possible in self._calls_on(context.session) if call is None else [call]:
            possible.has_elicited = True
        if call is None:
            call = await self._asking_call(context.session)
        if isinstance(call, HeldCall):
            with call.time_stopped():
                return await call.ask(context, params)
        if call is None or call.on_elicitation is None:
            return await default(context, params)
        if call.on_asked is not None:
            call.on_asked(context.session)
        clock = call.deadline.held() if call.deadline else contextlib.nullcontext()
        try:
            with clock, waiting_span("elicitation"):
                async with asyncio.timeout(None if call.pausing else ANSWER_TIMEOUT_SECONDS):
                    return await call.on_elicitation(context, params)
        except TimeoutError:
            logger.warning("%s/%s: elicitation was not answered in time", call.server, call.tool)
            return types.ElicitResult(action="cancel")

    async def _asking_call(self, session: McpSession) -> ActiveCall | HeldCall | None:
        """Find the call that a handshake-era request belongs to, which the request does not name.

        If several are possible, wait: a call that gets its response did not send it. A call that
        ends otherwise may have sent it, and then nobody may answer it.
        """
        possible: list[ActiveCall | DirectCall] = [
            *self._calls_on(session),
            *self._direct_calls(session),
        ]
        self._unassigned[session] += 1
        try:
            if not any(call.can_ask for call in possible):
                return None
            for call in possible:
                if isinstance(call, DirectCall):
                    call.call_at_end(self._notify)
            while not any(call.abandoned for call in possible):
                possible = [call for call in possible if call.is_underway]
                if not possible:
                    return None
                if len(possible) == 1:
                    (only,) = possible
                    if isinstance(only, ActiveCall):
                        return only
                    # A direct call goes on as a paused one.
                    return None if self.paused_calls is None else self.paused_calls.hold(only)
                if self._unassigned[session] >= len(possible):
                    logger.warning(
                        "%s sent an elicitation request that may belong to any of %d calls; "
                        "none of them answers it",
                        possible[0].server,
                        len(possible),
                    )
                    return None
                await self._changed.wait()
            return None
        finally:
            self._unassigned[session] -= 1
            if not self._unassigned[session]:
                del self._unassigned[session]

    def _direct_calls(self, session: McpSession | None) -> list[DirectCall]:
        return [
            DirectCall(request, one)
            for one in ([] if session is None else self._sessions_of(session))
            for request in list(one.wire.requests.values())
            if request.direct
        ]

    def _calls_on(self, session: McpSession) -> list[ActiveCall]:
        return [call for call in self._active if call.session is session]

    def _notify(self) -> None:
        if self._unassigned:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def calls_of(self, server: str, session: McpSession) -> list[ActiveCall]:
        """Return the calls that a request of a session may belong to: the current one, or all."""
        current = _current.get()
        if current is not None and current.server == server:
            return [current]
        return [call for call in self._calls_on(session) if call.server == server]


def with_schema_defaults(request: types.ElicitRequestParams, answer: T) -> T:
    """Fill in the fields of an accepted form that are missing and have a default."""
    if not isinstance(answer, types.ElicitResult) or answer.action != "accept":
        return answer
    if not isinstance(request, types.ElicitRequestFormParams):
        return answer
    fields: Mapping[str, Any] = request.requested_schema.get("properties") or {}
    content = dict(answer.content or {})
    for name, schema in fields.items():
        if name not in content and isinstance(schema, Mapping) and "default" in schema:
            content[name] = schema["default"]
    return answer.model_copy(update={"content": content})


class Turn:
    """Held by the one call of a connection that may elicit; released in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_held = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def claim(self) -> bool:
        """Take it if nobody has it or waits for it; from any thread."""
        with self._lock:
            is_free = not self._is_held and not self._waiting
            self._is_held = self._is_held or is_free
        return is_free

    async def acquire(self, timeout_seconds: float | None) -> bool:
        """Wait for it, in the loop of the connections; return whether it came in time."""
        with self._lock:
            if not self._is_held and not self._waiting:
                self._is_held = True
                return True
            handed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(handed)
        try:
            async with asyncio.timeout(timeout_seconds):
                await handed
        except (asyncio.CancelledError, TimeoutError) as error:
            with self._lock:
                is_mine = handed not in self._waiting
                if not is_mine:
                    self._waiting.remove(handed)
            if is_mine:
                self.release()
            if isinstance(error, TimeoutError):
                return False
            raise
        return True

    def release(self) -> None:
        """Pass it on to the call that has waited longest; from any thread."""
        with self._lock:
            self._is_held = bool(self._waiting)
            if self._waiting:
                handed = self._waiting.popleft()
                handed.get_loop().call_soon_threadsafe(wake, handed)


class ElicitationTurns:
    """Lets calls that may elicit use a session one after the other.

    Elicitation requests of the handshake era do not name their call, so two such calls must not
    be open on a session at the same time.
    """

    def __init__(self) -> None:
        self._turns: WeakKeyDictionary[ServerConnection, Turn] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._elicits: dict[tuple[str, str], bool] = {}
        """By server and tool, whether it has ever sent an elicitation request."""

    def turn_of(
        self, call: ToolCall, connection: ServerConnection
    ) -> tuple[Turn | None, float | None]:
        """Return what a call waits for, if anything, and how long at most; from any thread."""
        elicits = self._elicits.get((call.server, call.tool))
        if elicits is False:
            return None, None
        with self._lock:
            turn = self._turns.setdefault(connection, Turn())
        return turn, None if elicits else _TURN_TIMEOUT_SECONDS

    def learn(self, call: ToolCall, *, elicited: bool) -> None:
        """Remember whether a call of a tool has elicited."""
        if elicited:
            self._elicits[call.server, call.tool] = True
        else:
            self._elicits.setdefault((call.server, call.tool), False)

    @contextlib.asynccontextmanager
    async def in_turn(
        self, call: ToolCall, active: ActiveCall, connection: ServerConnection
    ) -> AsyncGenerator[None]:
        """Make a call in its turn; from its first elicitation on, it has the session to itself."""
        turn, timeout = self.turn_of(call, connection)
        timeout = None if timeout is None else _SHARED_TURN_SECONDS
        held = turn is not None and await turn.acquire(timeout)

        def release() -> None:
            nonlocal held
            if held and turn is not None:
                turn.release()
            held = False

        def asked(session: McpSession) -> None:
            self.learn(call, elicited=True)
            connection.keeper.reserve(session, active)
            release()

        if self.turn_of(call, connection)[0] is None:
            release()  # another call of the tool has shown meanwhile that it does not elicit
        active.on_asked = asked
        try:
            yield
            self.learn(call, elicited=False)
        finally:
            active.on_asked = None
            release()
            connection.keeper.release(active)


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
            if turn is not None and await turn.acquire(turn_timeout):
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
            answered = int(responses.request_state or 0)
            number = answered + 1
            answer = cast("types.ElicitResult", responses.responses[_QUESTION_KEY])
            if answered >= len(self._answers):
                self._known[answered] = answer
            elif not self._answers[answered].done():
                self._answers[answered].set_result(answer)
        while len(self._requests) <= number and not self._result.done():
            await self._changed.wait()
        if len(self._requests) > number:
            requests = {_QUESTION_KEY: self._requests[number]}
            raise InputNeededError(requests=requests, request_state=str(number))
        return self._result.result()

    def cancel(self) -> None:
        """Cancel the call, on the server too."""
        if self._task is not None:
            self._task.cancel()

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


class PausedCalls:
    """The paused calls of a client; lives in the loop that owns the connections."""

    def __init__(self, pool: ConnectionPool, turns: ElicitationTurns) -> None:
        self._pool = pool
        self.turns = turns
        self._calls: dict[object, PausedCall] = {}
        self._answers: LRUCache[object, list[types.ElicitResult]] = LRUCache(_MAX_REMEMBERED_CALLS)
        """Answers of failed calls, for another attempt at the same call."""

    def has(self, call: ToolCall) -> bool:
        """Say whether the call was made before, and waits."""
        paused = self._calls.get(_key(call))
        return paused is not None and not paused.expired

    async def run(
        self, call: ToolCall, send: Send, *, idempotent: bool
    ) -> Answer[types.CallToolResult]:
        """Make the call, or continue it where it was paused."""
        key = _key(call)
        if self.has(call):
            return await self.outcome(call, self._calls[key])
        is_lost = call.pause is not None and call.pause.resumed and key not in self._answers
        if is_lost and not idempotent:
            raise call.error(OutcomeUnknownError, _EXPIRED_TEXT)
        connection = self._pool.connection(call.server, call.access)
        known = self._answers.pop(key, ()) if call.input_answers is not None else ()
        paused = self._calls[key] = PausedCall(connection, known)
        self._start(call, paused, send)
        return await self.outcome(call, paused)

    async def outcome(self, call: ToolCall, paused: PausedCall) -> Answer[types.CallToolResult]:
        """Wait for the result of a call that goes on, or raise what its server asks next."""
        key = _key(call)
        try:
            answer = await paused.outcome(call.input_answers)
        except InputNeededError:
            self.turns.learn(call, elicited=True)
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
                raise call.error(OutcomeUnknownError, _EXPIRED_TEXT) from None
            raise
        self._drop(key, paused)
        return answer

    def hold(self, direct: DirectCall) -> HeldCall | None:
        """Let a direct call go on as a paused one; `None` if its caller cannot be paused."""
        request = direct.request
        if not isinstance(request, PausableRequest):
            return None
        if isinstance(request.paused, HeldCall):
            return request.paused
        self.turns.learn(request.call, elicited=True)
        connection = self._pool.connection(direct.server)
        held = self._calls[_key(request.call)] = HeldCall(connection, direct.session, request)
        self._start(request.call, held, held.response, turn=(None, None))
        return held

    def _start(
        self,
        call: ToolCall,
        paused: PausedCall,
        send: Send,
        turn: tuple[Turn | None, float | None] | None = None,
    ) -> None:
        own_turn, turn_timeout = turn or self.turns.turn_of(call, paused.connection)

        async def work() -> None:
            try:
                await paused.run(send, own_turn, turn_timeout)
            finally:
                if not paused.has_elicited:
                    self.turns.learn(call, elicited=False)
                elif paused.expired:
                    self._drop(_key(call), paused)

        self._pool.tasks.start(work, name=f"plait call {call.where}")

    def _drop(self, key: object, paused: PausedCall) -> None:
        if self._calls.get(key) is paused:
            del self._calls[key]


def _key(call: ToolCall) -> object:
    access = None if call.access is None else call.access.key
    return call.server, call.tool, access, call.pause and call.pause.key
