"""Records one session's wire: its exchanges, its process, and how it ended.

The MCP SDK reports a lost connection, a 401 and a full disk with the same error. The details that
it drops are recorded here, and error mapping uses them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

from pydantic_core import from_json, to_json

from plait._support.garbage import collection_paused
from plait._support.sanitize import sanitize_for_terminal
from plait.client.transports.nesting import NESTED_NOTE, shallow
from plait.errors import ConnectError

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import JSONRPCMessage

    from plait._support.redact import Redactor
    from plait.client.transports.http_reply import HttpReply
    from plait.client.transports.process import StartedProcess
    from plait.client.transports.tape import Tape

logger = logging.getLogger("plait.client.transports")

RequestId = str | int

Hold = Callable[[], AbstractContextManager[object]]
"""Creates a context during which a deadline does not run."""

FIRST_REQUEST_ID = 1_000_000_000
"""The ids of our own requests start far above those of the SDK, which counts from 1."""
_STDERR_LINES = 50
_NOTES = 50
"""How many repair notes one session keeps."""
_HIDDEN = 20
"""How many replaced tokens stay hidden."""
_LARGE_BYTES = 64 * 1024
"""Parsing a larger message may start the garbage collector several times."""
_LONGEST_LINE = 4000
_LONGEST_READ = 64_000
"""How much of a line is searched for secrets."""
_UNREAD_SECONDS = 0.1
"""How long the timer of direct calls waits while no message is read."""
_LONGEST_ID = 20
"""Digits in an id that could be one of our numbers."""


def coerced_id(request_id: object) -> RequestId | None:
    """Convert the id "7" back to 7: some servers return numbers as strings."""
    if isinstance(request_id, int):
        return request_id
    if not isinstance(request_id, str):
        return None
    if request_id.isascii() and len(request_id) < _LONGEST_ID and request_id.isdecimal():
        return int(request_id)
    return request_id


def parse_json(body: bytes) -> Any:
    """Parse JSON; garbage collection waits, because many objects would start it for nothing."""
    if len(body) < _LARGE_BYTES:
        return from_json(body)
    with collection_paused():
        return from_json(body)


def parse_nested(body: bytes) -> dict[str, Any] | None:
    """Parse an object that is nested too deeply, without its deepest parts; `None` if it is not."""
    cut = shallow(body)
    if cut is body:
        return None
    try:
        message = from_json(cut)
    except ValueError:
        return None
    return cast("dict[str, Any]", message) if isinstance(message, dict) else None


def is_response(message: Mapping[str, Any]) -> bool:
    """Return whether a message is a response that follows JSON-RPC to the letter."""
    if message.get("jsonrpc") != "2.0" or "method" in message:
        return False
    if type(message.get("result")) is dict:
        return True
    match message.get("error"):
        case {"code": int(), "message": str()}:
            return True
        case _:
            return False


@dataclass(slots=True)
class Exchange:
    """One message that was sent, and its outcome."""

    method: str
    request_id: RequestId | None
    """`None` for a notification."""
    version: str
    """The protocol version the message was sent under."""
    written: bool = False
    """Whether the server may have read the whole message."""
    answered: bool = False
    stream_ended: bool = False
    """Whether the HTTP response ended, so that a later error comes from the SDK."""
    has_stray: bool = False
    """Whether the HTTP response had a response to another request."""
    reply: HttpReply | None = None
    failure: Exception | None = None
    """The network fault that ended it."""
    notes: tuple[str, ...] = ()
    """What was repaired in its result."""
    end_offset: int = 0
    """The offset of its last byte on the pipe."""
    held: Hold = nullcontext
    """Stops the deadline of its operation."""


@dataclass(slots=True, eq=False)
class PendingRequest(Exchange):
    """A request whose sender waits for its response, in any thread."""

    wake: Callable[[], None] = lambda: None
    """Called once, in the loop of the connections, when there is an outcome."""
    message: dict[str, Any] | None = field(default=None, repr=False)
    """The JSON-RPC response."""
    fault: Exception | None = None
    """Why there will be no response."""
    on_progress: ProgressFnT | None = None
    headers: Mapping[str, str] | None = None
    """Headers that HTTP transports add."""
    parse: Callable[[bytes], Any] = parse_json
    """Parses the response."""
    wants_body: bool = False
    """Whether the sender needs the response as it arrived, beside the parsed one."""
    body: bytes | None = field(default=None, repr=False)
    """The response as it arrived, if that is wanted and the transport has it."""
    body_bytes: int = 0
    """The size of the response, if the transport has it as it arrived."""
    may_mirror: bool = True
    """Whether listed tools may mirror arguments in HTTP headers."""
    direct: bool = False
    """Whether it is a call that nothing but this request belongs to."""
    timeout_seconds: float = inf
    """How long a direct call waits for its response, or for progress."""
    expires_at: float = inf
    """When it stops waiting, on the monotonic clock."""
    extended: bool = False
    """Whether the server has reported progress."""
    latest: float = inf
    """The time beyond which progress does not extend it."""

    def settle(self, message: dict[str, Any], body: bytes | None = None) -> None:
        """Take the response, and the bytes it came as; later outcomes are ignored."""
        if self.message is None and self.fault is None:
            self.message = message
            self.body = body if self.wants_body else None
            self.body_bytes = len(body or b"")
            self.answered = True
            self.wake()

    def fail(self, fault: Exception) -> None:
        """Give up waiting for a response; later outcomes are ignored."""
        if self.message is None and self.fault is None:
            self.fault = fault
            self.wake()


class RequestExpiredError(Exception):
    """A direct call got no response in time."""


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """What every request of a session has in common."""

    version: str
    """The protocol version that its results are read by."""
    meta: Mapping[str, Any]
    """The fields of `_meta`, without those of a single request."""
    protocol_header: str | None
    """The value of the `MCP-Protocol-Version` header."""


class Sender(Protocol):
    """Writes messages to a transport, without waiting."""

    any_thread: bool
    """Whether `send` may be called outside the loop of the connections."""

    @property
    def is_direct(self) -> bool:
        """Whether a request is sent at once, without functions for headers or a sign-in."""
        ...

    def send(self, body: bytes, request: PendingRequest) -> None:
        """Write a request; what goes wrong later makes the request fail.

        Raises:
            anyio.BrokenResourceError: The server is gone, and the request was not written.
            anyio.ClosedResourceError: This end was closed.
        """
        ...

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        """Tell the server that the caller of a request no longer waits."""
        ...


@dataclass(slots=True)
class Exchanges:
    """The requests that one operation caused, in order; collects those of a `with` block."""

    all: list[Exchange] = field(default_factory=list[Exchange])
    held: Hold = nullcontext
    """Stops the deadline of the operation while the user has to act."""
    _token: Token[Exchanges | None] | None = field(default=None, repr=False, compare=False)

    def __enter__(self) -> Self:
        self._token = _watching.set(self)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._token is not None:
            _watching.reset(self._token)

    @property
    def last(self) -> Exchange | None:
        """The newest of them."""
        return self.all[-1] if self.all else None

    @property
    def notes(self) -> tuple[str, ...]:
        """All repair notes of the exchanges."""
        return tuple(note for exchange in self.all for note in exchange.notes)

    def may_have_run(self) -> bool:
        """Return whether the last request may have reached the server's code."""
        last = self.last
        return last is not None and last.written and last.reply is None


