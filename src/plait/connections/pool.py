"""All connections of one client."""

from __future__ import annotations

import asyncio
import difflib
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from plait._support.redact import Redactor
from plait.config.secrets import secret_values
from plait.config.servers import ServerConfig
from plait.connections.connection import ServerConnection
from plait.connections.home import Home
from plait.connections.opening import Voice
from plait.connections.status import Event, Status
from plait.errors import UnknownServerError

_EVENTS = 500
"""How many events are remembered."""


class ConnectionPool:
    """Holds one connection per server; they open when they are first used."""

    def __init__(
        self, servers: Mapping[str, ServerConfig], voice_for: Callable[[str], Voice]
    ) -> None:
        self._home = Home()
        self._events: deque[Event] = deque(maxlen=_EVENTS)
        self.connections = {
            name: ServerConnection(
                name,
                server,
                home=self._home,
                voice=voice_for(name),
                redact=Redactor(secret_values(server)),
                on_event=self._events.append,
            )
            for name, server in servers.items()
        }

    def __getitem__(self, name: str) -> ServerConnection:
        try:
            return self.connections[name]
        except KeyError:
            raise unknown_server(name, self.connections) from None

    async def open(self) -> None:
        """Make the pool usable; no server is contacted."""
        await self._home.open()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> None:
        """Run something beside the connections until it ends or they are closed."""
        self._home.start(work, name=name)

    async def close(self) -> None:
        """Close every connection at the same time, and wait for all of them."""
        await asyncio.gather(*(connection.close() for connection in self.connections.values()))
        await self._home.close()

    def status(self) -> Status:
        """Describe every connection as it stands."""
        servers = {name: one.status() for name, one in self.connections.items()}
        return Status(servers, tuple(self._events))


def unknown_server(name: str, known: Iterable[str]) -> UnknownServerError:
    """Make the error for a server that is not configured, with the nearest names."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names) or 'none'}"
    return UnknownServerError(f"no server is called {name!r} ({hint})", server=name)
