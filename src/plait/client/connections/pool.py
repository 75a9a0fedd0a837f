"""All connections of one client, and their background tasks."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import anyio

from plait._support.clock import Clock, SystemClock
from plait._support.gather import gather_all
from plait._support.suggestions import suggest_names
from plait.client.config.secrets import secret_values
from plait.client.connections.connection import ServerConnection
from plait.client.connections.session_keeper import MAX_USER_SESSIONS, SessionKeeper, SessionTurns
from plait.client.connections.status import Event, Status, UserStatus, with_users
from plait.errors import ClientClosedError, UnknownServerError

if TYPE_CHECKING:
    from mcp_types import LoggingLevel

    from plait.client.config.servers import ServerConfig
    from plait.client.connections.credentials import CallerCredentials
    from plait.client.connections.session import Session, SessionOptions
    from plait.client.protocol.session import McpSession
    from plait.telemetry.observer import Observer

logger = logging.getLogger("plait.client.connections")

_MAX_EVENTS = 500
"""How many events are remembered: some hours of an outage of a few servers."""


class ConnectionPool:
    """Holds one connection per server and credentials, each opened on first use."""

    def __init__(
        self,
        servers: Mapping[str, ServerConfig],
        options_for: Callable[[str], SessionOptions],
        *,
        on_opened: Callable[[Session], None] | None = None,
        observers: Sequence[Observer] = (),
        clock: Clock | None = None,
        most_user_sessions: int = MAX_USER_SESSIONS,
    ) -> None:
        """Take servers and the session options of each; `on_opened` gets each new session.

        At most `most_user_sessions` with credentials of their own are open with each server.
        """
        self._tasks = TaskSet()
        self._options_for = options_for
        self._on_opened = on_opened
        self._observers = observers
        self._clock = clock or SystemClock()
        self._events: deque[Event] = deque(maxlen=_MAX_EVENTS)
        self._private: OrderedDict[tuple[str, str, str | None], ServerConnection] = OrderedDict()
        """By server, credentials and thread; the least recently used first."""
        self._most_user_sessions = most_user_sessions
        self._turns: dict[str, SessionTurns] = {}
        self._opened: Counter[str] = Counter()
        """How many sessions were opened with each server, also for users who left."""
        self._warned: set[str] = set()
        self._log_levels: dict[str, LoggingLevel] = {}
        self.connections = {name: self._connection(name, one) for name, one in servers.items()}

    def __getitem__(self, name: str) -> ServerConnection:
        try:
            return self.connections[name]
        except KeyError:
            raise unknown_server(name, self.connections) from None

    def connection(
        self, name: str, credentials: CallerCredentials | None = None
    ) -> ServerConnection:
        """Return the connection of a server for these credentials."""
        shared = self[name]
        if credentials is None:
            return shared
        key = (name, credentials.key, credentials.thread)
        if (private := self._private.get(key)) is None:
            server = credentials.applied_to(shared.server)
            if server is None:
                if name not in self._warned:
                    self._warned.add(name)
                    logger.warning("%s takes no headers: it is not reached over HTTP", name)
                return shared
            # A server may repeat the secrets of its own configuration to any user.
            server = replace(server, secrets=server.secrets | secret_values(shared.server))
            of_server = sum(server_name == name for server_name, _, _ in self._private)
            self._close_unused(name, of_server + 1 - self._most_user_sessions)
            if name not in self._turns:
                make_room = partial(self._close_unused, name, with_session=True)
                self._turns[name] = SessionTurns(self._most_user_sessions, make_room)
            private = self._private[key] = self._connection(name, server, self._turns[name])
            private.has_own_credentials = bool(credentials.headers) or credentials.auth is not None
        self._private.move_to_end(key)
        return private

    def sessions_of(self, client: McpSession) -> list[Session]:
        """Return the sessions that the SDK's session belongs to: one, or none."""
        everything = (*self.connections.values(), *self._private.values())
        return [
            session
            for connection in everything
            for session in connection.keeper.sessions
            if session.is_of(client)
        ]

    def set_log_level(self, name: str, level: LoggingLevel) -> None:
        """Open the next sessions with a server, of every caller, with this log level."""
        self._log_levels[name] = level
        private = (one for key, one in self._private.items() if key[0] == name)
        for connection in (self[name], *private):
            connection.keeper.options = replace(connection.keeper.options, log_level=level)

    async def forget_thread(self, thread: str) -> None:
        """Close the sessions of a conversation."""
        leaving = [self._private.pop(key) for key in list(self._private) if key[2] == thread]
        await gather_all(connection.close() for connection in leaving)

    def add(self, name: str, server: ServerConfig) -> None:
        """Add a server."""
        self.connections[name] = self._connection(name, server)

    async def remove(self, name: str) -> None:
        """Close the connections of a server, and remove it."""
        leaving = [self.connections.pop(name)]
        self._opened.pop(name, None)
        leaving += [self._private.pop(key) for key in list(self._private) if key[0] == name]
        await gather_all(connection.close() for connection in leaving)

    @property
    def opened(self) -> bool:
        """Whether the pool is usable."""
        return self._tasks.opened

    def open(self) -> None:
        """Make the pool usable; no server is contacted."""
        self._tasks.open()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> None:
        """Run a background task until it ends or the connections are closed."""
        self._tasks.start(work, name=name)

    async def close(self) -> None:
        """Close every connection at the same time, and wait for all of them."""
        everything = [*self.connections.values(), *self._private.values()]
        await gather_all(connection.close() for connection in everything)
        await self._tasks.close()

    def status(self) -> Status:
        """Describe every server as it is now, with the connections of its users."""
        users: defaultdict[str, list[UserStatus]] = defaultdict(list)
        for (name, _, _), one in list(self._private.items()):
            at = one.keeper.answered_at, one.keeper.refused_at
            users[name].append(UserStatus(one.status(), one.has_own_credentials, *at))
        servers = {
            name: replace(with_users(one.status(), users[name]), sessions=self._opened[name])
            for name, one in list(self.connections.items())
        }
        return Status(servers, self.events)

    @property
    def events(self) -> tuple[Event, ...]:
        """Recent events of the connections, the newest last."""
        return tuple(self._events)

    def _connection(
        self, name: str, server: ServerConfig, turns: SessionTurns | None = None
    ) -> ServerConnection:
        def opened(session: Session) -> None:
            self._opened[name] += 1
            if self._on_opened is not None:
                self._on_opened(session)

        options = self._options_for(name)
        if name in self._log_levels:
            options = replace(options, log_level=self._log_levels[name])
        keeper = SessionKeeper(
            name,
            server,
            tasks=self._tasks,
            options=options,
            on_event=self._events.append,
            on_opened=opened,
            clock=self._clock,
            turns=turns,
        )
        return ServerConnection(keeper, self._tasks, self._clock, self._observers)

    def _close_unused(self, name: str, most: int, *, with_session: bool = False) -> None:
        """Begin to close connections of users that nobody uses, least recently used first.

        Those without a session come first, or with `with_session` not at all.
        """
        if most <= 0:
            return
        unused = [
            (bool(one.keeper.sessions), key)
            for key, one in self._private.items()
            if key[0] == name and one.is_unused and (one.keeper.sessions or not with_session)
        ]
        for _, key in sorted(unused, key=itemgetter(0))[:most]:
            self._tasks.start(self._private.pop(key).close, name=f"plait close {name}")


