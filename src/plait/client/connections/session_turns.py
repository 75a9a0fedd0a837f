"""Bounds the open sessions of a server's users: callers beyond the bound wait for their turn."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plait.client.connections.session import Session

MAX_USER_SESSIONS = 128
"""Sessions of users that are open with one server: each holds sockets, or a process."""
MAX_TURN_SECONDS = 100.0
"""How long a caller waits for a turn, where `connect_timeout` is not set. The sessions of a
thousand users are opened and closed in less."""
_LOOK_AGAIN_SECONDS = 0.05
"""How often the first in the queue looks for sessions that nobody uses any more."""


class SessionTurns:
    """Gives turns to open a session, first come first served, while not too many are open.

    Whoever has a turn adds the session before anything else, and removes it once it is closed.
    """

    def __init__(self, most: int, make_room: Callable[[int], None]) -> None:
        """Take the bound; `make_room` begins to close up to so many unused sessions."""
        self.most = most
        self._make_room = make_room
        self._open: set[Session] = set()
        self._queue: list[Callable[[], bool]] = []
        self._first_in_queue = asyncio.Lock()
        self._closed = asyncio.Event()

    async def wait(self, is_wanted: Callable[[], bool]) -> bool:
        """Wait for a turn; return false if there is none, and nobody wants the session any more."""
        self._queue.append(is_wanted)
        try:
            async with self._first_in_queue:
                while len(self._open) >= self.most:
                    if not is_wanted():
                        return False
                    self._make_room_for_queue()
                    self._closed.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_AGAIN_SECONDS):
                            await self._closed.wait()
                return True
        finally:
            self._queue.remove(is_wanted)

    def add(self, session: Session) -> None:
        """Count a session as open."""
        self._open.add(session)

    def remove(self, session: Session) -> None:
        """Give the place of a closed session to the next in the queue."""
        self._open.discard(session)
        self._closed.set()

    def _make_room_for_queue(self) -> None:
        # For all at once: closing takes a round trip to the server, or as long as a program needs.
        staying = sum(not session.ended.is_set() for session in self._open)
        wanted = sum(is_wanted() for is_wanted in self._queue)
        if (excess := staying + wanted - self.most) > 0:
            self._make_room(excess)
