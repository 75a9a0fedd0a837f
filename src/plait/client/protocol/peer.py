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
from typing import Any, Protocol, TypeGuard

import anyio
from pydantic_core import to_json

from plait._support import mcp_types as types
from plait._support.causes import is_longer
from plait._support.redact import Redactor
from plait._support.sanitize import sanitize_for_terminal
from plait._support.threads import in_thread
from plait.client.config.budgets import DEFAULT_LIMITS, IncomingLimits
from plait.client.protocol.exchange import (
    PendingRequest,
    RequestExpiredError,
    RequestTemplate,
    Sender,
    collect,
    wake,
)
from plait.client.protocol.framing import HEAD_BYTES, answered_id, frames, is_answer, misread_id
from plait.client.protocol.reading import (
    LARGE_BYTES,
    LONG_BYTES,
    NO_JSON_RPC,
    LimitError,
    Message,
    RequestId,
    coerced_id,
    read,
    too_large_handshake,
)

logger = logging.getLogger("plait.client.protocol")

FIRST_REQUEST_ID = 1_000_000_000
"""The ids of our requests start far above those that the SDK counts from 1."""
HANDSHAKES = frozenset({"initialize", "server/discover"})
MAX_SERVER_REQUESTS = 256
MAX_SERVER_REQUEST_BYTES = 32_000_000
"""How many requests, and how much of them, a server may send before it reads the answers."""
MAX_NOTES = 50
"""How many repair notes one session keeps."""
MAX_HIDDEN_SECRETS = 20
"""How many replaced tokens stay hidden."""
MAX_NOISE_BYTES = 64_000
"""How much of what is not MCP is searched for secrets before it is quoted."""
MAX_ANNOUNCEMENT_BYTES = 1000
"""Longer lines are not searched for an announcement that tools have changed."""
MAX_ERROR_CHARS = 64 * 1024
"""How many characters are kept of the message of an error, and of its data."""


_TOOLS_CHANGED = b"notifications/tools/list_changed"


