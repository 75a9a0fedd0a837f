"""The connections of a client: requests over sessions that are reopened when they end.

There is one connection per server and credentials, and one set of tasks for all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlsplit

import anyio

from plait._support.causes import without_secrets
from plait._support.clock import Clock, SystemClock
from plait._support.suggestions import suggest_names
from plait.client.config.secrets import secret_values
from plait.client.config.servers import (
    InProcessServer,
    RemoteServer,
    ServerConfig,
    StdioServer,
    connect_seconds_of,
)
from plait.client.connections.error_mapping import leaf_of, request_failure, with_cause
from plait.client.connections.operations import ping
from plait.client.connections.session_keeper import MAX_USER_SESSIONS, SessionKeeper, SessionTurns
from plait.client.connections.status import Event, Status, UserStatus, with_users
from plait.client.protocol.exchange import (
    Exchanges,
    PendingRequest,
    RequestExpiredError,
)
from plait.client.protocol.peer import error_of
from plait.errors import ClientClosedError, ConnectError, PlaitError, UnknownServerError
from plait.telemetry.observer import Observer, ReadRequest, observe
from plait.telemetry.spans import SPANS, add_event, describe_request, is_traced

if TYPE_CHECKING:
    from mcp_types import LoggingLevel

    from plait.client.connections.credentials import CallerCredentials
    from plait.client.connections.deadline import Deadline
    from plait.client.connections.session_keeper import Session, SessionOptions
    from plait.client.connections.status import ServerStatus
    from plait.client.protocol.session import McpSession

logger = logging.getLogger("plait.client.connections")

T = TypeVar("T")

_MAX_EVENTS = 500
"""How many events are remembered: some hours of an outage of a few servers."""
ATTEMPTS = 3
"""Attempts of one request, the first included."""
PAUSE_SECONDS = 0.2
"""Pause before a retry on a session that is still open."""
_BETWEEN_REQUESTS_SECONDS = 0.2
"""A call lists the tools first, if need be. If the session were closed in between to make room, the
call would wait for a second turn."""


def may_retry(error: PlaitError, *, idempotent: bool) -> bool:
    """Return whether a retry could help and is safe."""
    if isinstance(error, ConnectError | TimeoutError):
        return False  # the connection has already retried, or the time is used up
    return error.retry == "always" or (error.retry == "if_idempotent" and idempotent)


def pause_before_retry(error: PlaitError, seconds_left: float) -> float | None:
    """Return the pause before a retry, or `None` if the server asks for a longer wait."""
    if error.retry_after is not None:
        return error.retry_after if error.retry_after < seconds_left else None
    # After a lost session, opening the next one takes its own time; a request that was answered
    # must not be repeated at once.
    return 0.0 if error.status is None else PAUSE_SECONDS


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """The result of a request, and notes on what was repaired in it."""

    value: T
    notes: tuple[str, ...]


class ServerConnection:
    """Makes requests to one server; runs in the loop that owns the connections."""

    def __init__(
        self,
        keeper: SessionKeeper,
        tasks: TaskSet,
        clock: Clock,
        observers: Sequence[Observer] = (),
    ) -> None:
        """Make requests on the sessions of `keeper`; probes run in `tasks`.

        `observers` observe what `read` does; calls are observed by the executor.
        """
        self.name = keeper.name
        self.server = keeper.server
        self.keeper = keeper
        self.tool_count: int | None = None
        self.tools_outdated = False
        """Whether the tools on offer are those of an earlier list, as it cannot be listed now."""
        self.has_own_credentials = False
        """Whether a refusal of the credentials concerns only one user."""
        self.concurrency = ConcurrencyLimit(keeper.server.max_concurrency)
        self._tasks = tasks
        self._clock = clock
        self._observers = observers
        self._probed: set[Session] = set()
        self._users = 0
        self._last_used = float("-inf")

    @contextmanager
    def used(self) -> Generator[None]:
        """Keep the connection from being closed to make room for those of other users."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._last_used = self._clock.monotonic()

    @property
    def is_unused(self) -> bool:
        """Whether no caller uses the connection, waits for it, or has just listed its tools."""
        if self._users or self.keeper.is_needed:
            return False
        return self._clock.monotonic() - self._last_used >= _BETWEEN_REQUESTS_SECONDS

    async def request(
        self,
        operation: Callable[[McpSession], Awaitable[T]],
        deadline: Deadline,
        *,
        method: str,
        tool: str | None = None,
    ) -> Answer[T]:
        """Run one operation on a session, opening a session first if there is none."""
        # Outside the deadline: a call that was never sent must not look like one that may have run.
        keeper = self.keeper
        session = keeper.ready_session
        if session is None or (tool is not None and session.holders):
            session = await keeper.wait_for_session(deadline.patience, unreserved=tool is not None)
            add_event("plait.session.ready", {"plait.session.number": keeper.generation})
        wire = session.wire
        if is_traced():
            describe_request(_attributes_of(self.server, session))
        begun = False
        with session as client, Exchanges(held=deadline.held) as exchanges:
            try:
                async with deadline, self.concurrency.slot():
                    begun = True
                    value = await operation(client)
            except Exception as error:  # noqa: BLE001  # boundary: the SDK may raise anything
                if deadline.expired:
                    self._start_probe(session)
                    # Without a tapped wire, a request that was begun may have run.
                    sent = exchanges.may_have_run() if wire.tapped else begun
                    cause = error
                    failure = deadline.error(self.name, tool, sent=sent)
                else:
                    cause = leaf_of(error, exchanges)
                    failure = self._failure(error, session, exchanges, method, tool)
            else:
                keeper.mark_proven()
                keeper.answered_at = self._clock.monotonic()
                return Answer(value, exchanges.notes)
        raise with_cause(failure, cause, wire)

    def failure_of(
        self, session: Session, request: PendingRequest, deadline: Deadline, tool: str
    ) -> PlaitError:
        """Explain why a direct call has no result, and end a session that is lost."""
        cause = error_of(request) or AssertionError("it has a result")
        exchanges = Exchanges([request])
        if isinstance(cause, RequestExpiredError):
            self._start_probe(session)
            deadline.extended = request.extended
            failure = deadline.error(self.name, tool, sent=exchanges.may_have_run())
        else:
            failure = self._failure(cause, session, exchanges, "tools/call", tool)
            cause = leaf_of(cause, exchanges)
        return with_cause(failure, cause, session.wire)

    async def read(
        self, operation: Callable[[McpSession], Awaitable[T]], deadline: Deadline, *, method: str
    ) -> Answer[T]:
        """Run an operation that changes nothing, again if the session is lost under it."""
        observers = (*self._observers, SPANS) if is_traced() else self._observers
        for attempt in count(1):
            request = ReadRequest(server=self.name, method=method, attempt=attempt)
            with self.used():
                try:
                    with observe(observers, request):
                        return await self.request(operation, deadline, method=method)
                except PlaitError as error:
                    pause = pause_before_retry(error, deadline.seconds)
                    may_repeat = attempt < ATTEMPTS and may_retry(error, idempotent=True)
                    if pause is None or not may_repeat:
                        raise
                    await self._clock.sleep(pause)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def status(self) -> ServerStatus:
        """Describe the connection as it is now."""
        return replace(
            self.keeper.status(), tool_count=self.tool_count, tools_outdated=self.tools_outdated
        )

    @property
    def is_busy(self) -> bool:
        """Whether a caller uses the connection, or a request is under way."""
        return self._users > 0 or self.keeper.in_flight > 0

    def _failure(
        self,
        error: Exception,
        session: Session,
        exchanges: Exchanges,
        method: str,
        tool: str | None,
    ) -> PlaitError:
        if self.keeper.closed:
            return ClientClosedError(f"{self.name}: the client was closed during the call")
        if exchanges.last is not None and exchanges.last.answered:
            self.keeper.mark_proven()
        failure = request_failure(error, exchanges, session.wire, method=method, tool=tool)
        if failure.cannot_ask:
            self.keeper.change_era(session)
        if failure.session_lost is not None and not session.ended.is_set():
            if failure.error.kind == "auth":
                self.keeper.note_lost_login(session, failure.error)
            session.wire.end(failure.session_lost)
        return failure.error

    def _start_probe(self, session: Session) -> None:
        """Find out whether a server that did not answer a call answers anything at all."""
        if session not in self._probed:
            self._probed.add(session)
            self._tasks.start(partial(self._probe, session), name=f"plait probe {self.name}")

    async def _probe(self, session: Session) -> None:
        """End a session on which nothing arrives: a stopped server would hold it for ever."""
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(connect_seconds_of(self.server)):
                with session:
                    await ping(session.client)
        except Exception as error:  # boundary: only whether anything arrived counts
            safe = without_secrets(error, session.wire.redact)
            logger.debug("%s: the probe failed", self.name, exc_info=safe)
        finally:
            self._probed.discard(session)
        if session.wire.tapped and session.wire.last_received < began:
            session.wire.end("the server does not answer any more")


