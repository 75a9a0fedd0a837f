"""What is known of one session's wire: its exchanges, its process, and how it ended.

The MCP SDK reports a lost connection, a 401 and a full disk with the same error. The facts it
drops are written down here while they pass, and errors are made from them.
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
"""Makes a context during which time does not count."""

_STDERR_LINES = 50
_NOTES = 50
"""How many repaired answers one session remembers."""
_HIDDEN = 20
"""How many tokens that came and went stay hidden."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Why an exchange was refused on our side, and the way out."""

    text: str
    scopes: tuple[str, ...] = ()
    """What the server asks for."""
    login: str | None = None
    """The command that signs in."""
    address: str | None = None
    """Where a person was sent."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An HTTP answer that was not a success."""

    status: int
    retry_after: str | None
    challenge: str | None
    body: str
    error_code: int | None
    """The code of the JSON-RPC error in the body; `None` if it was no MCP server that answered."""
    had_session: bool
    """Whether the request carried a session id."""
    advice: Advice | None = None
    """What to do about it, where signing in was tried."""


@dataclass(slots=True)
class Exchange:
    """One message that was sent, and what became of it."""

    method: str
    request_id: RequestId | None
    """`None` for a notification."""

    version: str
    """The protocol version the message was sent under."""

    written: bool = False
    """Whether the server may have read the whole message."""

    answered: bool = False

    stream_ended: bool = False
    """Whether the HTTP answer ended, so that an error after it is the SDK's and no server's."""

    reply: HttpReply | None = None

    failure: Exception | None = None
    """The network fault that ended it."""

    notes: tuple[str, ...] = ()
    """What was repaired in its answer."""

    end_offset: int = 0
    """Where on a pipe its last byte stands."""

    held: Hold = nullcontext
    """Stops the clock of the operation it belongs to."""


@dataclass(slots=True)
class Exchanges:
    """The requests that one operation caused, in order."""

    all: list[Exchange] = field(default_factory=list[Exchange])
    held: Hold = nullcontext
    """Stops the clock of the operation while a person has to do something first."""

    @property
    def last(self) -> Exchange | None:
        """The newest of them."""
        return self.all[-1] if self.all else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Everything that was repaired on the way."""
        return tuple(note for exchange in self.all for note in exchange.notes)

    def may_have_run(self) -> bool:
        """Say whether the last request may have reached the server's code."""
        last = self.last
        return last is not None and last.written and last.reply is None


_watching: ContextVar[Exchanges | None] = ContextVar("plait_exchanges", default=None)
_current: ContextVar[Exchange | None] = ContextVar("plait_exchange", default=None)


def watched_exchanges(held: Hold = nullcontext) -> AbstractContextManager[Exchanges]:
    """Collect the exchanges that the block causes, in this task and those it starts.

    `held` is entered while a person has to do something before they can go on.
    """
    return _Watch(Exchanges(held=held))


class _Watch(AbstractContextManager[Exchanges]):
    """A block whose exchanges are collected; a class, since every call has one."""

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
    """Stop the clock of whatever is being sent in this context, while a person is waited for."""
    exchange = _current.get()
    return nullcontext() if exchange is None else exchange.held()


def current_exchange() -> Exchange | None:
    """Return the exchange whose message is being sent in this context."""
    return _current.get()


@contextmanager
def sending(exchange: Exchange) -> Generator[None]:
    """Make an exchange current; if it is a request, tell whoever watches about it."""
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
        """Whether requests are noted here; those to an object in this process are not."""
        self.last_received = 0.0
        """When the server last sent anything, on the monotonic clock."""
        self.pid: int | None = None
        self.exit_code: int | None = None
        self.end_reason: str | None = None
        self.reply: HttpReply | None = None
        """The last HTTP answer that was not a success, whichever request it answered."""
        self.before_end: Callable[[], Awaitable[None]] | None = None
        """What a transport still has to find out once its stream has ended."""
        self.on_notification: Callable[[str, object], None] | None = None
        """Gets method and params of what servers announce and the SDK tells nobody."""
        self.on_notifications_lost: Callable[[], None] | None = None
        self._on_end = on_end

    def hide(self, secrets: Iterable[str]) -> None:
        """Hide these values too in whatever is quoted from now on."""
        new = [secret for secret in dict.fromkeys(secrets) if secret not in self._hidden]
        if new:
            self._hidden.extend(new)
            self.redact = self._redact.also(self._hidden)

    @property
    def ended(self) -> bool:
        """Whether nothing more can arrive."""
        return self.end_reason is not None

    def end(self, reason: str) -> None:
        """Note that nothing more can arrive; the first reason stands."""
        if self.end_reason is None:
            self.end_reason = reason
            self._on_end()

    def lose_notifications(self) -> None:
        """Note that answers may come, but nothing that was not asked for."""
        if self.on_notifications_lost is not None:
            self.on_notifications_lost()

    def ending(self) -> str:
        """Say how the wire ended, as far as is known."""
        if self.exit_code is None:
            return self.end_reason or "the connection was closed"
        killed = self.exit_code < 0
        how = f"was killed by signal {-self.exit_code}" if killed else f"exited ({self.exit_code})"
        return f"the server {how}"

    def last_stderr_line(self) -> str | None:
        """Return the last line the server wrote to its standard error, without secrets."""
        line = next((line for line in reversed(self.stderr) if line.strip()), None)
        return None if line is None else self.redact.excerpt(line)