_watching: ContextVar[Exchanges | None] = ContextVar("plait_exchanges", default=None)
_current: ContextVar[Exchange | None] = ContextVar("plait_exchange", default=None)


def watched_exchanges(held: Hold = nullcontext) -> Exchanges:
    """Collect the exchanges of the block, in this task and those it starts.

    `held` is entered while the user has to act before they can continue.
    """
    return Exchanges(held=held)


def wake(woken: asyncio.Future[None]) -> None:
    """Complete a future, unless its task was cancelled meanwhile."""
    if not woken.done():
        woken.set_result(None)


def clock_held() -> AbstractContextManager[object]:
    """Stop the deadline of the exchange in this context, while the user has to act."""
    exchange = _current.get()
    return nullcontext() if exchange is None else exchange.held()


def current_exchange() -> Exchange | None:
    """Return the exchange whose message is being sent in this context."""
    return _current.get()


def collect(exchange: Exchange) -> None:
    """Add a request to those that the operation in this context has caused."""
    watching = _watching.get()
    if watching is not None:
        watching.all.append(exchange)
        exchange.held = watching.held


def received_bytes() -> int:
    """Return how large the responses to requests of our own are that the operation has caused."""
    watching = _watching.get()
    requests = () if watching is None else watching.all
    return sum(one.body_bytes for one in requests if isinstance(one, PendingRequest))