class ConcurrencyLimit:
    """Lets a limited number of tasks in at a time; `None` means no limit."""

    def __init__(self, limit: int | None) -> None:
        self._free = asyncio.Semaphore(limit) if limit else None
        self._holders: set[asyncio.Task[object] | None] = set()
        """The tasks that are in."""

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self._free is not None

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None]:
        """Hold a slot for the current task."""
        if self._free is None:
            yield
            return
        await self._free.acquire()
        task = asyncio.current_task()
        self._holders.add(task)
        try:
            yield
        finally:
            if task in self._holders:
                self._holders.remove(task)
                self._free.release()

    @asynccontextmanager
    async def released(self, task: asyncio.Task[object] | None) -> AsyncGenerator[None]:
        """Give up a task's slot while it waits for something other than the server."""
        if self._free is None or task not in self._holders:
            yield
            return
        self._holders.remove(task)
        self._free.release()
        yield
        await self._free.acquire()
        self._holders.add(task)


def _attributes_of(server: ServerConfig, session: Session) -> dict[str, str | int]:
    """Describe a server and its session, by the conventions of OpenTelemetry."""
    local = isinstance(server, StdioServer | InProcessServer)
    attributes: dict[str, str | int] = {
        "mcp.protocol.version": str(session.client.protocol_version),
        "network.transport": "pipe" if local else "tcp",
    }
    if (session_id := session.wire.read_session_id()) is not None:
        attributes["mcp.session.id"] = session_id
    if isinstance(server, RemoteServer):
        address = urlsplit(server.url)
        attributes["network.protocol.name"] = "http"
        attributes["server.address"] = address.hostname or ""
        secure = address.scheme in {"https", "wss"}
        attributes["server.port"] = address.port or (443 if secure else 80)
    return attributes


