"""The peer of one session, with what its transport knows: its process, and how it ended.

Error mapping explains failures by these facts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import anyio

from plait._support.causes import without_secrets
from plait.client.protocol.peer import Peer, closed
from plait.errors import ConnectError

if TYPE_CHECKING:
    from plait._support.redact import Redactor
    from plait.client.protocol.exchange import HttpReply, PendingRequest
    from plait.client.transports.process import Child
    from plait.client.transports.tape import Tape

logger = logging.getLogger("plait.client.transports")

_LIBRARY_LOGGERS = (
    "httpx2",
    "httpcore2.connection",
    "httpcore2.http11",
    "httpcore2.http2",
    "httpcore2.proxy",
    "websockets.client",
    "client",
)
"""They log whole URLs at info level, and headers at debug level; the last is that of stock sessions
of the SDK."""

MAX_STDERR_LINES = 50
"""The last lines of standard error that explain a failure."""
MAX_LINE_CHARS = 4000
"""How much of a line is shown."""
MAX_LINE_BYTES = 64_000
"""How much of a line is searched for secrets before it is cut."""


class Wire(Peer):
    """The peer of one session, with what its transport knows."""

    def __init__(self, server: str, redact: Redactor, on_end: Callable[[], None]) -> None:
        super().__init__(server, redact, on_end)
        self.read_stderr: Callable[[], Sequence[bytes]] = tuple
        """Returns the last lines that the server wrote to its standard error."""
        self.read_session_id: Callable[[], str | None] = lambda: None
        """Returns the id that an HTTP server gave to the session, before protocol 2026-07-28."""
        self.tape: Tape | None = None
        """Where the traffic is recorded or played."""
        self.tapped = False
        """Whether exchanges are recorded; those over a session of the user are not."""
        self.started_process: Child | None = None
        """The process for the transport, until it is opened."""
        self.pid: int | None = None
        self.exit_code: int | None = None
        self.reply: HttpReply | None = None
        """The last HTTP error response, of any request."""
        self.on_notifications_lost: Callable[[], None] = lambda: None
        """Called when notifications can no longer arrive, though responses may."""

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
        return [self.redacted_line(line) for line in self.read_stderr()[-MAX_STDERR_LINES:]]

    def redacted_line(self, line: bytes) -> str:
        """Return a line as text, without secrets and not too long."""
        # Redacted before it is cut: half of a secret would not be found.
        text = self.redact(line[:MAX_LINE_BYTES].decode("utf-8", "replace").rstrip("\r"))
        return text[:MAX_LINE_CHARS]


@asynccontextmanager
async def receiving(
    work: Callable[[], Coroutine[Any, Any, None]],
    wire: Wire,
    before_end: Callable[[], Awaitable[None]] | None = None,
) -> AsyncGenerator[asyncio.Task[None]]:
    """Receive messages during the block, until the server ends; then what waits for it fails.

    `before_end` finds out why it has ended.
    """

    async def receive() -> None:
        try:
            await work()
        except Exception as error:  # boundary: whatever a server sends, nobody waits in vain
            safe = without_secrets(error, wire.redact)
            logger.error("%s: a message could not be handled", wire.server, exc_info=safe)
            wire.end("the server sent a message that could not be handled")
        if before_end is not None:
            await before_end()
        wire.end("the server closed the connection")
        wire.close()

    reading = asyncio.get_running_loop().create_task(receive())
    try:
        yield reading
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await wire.aclose()


class TaskSender:
    """Sends each request in a task, since the transport may make it wait."""

    any_thread = False
    is_direct = True

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    async def deliver(self, body: bytes) -> None:
        """Write a message, and wait until the transport has taken it."""
        raise NotImplementedError

    def may_arrive(self) -> bool:
        """Return whether a message that is about to be written may reach the server."""
        return True

    def send(self, body: bytes, request: PendingRequest) -> None:
        """Write a request."""
        request.written = True  # the session may end before the task begins
        self.wire.start(self._send(body, request))

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        """Tell the server that the caller of a request no longer waits."""
        del request
        self.wire.start(self._send(notification, None))

    async def _send(self, body: bytes, request: PendingRequest | None) -> None:
        if request is not None:
            if request.request_id not in self.wire.requests:
                return  # its caller waits no more
            request.written = self.may_arrive()
        try:
            await self.deliver(body)
        except anyio.BrokenResourceError:
            if request is not None and self.wire.requests.pop(request.request_id, None):
                request.fail(closed())


_wire: ContextVar[Wire | None] = ContextVar("plait_wire", default=None)


def _hide(record: logging.LogRecord) -> bool:
    """Redact a record of the session; every record passes the filter."""
    wire = _wire.get()
    if wire is None:
        return True
    record.msg, record.args = wire.redact(record.getMessage()), None
    if record.exc_info and record.levelno >= logging.WARNING:
        # It is about a message of the server; thousands of them would fill the disk.
        wire.noise_lines += 1
        record.exc_info = None
        return wire.noise_lines == 1
    if record.exc_info and record.exc_info[1] is not None:
        safe = without_secrets(record.exc_info[1], wire.redact)
        record.exc_info = (type(safe), safe, safe.__traceback__)
    return True


@contextmanager
def redacted_library_logs(wire: Wire) -> Generator[None]:
    """Redact library logs with the wire's redactor, in this task and those it starts.

    Records of other users of the same libraries in this process are not changed.
    """
    for name in _LIBRARY_LOGGERS:
        logging.getLogger(name).addFilter(_hide)
    token = _wire.set(wire)
    try:
        yield
    finally:
        # A generator closed by the garbage collector ends in another context.
        with suppress(ValueError):
            _wire.reset(token)
