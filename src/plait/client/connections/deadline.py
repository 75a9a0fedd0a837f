"""The time limit of one request, and the error when it is exceeded."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from plait.errors import CallTimeoutError, ListTimeoutError, PlaitError


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a caller waits for a session."""

    seconds: float = 0.0
    """It waits so long even where `connect_timeout` is shorter."""
    attempts: int | None = None
    """It gives up when so many attempts in a row have failed for callers; `None` is no limit."""
    most_seconds: float | None = None
    """It gives up after this time, even while an attempt is under way; `None` is no limit."""


PATIENT = Patience()
"""Waits as long as `connect_timeout` allows."""

HASTY = Patience(attempts=3)
"""For callers that have something better to do than to wait for a server that is down."""

BRIEF = Patience(attempts=1, most_seconds=2.0)
"""For callers that have what they ask for already, if perhaps an older version of it."""


class Deadline:
    """A time limit that progress may extend, up to a cap.

    Enter it with `async with`, once for each attempt; exceeding it raises `TimeoutError`.
    """

    def __init__(
        self,
        seconds: float,
        *,
        cap_seconds: float | None = None,
        setting: str = "timeout",
        patience: Patience | None = None,
        spent_seconds: float = 0.0,
    ) -> None:
        """Take the limit; `spent_seconds` of it are over when it is entered."""
        self.seconds = seconds
        self._spent_seconds = spent_seconds
        self.patience = patience
        """How long the request may wait for a session, before its time begins; `None` is not
        long for a server that was never there."""
        self.cap_seconds = max(seconds, cap_seconds if cap_seconds is not None else seconds)
        self._setting = setting
        self._scope: asyncio.Timeout | None = None
        self._cap = 0.0
        self._running = False
        self.extended = False
        """Whether the server has reported progress."""
        self._holds = 0
        """How many exchanges wait for the user."""
        self._left = 0.0
        """Seconds that were left when the first of them began to wait."""

    @property
    def expired(self) -> bool:
        """Whether the limit, and nothing else, ended the last run."""
        return self._scope is not None and self._scope.expired()

    async def __aenter__(self) -> None:
        now = asyncio.get_running_loop().time()
        self._cap = now + self.cap_seconds
        self._holds = 0
        self._scope = asyncio.timeout_at(now + self.seconds - self._spent_seconds)
        await self._scope.__aenter__()
        self._running = True

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self._running = False
        if self._scope is not None:
            await self._scope.__aexit__(exc_type, exc_val, exc_tb)

    def extend(self) -> None:
        """Restart the limit, because the server reported progress."""
        scope = self._scope
        if scope is not None and self._running and not scope.expired() and not self._holds:
            self.extended = True
            scope.reschedule(min(asyncio.get_running_loop().time() + self.seconds, self._cap))

    @contextmanager
    def held(self) -> Generator[None]:
        """Stop the clock while the user has to act."""
        scope = self._scope
        if scope is None or not self._running or scope.expired():
            yield
            return
        now = asyncio.get_running_loop().time
        if self._holds == 0:
            self._left = (scope.when() or now()) - now()
            self._cap -= now()
            scope.reschedule(None)
        self._holds += 1
        try:
            yield
        finally:
            # The request that waited may have ended meanwhile, or a new attempt begun.
            if scope is self._scope:
                self._holds -= 1
                if self._holds == 0 and self._running:
                    self._cap += now()
                    scope.reschedule(now() + self._left)

    def error(self, server: str, tool: str | None, *, sent: bool) -> PlaitError:
        """Build the error that names the limit that was reached."""
        where = server if tool is None else f"{server}/{tool}"
        text = f"{where}: no answer within {self.seconds:g} s ({self._setting})"
        if self.extended:
            text += f", nor within {self.cap_seconds:g} s while it showed progress"
        if tool is None:
            return ListTimeoutError(text, server=server)
        if not sent:
            text = f"{text}; it was not sent"
            return CallTimeoutError(text, server=server, tool=tool, retry="always")
        return CallTimeoutError(
            f"{text}; it may still take effect, so check before doing it again",
            server=server,
            tool=tool,
        )
