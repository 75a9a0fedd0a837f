"""One session with a server, from the handshake to its end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from plait._support.causes import without_secrets
from plait._support.threads import import_in_thread
from plait.client.config.servers import ServerConfig, StdioServer, connect_seconds_of
from plait.client.connections.error_mapping import connect_timeout
from plait.client.transports.process import end_unused_process, start_process
from plait.client.transports.wire_log import make_wire
from plait.errors import ClientClosedError, ConnectError, PlaitError
from plait.traces.spans import is_traced, record_session

if TYPE_CHECKING:
    from mcp import Client

    from plait._support.redact import Redactor
    from plait.client.connections.operations import AnySession
    from plait.client.connections.session_options import ServerMemory, SessionOptions
    from plait.client.protocol.session import McpSession

logger = logging.getLogger("plait.client.connections")

OPENING = "plait.client.connections.opening"
"""The module that opens sessions, with all that it imports."""
SDK = "plait.client.connections.sdk_client"
"""The module that imports the MCP SDK, which is slow."""


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
        self._client: Client | McpSession | None = None
        self._failure: PlaitError | None = None
        self._opening: asyncio.Timeout | None = None
        self._opened = asyncio.Event()
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
    def client(self) -> Client | McpSession:
        """The open client."""
        if self._client is None:
            raise ClientClosedError(f"{self.wire.server}: the session is closed")
        return self._client

    def is_of(self, session: AnySession) -> bool:
        """Return whether the SDK's session belongs to this one."""
        return self._client is not None and self._client.session is session

    async def opened(self) -> None:
        """Wait until the session is open, or raise why it could not be opened."""
        await self._opened.wait()
        if self._failure is not None:
            raise self._failure
        if self._client is None:
            raise ConnectError(
                f"{self.wire.server}: {self.wire.ending()} right after the handshake",
                server=self.wire.server,
            )

    def __enter__(self) -> Client | McpSession:
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
                    await self._direct_calls_ended()
                async with asyncio.timeout(self._server.timeouts.close_seconds):
                    await stack.aclose()
        except Exception as error:  # boundary: the SDK's own tasks may fail in any way
            safe = without_secrets(error, self.wire.redact)
            logger.debug("%s: the session broke", self.wire.server, exc_info=safe)
        finally:
            if self._client is not None and is_traced():
                opened = {
                    "network.transport": "pipe" if self._server.transport == "stdio" else "tcp"
                }
                record_session(time.monotonic() - self.opened_at, opened)
            self._client = None
            self.wire.end("the session was closed")
            self.ended.set()
            self._opened.set()

    async def _direct_calls_ended(self) -> None:
        self.wire.drained = asyncio.Event()
        self.wire.check_drained()
        if not self._aborted:
            await self.wire.drained.wait()

    async def _open(self, stack: AsyncExitStack) -> None:
        began = time.monotonic()
        limit = connect_seconds_of(self._server)
        try:
            async with asyncio.timeout(limit) as self._opening:
                if self._server.problem is not None:
                    raise self._server.problem
                await self._start_process(stack)
                self._limit_opening(None)
                await import_in_thread(OPENING)
                if self._server.transport != "in-process":
                    # Each transport has a module, which imports the libraries that it needs.
                    await import_in_thread(f"plait.client.transports.{self._server.transport}")
                from plait.client.connections.opening import (  # noqa: PLC0415
                    enter_session,
                    has_own_session,
                )

                if not has_own_session(self._server, self.wire):
                    await import_in_thread(SDK)
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
        self._opened.set()

    async def _start_process(self, stack: AsyncExitStack) -> None:
        """Start the process of a stdio server before anything else, so that it can start up."""
        if isinstance(self._server, StdioServer) and self._needs_server:
            # A failure is raised when the transport is opened, which tries again.
            with suppress(PlaitError):
                self.wire.started_process = await start_process(self._server, self.wire)
                stack.push_async_callback(end_unused_process, self.wire)

    def _limit_opening(self, seconds: float | None) -> None:
        """Allow this much time from now on; imports do not count."""
        if self._opening is not None and not self._aborted:
            now = asyncio.get_running_loop().time()
            self._opening.reschedule(None if seconds is None else now + seconds)
