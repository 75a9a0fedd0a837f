"""What is known of each message that was sent: written, answered, refused.

At-most-once is decided from these facts, and error mapping explains failures by them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol, Self

from plait.client.protocol.reading import RequestId

OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Gets the progress of a request: how much is done, of how much, and a text."""

Hold = Callable[[], AbstractContextManager[object]]
"""Creates a context during which a deadline does not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Why this client refused an exchange, and how to fix it."""

    text: str
    scopes: tuple[str, ...] = ()
    """The scopes the server requests."""
    login: str | None = None
    """The command that signs in."""
    address: str | None = None
    """The authorization URL the user was sent to."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An HTTP response with an error status."""

    status: int
    retry_after: str | None
    challenge: str | None
    body: str
    error_code: int | None
    """The JSON-RPC error code in the body; `None` if no MCP server answered."""
    had_session: bool
    """Whether the request carried a session id."""
    advice: Advice | None = None
    """How to fix it, where signing in was tried."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A message that was sent, and its outcome, which its sender awaits in any thread."""

    method: str
    request_id: RequestId | None
    """`None` for a notification."""
    version: str
    """The protocol version the message was sent under."""
    written: bool = False
    """Whether the server may have read the whole message."""
    answered: bool = False
    stream_ended: bool = False
    """Whether the HTTP response ended, so that a later error is not one of the server."""
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
    wake: Callable[[], None] = lambda: None
    """Called once, in the loop of the connections, when there is an outcome."""
    message: dict[str, Any] | None = field(default=None, repr=False)
    """The JSON-RPC response."""
    fault: Exception | None = None
    """Why there will be no response."""
    on_progress: OnProgress | None = None
    headers: Mapping[str, str] | None = None
    """Headers that HTTP transports add."""
    parse: Callable[[bytes], dict[str, Any]] | None = None
    """Parses a long response in a way of its own, such as a list of tools row by row."""
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
    blocks: bool = False
    """Whether the thread that sends it does nothing else before there is an outcome."""
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

    async def deliver(self, body: bytes) -> None:
        """Write a notification or an answer, and wait until the transport has taken it.

        Raises:
            anyio.BrokenResourceError: The server is gone.
            anyio.ClosedResourceError: This end was closed.
        """
        ...

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        """Tell the server that the caller of a request no longer waits."""
        ...


@dataclass(slots=True)
class Exchanges:
    """The requests that one operation caused, in order; as a context manager it collects them."""

    all: list[PendingRequest] = field(default_factory=list[PendingRequest])
    held: Hold = nullcontext
    """Stops the deadline of the operation while the user has to act before it can continue."""
    _token: Token[Exchanges | None] | None = field(default=None, repr=False, compare=False)

    def __enter__(self) -> Self:
        self._token = _watching.set(self)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._token is not None:
            _watching.reset(self._token)

    @property
    def last(self) -> PendingRequest | None:
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
current_exchange: ContextVar[PendingRequest | None] = ContextVar("plait_exchange", default=None)
"""The exchange whose message is being sent."""


def wake(woken: asyncio.Future[None]) -> None:
    """Complete a future, unless its task was cancelled meanwhile."""
    if not woken.done():
        woken.set_result(None)


def collect(exchange: PendingRequest) -> None:
    """Add a request to those that the operation in this context has caused."""
    watching = _watching.get()
    if watching is not None:
        watching.all.append(exchange)
        exchange.held = watching.held


def received_bytes() -> int:
    """Return how large the responses to requests of our own are that the operation has caused."""
    watching = _watching.get()
    return 0 if watching is None else sum(one.body_bytes for one in watching.all)


@contextmanager
def as_current(exchange: PendingRequest) -> Generator[None]:
    """Make an exchange that of the message being sent in the block."""
    token = current_exchange.set(exchange)
    try:
        yield
    finally:
        current_exchange.reset(token)


def clock_held() -> AbstractContextManager[object]:
    """Stop the deadline of the exchange in this context, while the user has to act."""
    exchange = current_exchange.get()
    return nullcontext() if exchange is None else exchange.held()