def sending(exchange: Exchange) -> AbstractContextManager[None]:
    """Make an exchange current, and collect it if it is a request."""
    if exchange.request_id is not None:
        collect(exchange)
    return as_current(exchange)


@contextmanager
def as_current(exchange: Exchange) -> Generator[None]:
    """Make an exchange that of the message being sent in the block."""
    token = _current.set(exchange)
    try:
        yield
    finally:
        _current.reset(token)


class Wire:
    """The wire of one session."""

    def __init__(self, server: str, redact: Redactor, on_end: Callable[[], None]) -> None:
        self.server = server
        self.redact = redact
        self._redact = redact
        self._hidden: deque[str] = deque(maxlen=_HIDDEN)
        self.pending: dict[RequestId, Exchange] = {}
        self.read_stderr: Callable[[], Sequence[bytes]] = tuple
        """Returns the last lines that the server wrote to its standard error."""
        self.read_session_id: Callable[[], str | None] = lambda: None
        """Returns the id that an HTTP server gave to the session, before protocol 2026-07-28."""
        self.notes: deque[str] = deque(maxlen=_NOTES)
        self.noise_lines = 0
        self.first_noise = ""
        """A sentence that quotes what came first that is not MCP, with advice."""
        self.requests: dict[RequestId | None, PendingRequest] = {}
        """Our own requests without a response, beside those of the SDK in `pending`."""
        self.server_requests: dict[RequestId, int] = {}
        """Requests of the server without an answer, and how many bytes they have."""
        self.parse: Callable[[bytes], Any] = parse_json
        """Parses lines; that of a request while its response is likely to be the next one."""
        self.sender: Sender | None = None
        """Writes our own requests; `None` if the transport leaves all requests to the SDK."""
        self.handshake: deque[PendingRequest] = deque()
        """Requests of a handshake that was made before the SDK's client, which repeats it."""
        self.is_initialized = False
        """Whether that handshake has ended with a notification of the server."""
        self.template: RequestTemplate | None = None
        """Known after the first request that follows the handshake."""
        self.drained: asyncio.Event | None = None
        """Set when no direct call is under way; `None` while no task waits for that."""
        self._sweep_at = inf
        self._sweep: asyncio.TimerHandle | None = None
        self._is_unread = False
        self._reports: set[asyncio.Future[None]] = set()
        self._request_ids = count(FIRST_REQUEST_ID)
        self.tape: Tape | None = None
        """Where the traffic is recorded or played; then the SDK makes all requests."""
        self.tapped = False
        """Whether exchanges are recorded; those with an in-process server are not."""
        self.last_received = 0.0
        """When the server last sent a message, on the monotonic clock."""
        self.started_process: StartedProcess | None = None
        """The process for the transport, until it is opened."""
        self.pid: int | None = None
        self.exit_code: int | None = None
        self.end_reason: str | None = None
        self.reply: HttpReply | None = None
        """The last HTTP error response, of any request."""
        self.before_end: Callable[[], Awaitable[None]] | None = None
        """Called once the stream has ended, to find out why."""
        self.pass_on: Callable[[JSONRPCMessage], Awaitable[None]] | None = None
        """Handles a large message in place of the SDK's parser; `None` if that reads all."""
        self.on_notification: Callable[[str, object], None] | None = None
        """Gets method and params of notifications that the SDK does not dispatch."""
        self.on_notifications_lost: Callable[[], None] | None = None
        self._on_end = on_end

    def use(self, sender: Sender) -> None:
        """Send requests of our own with this sender."""
        self.sender = sender

    def next_request_id(self) -> int:
        """Return an id for a request of our own."""
        return next(self._request_ids)

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
        request.settle(message, body)
        if self.drained is not None:
            self.check_drained()
        return True

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

    def progress(self, params: Mapping[str, Any]) -> None:
        """Report the progress of a request of our own."""
        match params:
            case {"progressToken": token, "progress": int() | float() as progress}:
                request = self.requests.get(coerced_id(token))
            case _:
                return
        if request is None or isinstance(progress, bool):
            return
        request.extended = True
        request.expires_at = min(time.monotonic() + request.timeout_seconds, request.latest)
        if request.on_progress is None:
            return
        total, message = params.get("total"), params.get("message")
        task = asyncio.ensure_future(
            request.on_progress(
                float(progress),
                float(total) if isinstance(total, int | float) else None,
                message if isinstance(message, str) else None,
            )
        )
        self._reports.add(task)
        task.add_done_callback(self._reported)

    def _reported(self, report: asyncio.Future[None]) -> None:
        self._reports.discard(report)
        if not report.cancelled() and (error := report.exception()) is not None:
            logger.error("%s: a progress callback failed", self.server, exc_info=error)

    def note_repairs(self, exchange: Exchange) -> None:
        """Remember what was repaired in a result."""
        self.notes.extend(exchange.notes)
        for note in exchange.notes:
            logger.debug("%s: %s: %s", self.server, exchange.method, note)

    def note_noise(self, data: bytes, advice: str = "") -> None:
        """Count what is not MCP; the first of a session is logged, with the advice."""
        self.noise_lines += 1
        if self.noise_lines == 1:
            sample = self.redact.excerpt(data[:_LONGEST_READ].decode("utf-8", "replace"), 80)
            self.first_noise = f"sends what is not MCP ({sanitize_for_terminal(sample)}){advice}"
            logger.warning("%s %s", self.server, self.first_noise)

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

    @property
    def direct_calls(self) -> int:
        """How many direct calls are under way."""
        return sum(request.direct for request in list(self.requests.values()))

    def check_drained(self) -> None:
        """Wake who waits until no direct call is under way."""
        if self.drained is not None and not self.direct_calls:
            self.drained.set()

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

    @contextmanager
    def unread(self) -> Generator[None]:
        """Let no direct call run out of time in the block, in which no message is read."""
        began, self._is_unread = time.monotonic(), True
        try:
            yield
        finally:
            self._is_unread = False
            seconds = time.monotonic() - began
            for request in tuple(self.requests.values()):
                request.expires_at += seconds
                request.latest += seconds

    def _expire(self) -> None:
        now = time.monotonic()
        if self._is_unread:
            self._sweep_at = now + _UNREAD_SECONDS
            self._schedule_sweep(asyncio.get_running_loop())
            return
        waiting = list(self.requests.values())
        for request in waiting:
            if request.expires_at <= now and self.requests.pop(request.request_id, None):
                self.cancel(request, f"timed out after {request.timeout_seconds:g}s")
                request.fail(RequestExpiredError())
        self._sweep_at = min((one.expires_at for one in self.requests.values()), default=inf)
        self._schedule_sweep(asyncio.get_running_loop())
        self.check_drained()

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
        """Record that nothing more can arrive; the first reason is kept."""
        if self.end_reason is None:
            self.end_reason = reason
            self._on_end()

    def lose_notifications(self) -> None:
        """Report that notifications can no longer arrive, though responses may."""
        if self.on_notifications_lost is not None:
            self.on_notifications_lost()

    def ending(self) -> str:
        """Describe how the wire ended."""
        if self.exit_code is None:
            return self.end_reason or "the connection was closed"
        killed = self.exit_code < 0
        how = f"was killed by signal {-self.exit_code}" if killed else f"exited ({self.exit_code})"
        return f"the server {how}"

    def connect_error(self, text: str, **details: Any) -> ConnectError:
        """Build the error of a session that cannot be opened."""
        return ConnectError(f"{self.server}: {text}", server=self.server, **details)

    def last_stderr_line(self) -> str | None:
        """Return the last line of the server's standard error, without secrets."""
        line = next((line for line in reversed(self.stderr_tail()) if line.strip()), None)
        return None if line is None else self.redact.excerpt(line)

    def stderr_tail(self) -> list[str]:
        """Return the last lines of the server's standard error, without secrets."""
        return [self.redacted_line(line) for line in self.read_stderr()[-_STDERR_LINES:]]

    def redacted_line(self, line: bytes) -> str:
        """Return a line as text, without secrets and not too long."""
        # Redacted before it is cut: half of a secret would not be found.
        text = self.redact(line[:_LONGEST_READ].decode("utf-8", "replace").rstrip("\r"))
        return text[:_LONGEST_LINE]
