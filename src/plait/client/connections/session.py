"""One session with a server, from the handshake to its end, and what it is opened with."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from plait._support import mcp_types as types
from plait._support.causes import without_secrets
from plait._support.threads import import_in_thread
from plait._version import __version__
from plait.client.config.servers import ServerConfig, StdioServer, connect_seconds_of
from plait.client.connections.error_mapping import connect_timeout
from plait.client.protocol.inbound import Callbacks
from plait.client.transports.process import end_unused_process, start_process
from plait.client.transports.wire_log import make_wire
from plait.errors import ClientClosedError, ConnectError, PlaitError
from plait.telemetry.spans import is_traced, record_session

if TYPE_CHECKING:
    from plait._support.redact import Redactor
    from plait.client.protocol.inbound import (
        IncomingMessage,
        OnElicitation,
        OnLog,
        OnMessage,
        OnRoots,
        OnSampling,
    )
    from plait.client.protocol.session import McpSession
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
    tape: Tape | None = None
    """Where the traffic of all sessions is recorded, or played."""

    def prefers_handshake(self, own: Mapping[str, Any]) -> bool:
        """Return whether servers should be able to send requests during a call.

        That takes a back channel, which the modern era does not have.
        """
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