def unknown_server(name: str, known: Iterable[str]) -> UnknownServerError:
    """Build the error for a server that is not configured, with the nearest names."""
    hint = suggest_names(name, known)
    return UnknownServerError(f"no server is called {name!r} ({hint})", server=name)


class TaskSet:
    """Tasks of one loop that end together.

    Not an anyio task group, which must be left by the task that entered it: a client may be opened
    and closed by different tasks.
    """

    def __init__(self) -> None:
        self._scopes: dict[asyncio.Task[None], anyio.CancelScope] = {}
        self.opened = False
        """Whether tasks can be started."""

    def open(self) -> None:
        """Allow tasks to be started."""
        self.opened = True

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> None:
        """Run a task until it ends or the set is closed; an exception in it is only logged."""
        if not self.opened:
            raise ClientClosedError("the client is closed")
        scope = anyio.CancelScope()

        async def run() -> None:
            try:
                with scope:
                    await work()
            except Exception:  # boundary: one connection must not end the others
                logger.exception("a task of a connection failed")

        # A fresh context: a connection outlives the call that happened to open it.
        task = asyncio.create_task(run(), name=name, context=Context())
        self._scopes[task] = scope
        task.add_done_callback(self._scopes.pop)

    async def close(self) -> None:
        """Cancel the remaining tasks, and wait for them even if the caller is cancelled."""
        self.opened = False
        cancelled: asyncio.CancelledError | None = None
        for scope in self._scopes.values():
            scope.cancel()
        while left := [task for task in self._scopes if not task.done()]:
            try:
                await asyncio.wait(left)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