_RETIRED_SECONDS = 0.05
"""How often it is seen whether the last call on a replaced connection has ended."""


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
        self.tasks = TaskSet()
        self._options_for = options_for
        self._on_opened = on_opened
        self._observers = observers
        self._clock = clock or SystemClock()
        self._events: deque[Event] = deque(maxlen=_MAX_EVENTS)
        self._private: OrderedDict[tuple[str, str, str | None], ServerConnection] = OrderedDict()
        """By server, credentials and thread; the least recently used first."""
        self._retired: set[ServerConnection] = set()
        """Connections that were replaced, while calls on them are under way."""
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
        await asyncio.gather(*(connection.keeper.close() for connection in leaving))

    def add(self, name: str, server: ServerConfig) -> None:
        """Add a server."""
        self.connections[name] = self._connection(name, server)

    async def remove(self, name: str) -> None:
        """Close the connections of a server, and remove it."""
        await asyncio.gather(*(connection.keeper.close() for connection in self._taken_out(name)))

    def retire(self, name: str) -> None:
        """Remove a server; its connections are closed when the calls on them have ended."""
        for connection in self._taken_out(name):
            self._retired.add(connection)
            self.tasks.start(
                partial(self._close_when_idle, connection), name=f"plait retire {name}"
            )

    def _taken_out(self, name: str) -> list[ServerConnection]:
        """Remove the connections of a server, and return them."""
        self._opened.pop(name, None)
        private = [self._private.pop(key) for key in list(self._private) if key[0] == name]
        return [self.connections.pop(name), *private]

    async def _close_when_idle(self, connection: ServerConnection) -> None:
        while connection.is_busy:
            await self._clock.sleep(_RETIRED_SECONDS)
        await connection.keeper.close()
        self._retired.discard(connection)

    async def close(self) -> None:
        """Close every connection at the same time, and wait for all of them."""
        everything = [*self.connections.values(), *self._private.values(), *self._retired]
        await asyncio.gather(*(connection.keeper.close() for connection in everything))
        await self.tasks.close()

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
            tasks=self.tasks,
            options=options,
            on_event=self._events.append,
            on_opened=opened,
            clock=self._clock,
            turns=turns,
        )
        return ServerConnection(keeper, self.tasks, self._clock, self._observers)

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
            self.tasks.start(self._private.pop(key).keeper.close, name=f"plait close {name}")


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
