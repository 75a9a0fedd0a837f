"""One side of an MCP connection: requests with their facts, and what the server sends.

A transport gives it bytes, and takes bytes from it. Nothing here knows which transport that is.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import inf
from typing import Any, Protocol, cast

import anyio
from pydantic_core import to_json

from plait._support import mcp_types as types
from plait._support.threads import in_thread
from plait.client.config.budgets import DEFAULT_LIMITS, IncomingLimits
from plait.client.protocol.exchange import (
    Exchange,
    PendingRequest,
    RequestExpiredError,
    RequestTemplate,
    Sender,
    is_response,
    parse_json,
    parse_nested,
)
from plait.client.protocol.framing import (
    HEAD_BYTES,
    Framed,
    answered_id,
    frames,
    is_answer,
    misread_id,
)
from plait.client.protocol.reading import (
    LARGE_BYTES,
    NESTED_NOTE,
    NO_JSON_RPC,
    LimitError,
    Message,
    RequestId,
    coerced_id,
)

logger = logging.getLogger("plait.client.protocol")

FIRST_REQUEST_ID = 1_000_000_000
"""The ids of our requests start far above those that the SDK counts from 1."""
HANDSHAKES = frozenset({"initialize", "server/discover"})
_MOST_REQUESTS = 256
_MOST_REQUEST_BYTES = 32_000_000
"""How many requests, and how much of them, a server may send before it reads the answers."""
_NOTES = 50
"""How many repair notes one session keeps."""
_LARGEST_FLOAT = int(sys.float_info.max)


class RequestError(Exception):
    """A request was answered with an error, or not at all; as `MCPError` of the SDK."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code, self.message, self.data = code, message, data

    def __str__(self) -> str:
        return self.message