class RequestError(Exception):
    """A request was answered with an error, or not at all; as `MCPError` of the SDK."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code, self.message, self.data = code, message, data

    def __str__(self) -> str:
        return self.message


def is_request_error(error: BaseException) -> TypeGuard[RequestError]:
    """Return whether an exception is a `RequestError`, or the SDK's error with the same fields."""
    # Unless the SDK is imported, there are no exceptions of it.
    kind = getattr(sys.modules.get("mcp"), "MCPError", RequestError)
    return isinstance(error, RequestError | kind)


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

    def __init__(self, server: str, redact: Redactor, on_end: Callable[[], None]) -> None:
        self.server = server
        self.redact = redact
        self._redact = redact
        self._hidden: deque[str] = deque(maxlen=MAX_HIDDEN_SECRETS)
        self._on_end = on_end
        self.end_reason: str | None = None
        """Why nothing more can arrive."""
        self.requests: dict[RequestId | None, PendingRequest] = {}
        """Requests without an outcome."""
        self.streams = 0
        """How many of them stay for as long as the session: streams of changes."""
        self.server_requests: dict[RequestId, _ServerRequest] = {}
        self.max_requests = MAX_SERVER_REQUESTS
        self.sender: Sender | None = None
        """Writes messages; `None` before the transport is open, and after it is closed."""
        self.handler: Handler | None = None
        self.on_notification: Callable[[str, object], None] | None = None
        """Gets method and params of what must be known before the calls that follow."""
        self.taps: list[Tap] = []
        """The first is next to the transport."""
        self.template: RequestTemplate | None = None
        """What requests have in common; known after the handshake."""
        self.drained: asyncio.Event | None = None
        """Set when no direct call is under way; `None` while no task waits for that."""
        self.last_received = 0.0
        """When the server last sent a message, on the monotonic clock."""
        self.notes: deque[str] = deque(maxlen=MAX_NOTES)
        """What was repaired in results."""
        self.noise_lines = 0
        self.first_noise = ""
        """A sentence that quotes what came first that is not MCP, with advice."""
        self._sweep_at = inf
        self._sweep: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._request_ids = count(FIRST_REQUEST_ID)

    def use(self, sender: Sender) -> None:
        """Send messages with this sender."""
        if self.ended:
            return  # without a sender requests fail at once: no answer could arrive
        for tap in self.taps:
            sender = tap.over(sender)
        self.sender = sender

    def next_request_id(self) -> int:
        """Return an id for a request of our own."""
        return next(self._request_ids)

    def hide(self, secrets: Iterable[str]) -> None:
        """Redact these values too from now on."""
        new = [secret for secret in dict.fromkeys(secrets) if secret not in self._hidden]
        if new:
            self._hidden.extend(new)
            self.redact = self._redact.also(self._hidden)

    @property
    def ended(self) -> bool:
        """Whether nothing more can arrive."""
        return self.end_reason is not None

    def end(self, reason: str) -> None:
        """Note that nothing more can arrive; the first reason is kept."""
        if self.end_reason is None:
            self.end_reason = reason
            self._on_end()

    def note_noise(self, data: bytes, advice: str = "") -> None:
        """Count what is not MCP; the first of a session is logged, with the advice."""
        self.noise_lines += 1
        if self.noise_lines == 1:
            sample = self.redact.excerpt(data[:MAX_NOISE_BYTES].decode("utf-8", "replace"), 80)
            self.first_noise = f"sends what is not MCP ({sanitize_for_terminal(sample)}){advice}"
            logger.warning("%s %s", self.server, self.first_noise)

    # What arrives

    def take_line(self, line: bytes) -> bool:
        """Take a response at once, while any request of our own waits for one.

        What is left to `receive` is what takes long, noise, and what the server asks or tells.
        """
        is_short, notify = len(line) < MAX_ANNOUNCEMENT_BYTES, self.on_notification
        if is_short and notify is not None and _TOOLS_CHANGED in line:
            # A call made in another thread must not overtake it.
            notify(_TOOLS_CHANGED.decode(), None)
        if not self.requests or len(line) >= LARGE_BYTES:
            return False
        try:
            is_long = len(line) >= LONG_BYTES
            may_be_list = is_long and any(one.parse for one in list(self.requests.values()))
            message = read(line, at_once=not may_be_list)
            return message.method is None and self.take(message)
        except ValueError:
            return False

    def take(self, message: Message, limits: IncomingLimits = DEFAULT_LIMITS) -> bool:
        """Hand a response to the request of our own that it answers; return whether there is one.

        Raises:
            ValueError: It cannot be decoded.
            LimitError: It has more values, or would take more memory, than `limits` permit.
        """
        request = self.requests.get(message.id)
        if request is None:
            return False
        self._settle(request, answer_of(request, message, limits), message.body)
        return True

    def _settle(self, request: PendingRequest, answer: dict[str, Any], body: bytes) -> None:
        self.last_received = time.monotonic()
        # Another thread may have given up the request meanwhile.
        if self.requests.pop(request.request_id, None) is not None:
            request.settle(answer, body or None)
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
        first, last = data[:HEAD_BYTES], data[-HEAD_BYTES:]
        is_large = len(data) >= LARGE_BYTES
        if is_large:
            answered = self.requests.get(answered_id(first, last))
            if answered is not None and answered.method in HANDSHAKES:
                self.lose_answer(first, last, too_large_handshake(answered.method))
                return
        find = partial(frames, data, encoding=encoding, errors=errors, limits=limits)
        try:
            framed = await in_thread(find) if is_large else find()
        except LimitError as error:
            self.lose_answer(first, last, str(error))
            return
        if framed.noise:
            self.note_noise(data, advice)
            if not framed.messages and (lost := misread_id(data)) is not None:
                self.lose([lost], NO_JSON_RPC)
        for message in framed.messages:
            await self.dispatch(message, limits, context)

    async def dispatch(
        self, message: Message, limits: IncomingLimits, context: contextvars.Context | None
    ) -> None:
        """Handle one message."""
        if message.method is not None:
            for tap in self.taps:
                tap.received(message, context)
        match message.kind:
            case "response" | "error":
                await self._take_answer(message, limits)
                return
            case "notification":
                self._take_notification(message, context)
            case "request":
                self._take_request(message, context)
        await asyncio.sleep(0)  # its callbacks begin before those of the next message

    async def _take_answer(self, message: Message, limits: IncomingLimits) -> None:
        request = self.requests.get(message.id)
        if request is None:
            logger.debug("%s: an answer to no request: %r", self.server, message.id)
            return
        decode = partial(answer_of, request, message, limits)
        try:
            answer = await in_thread(decode) if len(message.body) >= LARGE_BYTES else decode()
        except LimitError as error:
            self.lose([message.id], str(error))
        except ValueError:
            self.lose([message.id], NO_JSON_RPC)
        else:
            self._settle(request, answer, message.body)

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

    def _take_notification(self, message: Message, context: contextvars.Context | None) -> None:
        method, params = message.method or "", message.params
        if method == "notifications/progress":
            self._take_progress(params or {})
        elif method == "notifications/cancelled":
            cancelled = coerced_id((params or {}).get("requestId"))
            asked = self.server_requests.pop(cancelled, None) if cancelled is not None else None
            if asked is not None and asked.task is not None:
                asked.task.cancel()
        if self.handler is not None:
            run = partial(self.handler.notified, method, params)
            (contextvars.copy_context() if context is None else context).run(run)

    def _take_request(self, message: Message, context: contextvars.Context | None) -> None:
        request_id = message.id
        if request_id is None or self.handler is None or self.sender is None:
            return
        # One that was found beside others on a line has no body of its own.
        asked = _ServerRequest(len(message.body) or MAX_SERVER_REQUEST_BYTES // MAX_SERVER_REQUESTS)
        key = coerced_id(request_id) or request_id
        self.server_requests[key] = asked
        waiting = [one.size for one in self.server_requests.values()]
        if len(waiting) > self.max_requests or sum(waiting) > MAX_SERVER_REQUEST_BYTES:
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
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _take_progress(self, params: Mapping[str, Any]) -> None:
        """Give a request of our own more time, and report its progress."""
        match params:
            case {"progressToken": token, "progress": int() | float() as progress}:
                request = self.requests.get(coerced_id(token))
            case _:
                return
        total, text = params.get("total"), params.get("message")
        try:
            done = float(progress)
            total = float(total) if isinstance(total, int | float) else None
        except OverflowError:
            return
        if request is None or isinstance(progress, bool):
            return
        request.extended = True
        request.expires_at = min(time.monotonic() + request.timeout_seconds, request.latest)
        if (on_progress := request.on_progress) is None:
            return

        async def report() -> None:
            try:
                await on_progress(done, total, text if isinstance(text, str) else None)
            except Exception:  # boundary: callbacks of the user may raise anything
                logger.exception("%s: a progress callback failed", self.server)

        self.start(report())

    def note_repairs(self, exchange: PendingRequest) -> None:
        """Remember what was repaired in a result."""
        self.notes.extend(exchange.notes)
        for note in exchange.notes:
            logger.debug("%s: %s: %s", self.server, exchange.method, note)

    # What is sent

    async def exchange(
        self,
        request: PendingRequest,
        body: bytes,
        *,
        timeout_seconds: float | None = None,
        cancel: bool = True,
    ) -> None:
        """Send a request and wait until it has a result, or raise `RequestError`.

        With `cancel`, the server is notified when the caller stops waiting.
        """
        woken = asyncio.get_running_loop().create_future()
        request.wake = partial(wake, woken)
        await anyio.lowlevel.checkpoint_if_cancelled()
        collect(request)
        if self.sender is None:
            raise closed()
        limit = asyncio.timeout(timeout_seconds)
        self.requests[request.request_id] = request
        try:
            self.sender.send(body, request)
            async with limit:
                await woken
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise closed() from None
        except (asyncio.CancelledError, TimeoutError) as ended:
            timed_out = isinstance(ended, TimeoutError) and limit.expired()
            if cancel:
                reason = f"timed out after {timeout_seconds}s" if timed_out else "caller cancelled"
                self.cancel(request, reason)
            if timed_out:
                text = f"Request {request.method!r} timed out"
                raise RequestError(types.REQUEST_TIMEOUT, text) from None
            raise
        finally:
            self.requests.pop(request.request_id, None)
        if (error := error_of(request)) is not None:
            raise error

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
    if (detail := message.error) is not None:
        error = {"code": detail.code, "message": detail.message, "data": detail.data}
        return {"jsonrpc": "2.0", "id": message.id, "error": error}
    if message.raw is None:
        answer = {"jsonrpc": "2.0", "id": message.id, "result": message.result}
    elif request.parse is not None:
        answer = request.parse(message.body)
    else:
        answer = {"jsonrpc": "2.0", "id": message.id, "result": message.decoded_result(limits)}
    if message.note is not None:
        request.notes = (message.note,)
    return answer


def error_of(request: PendingRequest) -> Exception | None:
    """Return why an ended request has no result; `None` if it has one."""
    if request.fault is not None:
        return request.fault
    if request.message is None or (error := request.message.get("error")) is None:
        return None
    message, data = error["message"], error.get("data")
    if is_longer([message, data], MAX_ERROR_CHARS):
        # Tracebacks keep it alive until garbage is collected, so it is cut where it is.
        message = message[:MAX_ERROR_CHARS]
        data = None if is_longer(data, MAX_ERROR_CHARS) else data
        cut = {"code": error["code"], "message": message, "data": data}
        request.message = {**request.message, "error": cut}
    return RequestError(error["code"], message, data)


def closed() -> RequestError:
    """Return the error of a request whose connection has ended."""
    return RequestError(types.CONNECTION_CLOSED, "Connection closed")
