"""Sessions with one server: what one is opened with, how it lives, and what keeps one open.

Users with credentials of their own have sessions of their own; callers beyond a bound on these
wait for their turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from plait._support import mcp_types as types
from plait._support.causes import without_secrets
from plait._support.redact import Redactor
from plait._support.threads import import_in_thread, is_imported
from plait._version import __version__
from plait.client.config.oauth_settings import may_ask_person, sign_in_listeners
from plait.client.config.secrets import secret_values
from plait.client.config.servers import RemoteOptions, ServerConfig, StdioServer, connect_seconds_of
from plait.client.connections.deadline import HASTY, PATIENT, Patience
from plait.client.connections.error_mapping import connect_timeout
from plait.client.connections.states import (
    Condition,
    Signal,
    breaker_of,
    doublings_of,
    may_hurry,
    may_wait,
    step,
)
from plait.client.connections.status import Event, ServerInfo, ServerStatus
from plait.client.protocol.session import Callbacks
from plait.client.transports.process import end_unused_process, start_process
from plait.client.transports.wire_log import make_wire
from plait.errors import (
    CircuitOpenError,
    ClientClosedError,
    ConnectError,
    ConnectTimeoutError,
    PlaitError,
)
from plait.telemetry.spans import is_traced, record_session

if TYPE_CHECKING:
    from plait._support.clock import Clock
    from plait.client.connections.connection import TaskSet
    from plait.client.protocol.session import (
        IncomingMessage,
        McpSession,
        OnElicitation,
        OnLog,
        OnMessage,
        OnRoots,
        OnSampling,
    )
    from plait.client.transports.tape import Tape

logger = logging.getLogger("plait.client.connections")

OPENING = "plait.client.connections.opening"
"""The module that opens sessions, with all that it imports."""


PLAIT: dict[str, Any] = {"name": "plait", "version": __version__}
"""What a session declares itself to be, unless the program says something else."""


@dataclass(slots=True)
class ServerMemory:
    """What earlier sessions learned about a server."""

    era: Literal["legacy", "modern"] | None = None
    changed_era: bool = False
    """Whether the other era was tried, because servers could not send requests in the first."""
    over_sse: bool = False
    ignored_probe: bool = False
    """Whether the last era probe got no answer."""


@dataclass(slots=True)
class SessionOptions:
    """Client info, log level and callbacks of a session."""

    client_info: types.Implementation | None = None
    """What the client declares itself to be; by default plait."""
    log_level: types.LoggingLevel | None = None
    on_message: OnMessage | None = None
    on_notification: Callable[[str, object], None] | None = None
    """Gets method and params of notifications that the SDK does not dispatch."""
    on_log: OnLog | None = None
    on_elicitation: OnElicitation | None = None
    on_sampling: OnSampling | None = None
    sampling_tools: bool = False
    """Whether servers may pass tools in sampling requests."""
    on_roots: OnRoots | None = None
    answers: bool = False
    """Whether the program answers elicitation or sampling requests itself."""
    prefers_modern: bool = False
    """Whether servers are modern where they can be, also if they may ask something."""
    elicitation_modes: frozenset[str] = frozenset({"form", "url"})
    tape: Tape | None = None
    """Where the traffic of all sessions is recorded, or played."""

    def prefers_handshake(self, own: Mapping[str, Any]) -> bool:
        """Return whether servers should be able to send requests during a call.

        That takes a back channel, which the modern era does not have.
        """
        if self.prefers_modern:
            return False
        return self.answers or bool(own.keys() & {"elicitation_callback", "sampling_callback"})

    def callbacks(self, own: Mapping[str, Any]) -> Callbacks:
        """Return what a session declares, and who answers it; the server's `own` options win."""
        options = self.client_arguments(own)
        info: types.Implementation | None = options["client_info"]
        sampling: types.SamplingCapability | None = options["sampling_capabilities"]
        dumped = {} if sampling is None else sampling.model_dump(by_alias=True, exclude_none=True)
        return Callbacks(
            client_info=PLAIT
            if info is None
            else info.model_dump(by_alias=True, mode="json", exclude_none=True),
            on_elicitation=options["elicitation_callback"],
            elicitation_modes=self.elicitation_modes,
            on_sampling=options["sampling_callback"],
            sampling=dumped,
            on_roots=options["list_roots_callback"],
            on_log=options["logging_callback"],
            on_message=options["message_handler"],
            on_raw=self.on_notification,
            log_level=options["log_level"],
            timeout_seconds=options.get("read_timeout_seconds"),
        )

    def client_arguments(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of the SDK's client; the server's `own` options win."""
        with_tools = None
        if self.sampling_tools:
            with_tools = types.SamplingCapability(tools=types.SamplingToolsCapability())
        options = {
            "client_info": self.client_info,
            "log_level": self.log_level,
            "message_handler": self.on_message,
            "logging_callback": self.on_log,
            "elicitation_callback": self.on_elicitation,
            "sampling_callback": self.on_sampling,
            "sampling_capabilities": with_tools,
            "list_roots_callback": self.on_roots,
            # The catalog caches for all sessions; a second cache below it could only be stale.
            "cache": None,
            **own,
        }
        ours, theirs = self.on_message, own.get("message_handler")
        if ours is not None and theirs is not None:

            async def handle(message: IncomingMessage) -> None:
                await ours(message)
                await theirs(message)

            options["message_handler"] = handle
        return options


class Session:
    """Holds one client open; only the task that runs `live` enters and leaves its contexts.

    `with session as client` borrows the client: the session is not closed meanwhile.
    """

    def __init__(
        self,
        name: str,
        server: ServerConfig,
        memory: ServerMemory,
        options: SessionOptions,
        redact: Redactor,
    ) -> None:
        self._server = server
        self._memory = memory
        self._options = options
        self._client: McpSession | None = None
        self._failure: PlaitError | None = None
        self._opening: asyncio.Timeout | None = None
        self._settled = asyncio.Event()
        self._leave = asyncio.Event()
        self._free = asyncio.Event()
        self._free.set()
        self._aborted = False
        self.loop = asyncio.get_running_loop()
        self.wire = make_wire(name, redact, self.end)
        self.wire.on_notification = options.on_notification
        self.wire.on_notifications_lost = self._notifications_lost
        self.wire.tape = options.tape
        self._needs_server = options.tape is None or options.tape.records
        self.ended = asyncio.Event()
        """Set when either side has ended the session."""
        self._borrowed = 0
        self.holders: set[object] = set()
        """Calls that wait for the user; no other call may use the session meanwhile."""
        self._listeners = 0
        self._no_notifications = False
        self.opened_at = self.last_used = time.monotonic()
        self.connect_seconds: float | None = None

    @property
    def client(self) -> McpSession:
        """The open client."""
        if self._client is None:
            raise ClientClosedError(f"{self.wire.server}: the session is closed")
        return self._client

    def is_of(self, session: McpSession) -> bool:
        """Return whether the SDK's session belongs to this one."""
        return self._client is not None and self._client.session is session

    async def opened(self) -> None:
        """Wait until the session is open, or raise why it could not be opened."""
        await self._settled.wait()
        if self._failure is not None:
            raise self._failure
        if self._client is None:
            raise ConnectError(
                f"{self.wire.server}: {self.wire.ending()} right after the handshake",
                server=self.wire.server,
            )

    def __enter__(self) -> McpSession:
        client = self.client
        self._borrowed += 1
        self._free.clear()
        return client

    def __exit__(self, *_error: object) -> None:
        self._borrowed -= 1
        self.last_used = time.monotonic()
        if self._borrowed == 0:
            self._free.set()

    @property
    def in_flight(self) -> int:
        """How many requests are under way."""
        return self._borrowed + self.wire.direct_calls

    @property
    def in_use(self) -> bool:
        """Whether a request is under way, or a listener is attached."""
        return self.in_flight > 0 or self._listeners > 0

    @contextmanager
    def listened_to(self) -> Generator[None]:
        """Keep the session from idling; end it if notifications can no longer arrive.

        Unlike a request that is under way, a listener does not delay closing.
        """
        self._listeners += 1
        if self._no_notifications:
            self._notifications_lost()
        try:
            yield
        finally:
            self._listeners -= 1
            self.last_used = time.monotonic()

    def _notifications_lost(self) -> None:
        self._no_notifications = True
        if self._listeners:
            self.wire.end("notifications can no longer arrive")

    def end(self) -> None:
        """Mark the session as ended; calls under way may still finish."""
        self.ended.set()
        self._leave.set()

    def abort(self) -> None:
        """End the session with its requests, or the attempt to open it."""
        self._aborted = True
        self._free.set()
        if self.wire.drained is not None:
            self.wire.drained.set()
        self.end()
        if self._opening is not None and not self._opening.expired():
            self._opening.reschedule(asyncio.get_running_loop().time())

    async def live(self) -> None:
        """Open the session, hold it until it ends, and close it; failures are kept, not raised."""
        try:
            async with AsyncExitStack() as stack:
                await self._open(stack)
                if self._failure is None:
                    await self._leave.wait()
                    await self._free.wait()
                    self.wire.drained = asyncio.Event()
                    self.wire.check_drained()
                    if not self._aborted:
                        await self.wire.drained.wait()
                async with asyncio.timeout(self._server.timeouts.close_seconds):
                    await stack.aclose()
        except Exception as error:  # boundary: the SDK's own tasks may fail in any way
            safe = without_secrets(error, self.wire.redact)
            logger.debug("%s: the session broke", self.wire.server, exc_info=safe)
        finally:
            if self._client is not None and is_traced():
                kind = "pipe" if self._server.transport == "stdio" else "tcp"
                record_session(time.monotonic() - self.opened_at, {"network.transport": kind})
            self._client = None
            self.wire.end("the session was closed")
            self.ended.set()
            self._settled.set()

    async def _open(self, stack: AsyncExitStack) -> None:
        began = time.monotonic()
        limit = connect_seconds_of(self._server)
        try:
            async with asyncio.timeout(limit) as self._opening:
                if self._server.problem is not None:
                    raise self._server.problem
                if isinstance(self._server, StdioServer) and self._needs_server:
                    # Before anything else, so that it can start up meanwhile. A failure is raised
                    # when the transport is opened, which tries again.
                    with suppress(PlaitError):
                        self.wire.started_process = await start_process(self._server, self.wire)
                        stack.push_async_callback(end_unused_process, self.wire)
                self._limit_opening(None)
                await import_in_thread(OPENING)
                # Each transport has a module, which imports the libraries that it needs.
                module = self._server.transport.replace("-", "_")
                module = module if self._needs_server else "replay"
                await import_in_thread(f"plait.client.transports.{module}")
                from plait.client.connections.opening import enter_session  # noqa: PLC0415

                self._limit_opening(limit)

                self._client = await enter_session(
                    stack, self._server, self.wire, self._memory, self._options
                )
        except TimeoutError:
            self._failure = connect_timeout(limit, self.wire, self.wire.server)
        except PlaitError as error:
            self._memory.ignored_probe = False  # it answered, or cannot be reached at all
            self._failure = error
        finally:
            self._opening = None
        self.opened_at = self.last_used = time.monotonic()
        self.connect_seconds = self.opened_at - began
        self._settled.set()

    def _limit_opening(self, seconds: float | None) -> None:
        """Allow this much time from now on; imports do not count."""
        if self._opening is not None and not self._aborted:
            now = asyncio.get_running_loop().time()
            self._opening.reschedule(None if seconds is None else now + seconds)


_GRACE_SECONDS = 0.5
"""How much longer than an attempt its caller waits, so that it gets the real reason."""
_IMPORT_SECONDS = 60.0
"""How much longer a caller waits for the first session, which imports the MCP SDK."""
_MAX_RETRY_AFTER_SECONDS = 600.0
"""The longest `Retry-After` that is respected."""
_MAX_PAUSE_SHARE = 0.5
"""How much of a pause an attempt may use up."""
_PROOF_SECONDS = 5.0
"""A session that was in use for this long counts as proven."""
_MAX_EARLY_EXITS = 3
"""Exits of a program that was never ready, with the same code, after which callers stop waiting.
One or two may be a dependency that starts at the same time."""
MAX_USER_SESSIONS = 128
"""Sessions of users that are open with one server: each holds sockets, or a process."""
MAX_TURN_SECONDS = 100.0
"""How long a caller waits for a turn, where `connect_timeout` is not set. The sessions of a
thousand users are opened and closed in less."""
_LOOK_AGAIN_SECONDS = 0.05
"""How often the first in the queue looks for sessions that nobody uses any more."""


class SessionKeeper:
    """Holds one server's session open, and opens another when it ends.

    Runs in the loop that owns the connections. Only the `keep` task opens sessions; callers wait
    for it, so there is never more than one attempt under way.
    """

    def __init__(
        self,
        name: str,
        server: ServerConfig,
        *,
        tasks: TaskSet,
        options: SessionOptions,
        on_event: Callable[[Event], None],
        on_opened: Callable[[Session], None],
        clock: Clock,
        turns: SessionTurns | None = None,
    ) -> None:
        """Take the parts; with `turns`, an attempt waits for its turn."""
        self.name = name
        self.server = server
        self._tasks = tasks
        self.options = options
        self._redact = Redactor(secret_values(server))
        self._on_event = on_event
        self._on_opened = on_opened
        self._clock = clock
        self._turns = turns
        self._queued_at: float | None = None
        """When the attempt began to wait for its turn; `None` if it does not."""
        self._past_queued_seconds = 0.0
        self._memory = ServerMemory()
        self._condition = Condition("failed", final=True) if server.problem else Condition()
        self._since = self._clock.now()
        self._changed = asyncio.Event()
        self._keeping = False
        self._waiting = 0
        self.session: Session | None = None
        """The last session, open or not."""
        self._dropped: Session | None = None
        self.sessions: set[Session] = set()
        """The sessions that are open or being opened or closed."""
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.info = ServerInfo()
        """How the server described itself when the last session was opened."""
        self._safe_identity: tuple[ServerInfo, Mapping[str, str] | None] = (self.info, None)
        """The last `info` that a status was made of, and its name and version without secrets."""
        self.generation = 0
        """How many sessions were opened so far."""
        self._early_exits: list[int] = []
        """The last exit codes of a program that was never ready."""
        self._error: PlaitError | None = server.problem
        self._next_try: float | None = None
        self._tried_at = 0.0
        """When the last attempt began, on the monotonic clock."""
        self.refused_at = self.answered_at = float("-inf")
        """When an attempt last failed, and when the server last answered something."""
        if self._prompts_user:
            sign_in_listeners.add(self)

    def signed_in(self, provider: object) -> None:
        """Try again, from any thread, if it was the login with this provider that was missing."""
        auth = self.server.auth if isinstance(self.server, RemoteOptions) else None
        if auth is provider and self.session is not None and self._lacks_login():
            self.session.loop.call_soon_threadsafe(self._signal, "cured")
            self.session.loop.call_soon_threadsafe(self.request_session)

    @property
    def closed(self) -> bool:
        """Whether the connection was closed for good."""
        return self._condition.state == "closed"

    @property
    def in_flight(self) -> int:
        """How many requests are under way."""
        return sum(session.in_flight for session in self.sessions)

    @property
    def is_needed(self) -> bool:
        """Whether a caller uses a session or waits for one, or one is being opened."""
        if self._waiting or self._condition.state in {"connecting", "lost"}:
            return True
        return any(session.in_use or session.holders for session in self.sessions)

    @property
    def _queued_seconds(self) -> float:
        """How long attempts have waited for their turns, so far."""
        now = self._clock.monotonic()
        return self._past_queued_seconds + (now - self._queued_at if self._queued_at else 0.0)

    @property
    def ready_session(self) -> Session | None:
        """The open session, or `None` if a caller has to wait for one."""
        session = self.session
        if session is None or self._condition.state != "ready" or session.ended.is_set():
            return None
        return session

    async def wait_for_session(
        self, patience: Patience | None = None, *, unreserved: bool = False
    ) -> Session:
        """Return the open session, waiting while one may be opened, or raise why there is none.

        Without `patience`, a server that was never there is not waited for long: a program must
        start without it. An `unreserved` session is one that no paused call has to itself.
        """
        patience = patience or (PATIENT if self.generation else HASTY)
        session = await self._wait_for_session(patience)
        while unreserved and session.holders:
            self._dropped = session
            session.end()
            session = await self._wait_for_session(patience)
        return session

    async def _wait_for_session(self, patience: Patience) -> Session:
        limit = max(connect_seconds_of(self.server), patience.seconds)
        imports = 0.0 if is_imported(OPENING) else _IMPORT_SECONDS
        may_queue = self._turns is not None and self.server.timeouts.connect_seconds is None
        turn_seconds = MAX_TURN_SECONDS if may_queue else 0.0
        if patience.most_seconds is not None:
            limit, imports, turn_seconds = min(limit, patience.most_seconds), 0.0, 0.0
        began, queued_before = self._clock.monotonic(), self._queued_seconds
        waited = 0.0
        fresh = True
        while True:
            if (session := self.ready_session) is not None:
                return session
            if self._condition.state == "ready":
                pass  # it has just ended, and another one is being opened
            elif fresh and self._lacks_login() and not self._prompts_user:
                # The user may have signed in elsewhere; finding out costs one request.
                self._signal("cured")
            elif fresh and self._may_be_cured():
                self._signal("rested")
            elif self._is_hopeless(patience, limit - waited):
                raise self._no_session_error(limit, fresh=fresh)
            self.request_session()
            fresh = False
            changed = self._changed
            self._waiting += 1
            is_late = False
            try:
                async with asyncio.timeout(limit + imports + _GRACE_SECONDS - waited):
                    await changed.wait()
            except TimeoutError:
                is_late = True
            finally:
                self._waiting -= 1
            queued = min(self._queued_seconds - queued_before, turn_seconds)
            waited = self._clock.monotonic() - began - queued
            if is_late and waited >= limit + imports:
                if patience.most_seconds is not None and self._error is None:
                    raise self.not_ready_error(limit)
                raise self._no_session_error(limit + queued)

    def _may_be_cured(self) -> bool:
        """Return whether to try at once what waiting does not cure, but somebody else may have."""
        condition, rested = self._condition, self._clock.monotonic() - self._tried_at
        if condition.exhausted or self._prompts_user or condition.state != "waiting":
            return False
        return condition.final and rested >= self.server.reconnect.first_delay_seconds

    def _is_hopeless(self, patience: Patience, seconds_left: float) -> bool:
        """Return whether a caller without a session need not wait for the next attempt."""
        condition, most = self._condition, patience.attempts
        if not may_wait(condition):
            return True
        # A pause that grew while no caller waited is cut short, unless the server asked for it.
        may_try_now = may_hurry(condition) and not (self._error and self._error.retry_after)
        if not may_try_now and (self.next_try_seconds or 0.0) >= seconds_left:
            return True
        return most is not None and condition.attended >= most

    def _lacks_login(self) -> bool:
        return self._error is not None and self._error.kind == "auth"

    @property
    def _prompts_user(self) -> bool:
        """Whether an attempt may open a browser, which only happens when a caller waits."""
        return isinstance(self.server, RemoteOptions) and may_ask_person(self.server.auth)

    def _no_session_error(self, limit: float, *, fresh: bool = False) -> PlaitError:
        """Explain why there is no session; a `fresh` caller has not waited for an attempt."""
        if self._condition.state == "closed":
            return ClientClosedError("the client is closed; its tools can no longer be called")
        last, wait = self._error, self.next_try_seconds
        if last is None and self._queued_at is not None and self._turns is not None:
            text = f"{self.name}: no turn within {limit:.0f} s: {self._turns.most} sessions of"
            return ConnectTimeoutError(f"{text} other users are open and in use", server=self.name)
        if last is None:
            return connect_timeout(limit, self.session and self.session.wire, self.name)
        if self._condition.final or not fresh or wait is None:
            again = copy.copy(last)
            again.__cause__ = last.__cause__
            return again
        refusal = CircuitOpenError(
            f"{self.name}: not tried, next try in {wait:.1f} s; the last failure was: {last}",
            server=self.name,
            status=last.status,
            retry_after=wait,
        )
        refusal.__cause__ = last
        return refusal

    def not_ready_error(self, seconds: float) -> PlaitError:
        """Explain that no session was opened while a caller waited this long."""
        text = f"{self.name}: not ready after {seconds:g} s; it is still being opened"
        return self._error or ConnectTimeoutError(text, server=self.name)

    def request_session(self) -> None:
        """Have a session opened, without waiting for it."""
        if not self._keeping and self._condition.state != "closed":
            self._keeping = True
            self._tasks.start(self.keep, name=f"plait keep {self.name}")
        self._signal("rested" if may_hurry(self._condition) else "requested")

    def reconnect(self) -> None:
        """Drop the session, and forget earlier failures; the next call opens another."""
        if self.session is not None:
            self._dropped = self.session
            self.session.end()
        self._signal("rested")

    @property
    def transport(self) -> str:
        """The name of the transport that is in use."""
        return "sse" if self._memory.over_sse else self.server.transport

    def reserve(self, client: McpSession, holder: object) -> None:
        """Reserve the session for a call that waits for the user: the next call opens another."""
        for session in self.sessions:
            if session.is_of(client):
                session.holders.add(holder)

    def release(self, holder: object) -> None:
        """Give the session of a paused call back."""
        for session in self.sessions:
            session.holders.discard(holder)

    def note_lost_login(self, session: Session, error: PlaitError) -> None:
        """Note that a session ends because its login has ended."""
        self._error = error
        if self._prompts_user:
            self._dropped = session

    def change_era(self, session: Session) -> None:
        """Use the other era from the next session on, once, where the era is not configured."""
        if self.server.protocol == "auto" and not self._memory.changed_era:
            self._memory.era = "modern" if self._memory.era == "legacy" else "legacy"
            self._memory.changed_era = True
            self._dropped = session
            session.end()

    def mark_proven(self) -> None:
        """Note that the session answered a request after the handshake."""
        self._signal("proven")

    async def keep(self) -> None:
        """Hold a session open while it is needed, and reopen it when lost; runs until closed."""
        while True:
            changed = self._changed
            match self._condition.state:
                case "idle" | "failed":
                    await changed.wait()
                case "connecting":
                    await self._open()
                case "ready":
                    await self._hold()
                case "lost":
                    self._signal("rested")
                case "waiting":
                    # Closing or a waiting caller cuts the pause short.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self.next_try_seconds):
                            await changed.wait()
                    if not changed.is_set():  # nobody has signed in, say, who wants an attempt now
                        needs_person = self._lacks_login() and self._prompts_user
                        self._signal("idled" if needs_person else "rested")
                case "closed":
                    return

    async def _open(self) -> None:
        if self._turns is not None:
            self._queued_at = self._clock.monotonic()
            try:
                has_turn = await self._turns.wait(
                    lambda: self._waiting > 0 and self._condition.state == "connecting"
                )
            finally:
                self._past_queued_seconds, self._queued_at = self._queued_seconds, None
            if not has_turn:
                self._signal("idled")
            if self._condition.state != "connecting":
                return
        self._tried_at = self._clock.monotonic()
        session = Session(self.name, self.server, self._memory, self.options, self._redact)
        self.sessions.add(session)
        if self._turns is not None:
            self._turns.add(session)
        self._quiet.clear()

        async def live() -> None:
            try:
                await session.live()
            finally:
                self.sessions.discard(session)
                if self._turns is not None:
                    self._turns.remove(session)
                if not self.sessions:
                    self._quiet.set()

        self._tasks.start(live, name=f"plait session {self.name}")
        self.session = session
        try:
            await session.opened()
        except PlaitError as error:
            self._error, self.refused_at = error, self._clock.monotonic()
            self._note("refused", str(error))
            final = error.retry == "never" or self._exits_early(session, error)
            self._signal("refused", final=final, attended=self._waiting > 0)
            return
        self.generation += 1
        self.answered_at = self._clock.monotonic()
        self.info = ServerInfo.of(session.client)
        self._note("opened", f"session {self.generation}")
        self._signal("opened")
        self._on_opened(session)

    def _exits_early(self, session: Session, error: PlaitError) -> bool:
        """Return whether the program was never ready, and ended again as it did before."""
        code = session.wire.exit_code
        if self.generation or code is None or isinstance(error, TimeoutError):
            self._early_exits = []
            return False
        self._early_exits = [*self._early_exits[1 - _MAX_EARLY_EXITS :], code]
        return self._early_exits == [code] * _MAX_EARLY_EXITS

    async def _hold(self) -> None:
        """Wait until the session ends, or has been idle for too long."""
        session = self.session
        if session is None:
            return
        self._error = None
        while not session.ended.is_set():
            try:
                async with asyncio.timeout(self._idle_seconds_left(session)):
                    await session.ended.wait()
            except TimeoutError:
                if not session.in_use and self._idle_seconds_left(session) == 0:
                    self._note("idle", "closed after idling")
                    self._signal("idled")
                    session.end()
                    return
        if session is self._dropped:
            reserved = "left to a call that waits for an answer"
            self._note("dropped", reserved if session.holders else "closed to be opened again")
            self._signal("idled")
        elif self._condition.state == "ready":
            if session.last_used - session.opened_at > _PROOF_SECONDS:
                self._signal("proven")
            self._note("lost", session.wire.ending())
            if not self.server.reconnect.enabled:
                text = f"{self.name}: {session.wire.ending()}, and `reconnect` is switched off"
                self._error = ConnectError(text, server=self.name)
            self._signal("lost")

    def _idle_seconds_left(self, session: Session) -> float | None:
        limit = self.server.idle_seconds
        if limit is None:
            return None
        if session.in_use:
            return limit
        return max(0.0, session.last_used + limit - self._clock.monotonic())

    async def close(self) -> None:
        """End every session, and what runs on them, within the time allowed for closing."""
        self._signal("closed")
        for session in list(self.sessions):
            session.abort()
        try:
            async with asyncio.timeout(self.server.timeouts.close_seconds):
                await self._quiet.wait()
        except TimeoutError:
            logger.warning("%s: the session did not close in time", self.name)

    def _signal(self, signal: Signal, *, final: bool = False, attended: bool = False) -> None:
        before = self._condition
        policy, now = self.server.reconnect, self._clock.monotonic()
        self._condition = step(before, signal, policy, final=final, attended=attended, now=now)
        if self._condition.state != before.state:
            self._next_try = None
            if self._condition.state == "waiting":
                doublings = doublings_of(self._condition)
                pause = policy.delay_seconds(doublings)
                if doublings == 0:
                    # Attempts begin at regular times, however long each takes to fail.
                    pause -= min(now - self._tried_at, _MAX_PAUSE_SHARE * pause)
                retry_after = (self._error.retry_after if self._error else None) or 0.0
                self._next_try = now + max(pause, min(retry_after, _MAX_RETRY_AFTER_SECONDS))
            self._since = self._clock.now()
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def _note(self, kind: str, detail: str) -> None:
        logger.info("%s: %s: %s", self.name, kind, detail)
        self._on_event(Event(self._clock.now(), self.name, kind, detail))

    @property
    def next_try_seconds(self) -> float | None:
        """Seconds until the next attempt, while one is scheduled."""
        if self._next_try is None:
            return None
        return max(0.0, self._next_try - self._clock.monotonic())

    def status(self) -> ServerStatus:
        """Describe the connection as it is now."""
        session, info = self.session, self.info
        wire = session.wire if session is not None else None
        if self._safe_identity[0] is not info:
            # Servers may repeat a secret that they were started with.
            identity = (info.identity or {}).items()
            self._safe_identity = info, {key: self._redact(text) for key, text in identity} or None
        return ServerStatus(
            name=self.name,
            transport=self.transport,
            state=self._condition.state,
            since=self._since,
            required=self.server.required,
            breaker=breaker_of(self._condition),
            protocol_version=info.protocol_version,
            server_info=self._safe_identity[1],
            error=self._error,
            next_try_seconds=self.next_try_seconds,
            pid=wire.pid if wire is not None and not wire.ended else None,
            sessions=self.generation,
            in_flight=self.in_flight,
            connect_seconds=session.connect_seconds if session is not None else None,
            repaired=tuple(dict.fromkeys(wire.notes)) if wire is not None else (),
            noise_lines=wire.noise_lines if wire is not None else 0,
            stderr_tail=tuple(wire.stderr_tail()) if wire is not None else (),
        )


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
                    # For all at once: closing takes a round trip to the server, or as long as a
                    # program needs.
                    staying = sum(not session.ended.is_set() for session in self._open)
                    wanted = sum(is_wanted() for is_wanted in self._queue)
                    if (excess := staying + wanted - self.most) > 0:
                        self._make_room(excess)
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