class Handler(Protocol):
    """Handles what the server sends that is no answer."""

    def notified(self, method: str, params: dict[str, Any] | None) -> None:
        """Take a notification, in the order of arrival; anything slow goes into a task."""
        ...

    async def answer(
        self, request_id: RequestId, method: str, params: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Return the result of a request of the server, or raise `RequestError`."""
        ...


class Tap(Protocol):
    """Sees all messages of a session; it is in `taps` before the transport is opened."""

    def over(self, sender: Sender) -> Sender:
        """Return a sender that sends with this one."""
        ...

    def received(self, message: Message, context: contextvars.Context | None) -> None:
        """Take a message of the server that was received in a context, before it is handled.

        An answer is not among them: its request is woken.
        """
        ...


@dataclass(slots=True, eq=False)
class _ServerRequest:
    """A request of the server whose answer it has not taken yet."""

    size: int
    task: asyncio.Task[None] | None = None


class Peer:
    """The pending requests of a session, and the requests of its server."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.requests: dict[RequestId | None, PendingRequest] = {}
        """Requests without an outcome."""
        self.streams = 0
        """How many of them stay for as long as the session: streams of changes."""
        self.server_requests: dict[RequestId, _ServerRequest] = {}
        self.parse: Callable[[bytes], Any] = parse_json
        """Parses lines; that of a request while its response is likely to be the next one."""
        self.sender: Sender | None = None
        """Writes messages; `None` before the transport is open, and after it is closed."""
        self.handler: Handler | None = None
        self.taps: list[Tap] = []
        """The first is next to the transport."""
        self.template: RequestTemplate | None = None
        """What requests have in common; known after the handshake."""
        self.drained: asyncio.Event | None = None
        """Set when no direct call is under way; `None` while no task waits for that."""
        self.last_received = 0.0
        """When the server last sent a message, on the monotonic clock."""
        self.notes: deque[str] = deque(maxlen=_NOTES)
        """What was repaired in results."""
        self._sweep_at = inf
        self._sweep: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Future[Any]] = set()
        self._request_ids = count(FIRST_REQUEST_ID)

    def use(self, sender: Sender) -> None:
        """Send messages with this sender."""
        for tap in self.taps:
            sender = tap.over(sender)
        self.sender = sender

    def next_request_id(self) -> int:
        """Return an id for a request of our own."""
        return next(self._request_ids)

    def end(self, reason: str) -> None:
        """Note that nothing more can arrive."""
        raise NotImplementedError

    def note_noise(self, data: bytes, advice: str = "") -> None:
        """Note what arrived that is not MCP."""
        raise NotImplementedError

    # What arrives

    def take_line(self, line: bytes) -> bool:
        """Take a response in JSON, while any request of our own waits for one."""
        if not self.requests:
            return False
        try:
            message = self.parse(line)
        except ValueError:
            return self._take_nested(line)
        return type(message) is dict and self.take(cast("dict[str, Any]", message), line)

    def _take_nested(self, line: bytes) -> bool:
        """Take a response that is nested too deeply to be parsed."""
        message = parse_nested(line)
        if message is None:
            return False
        request = self.requests.get(coerced_id(message.get("id")))
        if request is not None:
            request.notes = (NESTED_NOTE,)
        return self.take(message)

    def take(self, message: dict[str, Any], body: bytes | None = None) -> bool:
        """Hand a response to the request of our own that it answers; return whether there is one.

        Only what follows JSON-RPC to the letter is taken. `body` is the message as it arrived.
        """
        if not is_response(message):
            return False
        request = self.requests.pop(coerced_id(message.get("id")), None)
        if request is None:
            return False
        self.last_received = time.monotonic()
        if body is not None and request.parse is not self.parse:
            message = request.parse(body)
        self._settle(request, message, body)
        return True

    def _settle(self, request: PendingRequest, message: dict[str, Any], body: bytes | None) -> None:
        request.settle(message, body)
        if self.drained is not None:
            self.check_drained()

    async def receive(
        self,
        data: bytes,
        limits: IncomingLimits = DEFAULT_LIMITS,
        *,
        encoding: str = "utf-8",
        errors: str = "replace",
        advice: str = "",
        context: contextvars.Context | None = None,
    ) -> None:
        """Handle what arrived: one message, or several between noise.

        Handlers run in the context, which is that of the request in whose response it came.
        `advice` is for a server that sends something else.
        """
        self.last_received = time.monotonic()
        is_large = len(data) >= LARGE_BYTES
        if is_large and (method := self._answered_handshake(data)) is not None:
            self._lose_answer(data, too_large_handshake(method))
            return
        find = partial(frames, data, encoding=encoding, errors=errors, limits=limits)
        try:
            framed = await in_thread(find) if is_large else find()
        except LimitError as error:
            self._lose_answer(data, str(error))
            return
        if framed.noise or not framed.messages:
            self._note_strange(data, framed, advice)
        for message in framed.messages:
            await self.dispatch(message, limits, context)

    def _note_strange(self, data: bytes, framed: Framed, advice: str) -> None:
        if not framed.noise:
            return
        self.note_noise(data, advice)
        if not framed.messages and (lost := misread_id(data)) is not None:
            self.lose([lost], NO_JSON_RPC)

    async def dispatch(
        self, message: Message, limits: IncomingLimits, context: contextvars.Context | None
    ) -> None:
        """Handle one message."""
        if message.method is not None:
            for tap in self.taps:
                tap.received(message, context)
        match message.kind:
            case "response":
                await self._take_result(message, limits)
            case "error" if message.error is not None:
                request = self.requests.pop(message.id, None)
                if request is not None:
                    self._settle(request, answer_of(request, message, limits), message.body)
            case "notification":
                self._notified(message, context)
                await asyncio.sleep(0)  # its callbacks begin before those of the next message
            case _:
                self._asked(message, context)
                await asyncio.sleep(0)

    async def _take_result(self, message: Message, limits: IncomingLimits) -> None:
        request = self.requests.get(message.id)
        if request is None:
            logger.debug("%s: an answer to no request: %r", self.server, message.id)
            return
        is_large = len(message.body) >= LARGE_BYTES
        read = partial(answer_of, request, message, limits)
        try:
            whole = await in_thread(read) if is_large else read()
        except LimitError as error:
            self.lose([message.id], str(error))
        except ValueError:
            self.lose([message.id], NO_JSON_RPC)
        else:
            if self.requests.pop(message.id, None) is not None:
                self._settle(request, whole, message.body or None)

    def _answered_handshake(self, body: bytes) -> str | None:
        """Return the method of the handshake that a message answers, if it is one."""
        request = self.requests.get(answered_id(body[:HEAD_BYTES], body[-HEAD_BYTES:]))
        return request.method if request is not None and request.method in HANDSHAKES else None

    def _lose_answer(self, body: bytes, reason: str) -> None:
        self.lose_answer(body[:HEAD_BYTES], body[-HEAD_BYTES:], reason)

    def lose_answer(self, first: bytes, last: bytes, reason: str) -> None:
        """Fail the request that a message answers which was not kept.

        It is found by an id at the beginning or at the end of the message; without one, every
        request has lost its answer.
        """
        if not is_answer(first):
            logger.warning("%s: %s", self.server, reason)
            return
        found = answered_id(first, last)
        self.lose(tuple(self.requests) if found is None else [found], reason)

    def lose(self, request_ids: Iterable[RequestId | None], reason: str) -> None:
        """Fail requests whose answers have come and cannot be read."""
        for request_id in request_ids:
            request = self.requests.pop(request_id, None)
            if request is not None:
                request.stream_ended = True
                request.fail(RequestError(types.CONNECTION_CLOSED, reason))
        self.check_drained()

    # What the server asks and tells

    def _notified(self, message: Message, context: contextvars.Context | None) -> None:
        method, params = message.method or "", message.params
        if method == "notifications/progress":
            self.progress(params or {})
        elif method == "notifications/cancelled":
            cancelled = coerced_id((params or {}).get("requestId"))
            asked = self.server_requests.pop(cancelled, None) if cancelled is not None else None
            if asked is not None and asked.task is not None:
                asked.task.cancel()
        if self.handler is not None:
            run = partial(self.handler.notified, method, params)
            (contextvars.copy_context() if context is None else context).run(run)

    def _asked(self, message: Message, context: contextvars.Context | None) -> None:
        request_id = message.id
        if request_id is None or self.handler is None or self.sender is None:
            return
        # One that was found beside others on a line has no body of its own.
        asked = _ServerRequest(len(message.body) or _MOST_REQUEST_BYTES // _MOST_REQUESTS)
        key = coerced_id(request_id) or request_id
        self.server_requests[key] = asked
        waiting = self.server_requests.values()
        if len(waiting) > _MOST_REQUESTS or sum(one.size for one in waiting) > _MOST_REQUEST_BYTES:
            self.end("the server sends requests without reading the answers")
            self.close()
            return
        asked.task = self.start(self._answer(key, request_id, message, self.handler), context)

    async def _answer(
        self, key: RequestId, request_id: RequestId, message: Message, handler: Handler
    ) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id}
        try:
            answer["result"] = await handler.answer(
                request_id, message.method or "", message.params
            )
        except RequestError as error:
            answer["error"] = {"code": error.code, "message": error.message}
            if error.data is not None:
                answer["error"]["data"] = error.data
        except Exception as error:  # boundary: callbacks of the user may raise anything
            logger.exception("%s: the handler of %s failed", self.server, message.method)
            answer["error"] = {"code": 0, "message": str(error)}
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self.deliver(answer)
        self.server_requests.pop(key, None)

    def start(
        self, work: Coroutine[Any, Any, None], context: contextvars.Context | None = None
    ) -> asyncio.Task[None]:
        """Start a task that ends with the session."""
        own = None if context is None else context.copy()  # an empty context is false
        task = asyncio.get_running_loop().create_task(work, context=own)
        self._hold(task)
        return task

    def _hold(self, task: asyncio.Future[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def progress(self, params: Mapping[str, Any]) -> None:
        """Report the progress of a request of our own."""
        match params:
            case {"progressToken": token, "progress": int() | float() as progress}:
                request = self.requests.get(coerced_id(token))
            case _:
                return
        total, message = params.get("total"), params.get("message")
        numbers = (progress, total if isinstance(total, int | float) else 0)
        if request is None or isinstance(progress, bool) or not all(map(_is_possible, numbers)):
            return
        request.extended = True
        request.expires_at = min(time.monotonic() + request.timeout_seconds, request.latest)
        if request.on_progress is None:
            return
        report = asyncio.ensure_future(
            request.on_progress(
                float(progress),
                float(total) if isinstance(total, int | float) else None,
                message if isinstance(message, str) else None,
            )
        )
        self._hold(report)
        report.add_done_callback(self._reported)

    def _reported(self, report: asyncio.Future[None]) -> None:
        if not report.cancelled() and (error := report.exception()) is not None:
            logger.error("%s: a progress callback failed", self.server, exc_info=error)

    def note_repairs(self, exchange: Exchange) -> None:
        """Remember what was repaired in a result."""
        self.notes.extend(exchange.notes)
        for note in exchange.notes:
            logger.debug("%s: %s: %s", self.server, exchange.method, note)

    # What is sent

    async def deliver(self, message: Mapping[str, Any]) -> None:
        """Write a notification or an answer, and wait until the transport has taken it."""
        if self.sender is None:
            raise anyio.ClosedResourceError
        await self.sender.deliver(to_json(message, inf_nan_mode="null"))

    def cancel(self, request: PendingRequest, reason: str = "caller cancelled") -> None:
        """Tell the server that the caller no longer waits."""
        if self.sender is not None:
            params = {"requestId": request.request_id, "reason": reason}
            notification = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            self.sender.cancel(request, to_json(notification))

    def fail_requests(self, fault: Exception) -> None:
        """Make every request of our own fail that has no response yet."""
        while self.requests:
            self.requests.popitem()[1].fail(fault)
        if self._sweep is not None:
            self._sweep.cancel()
        if self.drained is not None:
            self.drained.set()

    def close(self) -> None:
        """Fail what waits for the server, and stop what it waits for."""
        self.sender = None
        self.fail_requests(closed())
        for task in tuple(self._tasks):
            task.cancel()
        self.server_requests.clear()

    async def aclose(self) -> None:
        """Do what `close` does, and wait until everything has stopped."""
        self.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def direct_calls(self) -> int:
        """How many direct calls are under way."""
        return sum(request.direct for request in list(self.requests.values()))

    def check_drained(self) -> None:
        """Wake who waits until no direct call is under way."""
        if self.drained is not None and not self.direct_calls:
            self.drained.set()

    # Time

    def expire(self, request: PendingRequest, loop: asyncio.AbstractEventLoop) -> None:
        """Make a direct call fail when its time is over; from any thread.

        One timer serves all calls of the session: most end before it would fire.
        """
        if request.expires_at < self._sweep_at:
            self._sweep_at = request.expires_at
            loop.call_soon_threadsafe(self._schedule_sweep, loop)

    def _schedule_sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        self._sweep = None if self._sweep_at == inf else loop.call_at(self._sweep_at, self._expire)

    def _expire(self) -> None:
        now = time.monotonic()
        waiting = list(self.requests.values())
        for request in waiting:
            if request.expires_at <= now and self.requests.pop(request.request_id, None):
                self.cancel(request, f"timed out after {request.timeout_seconds:g}s")
                request.fail(RequestExpiredError())
        self._sweep_at = min((one.expires_at for one in self.requests.values()), default=inf)
        self._schedule_sweep(asyncio.get_running_loop())
        self.check_drained()


def answer_of(request: PendingRequest, message: Message, limits: IncomingLimits) -> dict[str, Any]:
    """Return the response to a request, with its result decoded as the request wants it.

    Raises:
        ValueError: It cannot be decoded.
        LimitError: It has more values, or would take more memory, than `limits` permit.
    """
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message.id}
    if (detail := message.error) is not None:
        answer["error"] = {"code": detail.code, "message": detail.message, "data": detail.data}
        return answer
    if request.parse is not parse_json and message.raw is not None:
        answer = request.parse(message.body)
    else:
        answer["result"] = message.decoded_result(limits)
    if message.note is not None:
        request.notes = (message.note,)
    return answer


def _is_possible(number: float) -> bool:
    """Return whether a number fits into a float, which callbacks get."""
    return not isinstance(number, int) or abs(number) <= _LARGEST_FLOAT


def closed() -> RequestError:
    """Return the error of a request whose connection has ended."""
    return RequestError(types.CONNECTION_CLOSED, "Connection closed")


def too_large_handshake(method: str) -> str:
    """Explain that the answer of a handshake is refused."""
    return f"the server answered {method} with more than {LARGE_BYTES:,} bytes"


def too_large(most_bytes: int) -> str:
    """Explain that a message is refused, and what would permit it."""
    return (
        f"the server sent a message of more than {most_bytes:,} bytes "
        "(raise `message_bytes` in `limits`)"
    )
