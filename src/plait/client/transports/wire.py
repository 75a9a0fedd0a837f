"""The peer of one session, with what its transport knows: its process, and how it ended.

Error mapping explains failures by these facts.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from plait._support.causes import without_secrets
from plait._support.sanitize import sanitize_for_terminal
from plait.client.protocol.peer import Peer
from plait.errors import ConnectError

if TYPE_CHECKING:
    from plait._support.redact import Redactor
    from plait.client.protocol.http_reply import HttpReply
    from plait.client.transports.process import StartedProcess
    from plait.client.transports.tape import Tape

logger = logging.getLogger("plait.client.transports")

_STDERR_LINES = 50
_HIDDEN = 20
"""How many replaced tokens stay hidden."""
_LONGEST_LINE = 4000
_LONGEST_READ = 64_000
"""How much of a line is searched for secrets."""


class Wire(Peer):
    """The peer of one session, with what its transport knows."""

    def __init__(self, server: str, redact: Redactor, on_end: Callable[[], None]) -> None:
        super().__init__(server)
        self.redact = redact
        self._redact = redact
        self._hidden: deque[str] = deque(maxlen=_HIDDEN)
        self.read_stderr: Callable[[], Sequence[bytes]] = tuple
        """Returns the last lines that the server wrote to its standard error."""
        self.read_session_id: Callable[[], str | None] = lambda: None
        """Returns the id that an HTTP server gave to the session, before protocol 2026-07-28."""
        self.noise_lines = 0
        self.first_noise = ""
        """A sentence that quotes what came first that is not MCP, with advice."""
        self.tape: Tape | None = None
        """Where the traffic is recorded or played."""
        self.tapped = False
        """Whether exchanges are recorded; those over a session of the user are not."""
        self.started_process: StartedProcess | None = None
        """The process for the transport, until it is opened."""
        self.pid: int | None = None
        self.exit_code: int | None = None
        self.end_reason: str | None = None
        self.reply: HttpReply | None = None
        """The last HTTP error response, of any request."""
        self.before_end: Callable[[], Awaitable[None]] | None = None
        """Called once the stream has ended, to find out why."""
        self.on_notification: Callable[[str, object], None] | None = None
        """Gets method and params of what must be known before the calls that follow."""
        self.on_notifications_lost: Callable[[], None] | None = None
        self._on_end = on_end

    @override
    def note_noise(self, data: bytes, advice: str = "") -> None:
        """Count what is not MCP; the first of a session is logged, with the advice."""
        self.noise_lines += 1
        if self.noise_lines == 1:
            sample = self.redact.excerpt(data[:_LONGEST_READ].decode("utf-8", "replace"), 80)
            self.first_noise = f"sends what is not MCP ({sanitize_for_terminal(sample)}){advice}"
            logger.warning("%s %s", self.server, self.first_noise)

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

    @override
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


@asynccontextmanager
async def receiving(
    work: Callable[[], Coroutine[Any, Any, None]], wire: Wire
) -> AsyncGenerator[asyncio.Task[None]]:
    """Receive messages during the block, until the server ends; then what waits for it fails."""

    async def receive() -> None:
        try:
            await work()
        except Exception as error:  # boundary: whatever a server sends, nobody waits in vain
            safe = without_secrets(error, wire.redact)
            logger.error("%s: a message could not be handled", wire.server, exc_info=safe)
            wire.end("the server sent a message that could not be handled")
        if wire.before_end is not None:
            await wire.before_end()
        wire.end("the server closed the connection")
        wire.close()

    reading = asyncio.get_running_loop().create_task(receive())
    try:
        yield reading
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await wire.aclose()
