"""Records one session's wire: its exchanges, its process, and how it ended.

The MCP SDK reports a lost connection, a 401 and a full disk with the same error. The details that
it drops are recorded here, and error mapping uses them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from dataclasses import dataclass, field

from plait._support.redact import Redactor

RequestId = str | int

Hold = Callable[[], AbstractContextManager[object]]
"""Creates a context during which a deadline does not run."""

_STDERR_LINES = 50
_NOTES = 50
"""How many repair notes one session keeps."""
_HIDDEN = 20
"""How many replaced tokens stay hidden."""


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

    reply: HttpReply | None = None

    failure: Exception | None = None
    """The network fault that ended it."""

    notes: tuple[str, ...] = ()
    """What was repaired in its result."""

    end_offset: int = 0
    """The offset of its last byte on the pipe."""

    held: Hold = nullcontext
    """Stops the deadline of its operation."""


@dataclass(slots=True)
class Exchanges:
    """The requests that one operation caused, in order."""

    all: list[Exchange] = field(default_factory=list[Exchange])
    held: Hold = nullcontext
    """Stops the deadline of the operation while the user has to act."""

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


def watched_exchanges(held: Hold = nullcontext) -> AbstractContextManager[Exchanges]:
    """Collect the exchanges of the block, in this task and those it starts.

    `held` is entered while the user has to act before they can continue.
    """
    return _Watch(Exchanges(held=held))


class _Watch(AbstractContextManager[Exchanges]):
    """Collects exchanges; a class, since every call has one."""

    __slots__ = ("_exchanges", "_token")

    def __init__(self, exchanges: Exchanges) -> None:
        self._exchanges = exchanges
        self._token: Token[Exchanges | None] | None = None

    def __enter__(self) -> Exchanges:
        self._token = _watching.set(self._exchanges)
        return self._exchanges

    def __exit__(self, *_error: object) -> None:
        if self._token is not None:
            _watching.reset(self._token)


def clock_held() -> AbstractContextManager[object]:
    """Stop the deadline of the exchange in this context, while the user has to act."""
    exchange = _current.get()
    return nullcontext() if exchange is None else exchange.held()


def current_exchange() -> Exchange | None:
    """Return the exchange whose message is being sent in this context."""
    return _current.get()


@contextmanager
def sending(exchange: Exchange) -> Generator[None]:
    """Make an exchange current, and collect it if it is a request."""
    watching = _watching.get()
    if watching is not None and exchange.request_id is not None:
        watching.all.append(exchange)
        exchange.held = watching.held
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
        self.stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self.notes: deque[str] = deque(maxlen=_NOTES)
        self.noise_lines = 0
        self.tapped = False
        """Whether exchanges are recorded; those with an in-process server are not."""
        self.last_received = 0.0
        """When the server last sent a message, on the monotonic clock."""
        self.pid: int | None = None
        self.exit_code: int | None = None
        self.end_reason: str | None = None
        self.reply: HttpReply | None = None
        """The last HTTP error response, of any request."""
        self.before_end: Callable[[], Awaitable[None]] | None = None
        """Called once the stream has ended, to find out why."""
        self.on_notification: Callable[[str, object], None] | None = None
        """Gets method and params of notifications that the SDK does not dispatch."""
        self.on_notifications_lost: Callable[[], None] | None = None
        self._on_end = on_end

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

    def last_stderr_line(self) -> str | None:
        """Return the last line of the server's standard error, without secrets."""
        line = next((line for line in reversed(self.stderr) if line.strip()), None)
        return None if line is None else self.redact.excerpt(line)
