"""One lasting connection: requests over a session that heals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Generic, TypeVar

from mcp import Client

from plait._support.causes import without_secrets
from plait.client.config.servers import ServerConfig
from plait.client.connections.concurrency import ConcurrencyLimit
from plait.client.connections.deadline import Deadline
from plait.client.connections.error_mapping import leaf_of, request_failure, with_cause
from plait.client.connections.operations import ping
from plait.client.connections.retry import ATTEMPTS, may_retry, pause_before_retry
from plait.client.connections.session import Session
from plait.client.connections.session_keeper import SessionKeeper
from plait.client.transports.wire import Exchanges, watched_exchanges
from plait.errors import ClientClosedError, PlaitError

logger = logging.getLogger("plait.client.connections")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a request returned, and what had to be repaired in it."""

    value: T
    notes: tuple[str, ...]


class ServerConnection(SessionKeeper):
    """Makes requests to one server; runs in the loop that owns the connections."""

    def __init__(self, name: str, server: ServerConfig, **keeping: Any) -> None:
        super().__init__(name, server, **keeping)
        self._doubted: set[Session] = set()
        self.concurrency = ConcurrencyLimit(server.max_concurrency)

    async def request(
        self,
        operation: Callable[[Client], Awaitable[T]],
        deadline: Deadline,
        *,
        method: str,
        tool: str | None = None,
    ) -> Answer[T]:
        """Run one operation on a session, opening it first if need be.

        Raises:
            PlaitError: What went wrong; `OutcomeUnknownError` if the request may have been run.
        """
        # Outside the deadline: a call that never left must not look like one that may have run.
        session = self.ready_session
        if session is None or (tool is not None and session.holders):
            waiting = (
                self.wait_for_session() if tool is None else self.wait_for_unreserved_session()
            )
            session = await waiting
        wire = session.wire
        begun = False
        with session.borrowed() as client, watched_exchanges(deadline.held) as exchanges:
            try:
                async with deadline, self.concurrency.slot():
                    begun = True
                    value = await operation(client)
            except Exception as error:  # noqa: BLE001  # boundary: the SDK may raise anything
                if deadline.expired:
                    self._doubt(session)
                    # Where nothing is seen of the wire, what was begun may have run.
                    sent = exchanges.may_have_run() if wire.tapped else begun
                    cause = error
                    failure = deadline.error(self.name, tool, sent=sent)
                else:
                    cause = leaf_of(error, exchanges)
                    failure = self._explained(error, session, exchanges, method, tool)
            else:
                self._signal("proven")
                return Answer(value, exchanges.notes)
        raise with_cause(failure, cause, wire)

    async def ask(
        self, operation: Callable[[Client], Awaitable[T]], deadline: Deadline, *, method: str
    ) -> T:
        """Run an operation that changes nothing, again if the session is lost under it.

        Raises:
            PlaitError: What went wrong.
        """
        return (await self.answer(operation, deadline, method=method)).value

    async def answer(
        self, operation: Callable[[Client], Awaitable[T]], deadline: Deadline, *, method: str
    ) -> Answer[T]:
        """Do what `ask` does, and also say what had to be repaired."""
        for attempt in count(1):
            try:
                return await self.request(operation, deadline, method=method)
            except PlaitError as error:
                pause = pause_before_retry(error, deadline.seconds)
                if attempt >= ATTEMPTS or pause is None or not may_retry(error, idempotent=True):
                    raise
                await self._clock.sleep(pause)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _explained(
        self,
        error: Exception,
        session: Session,
        exchanges: Exchanges,
        method: str,
        tool: str | None,
    ) -> PlaitError:
        if self._condition.state == "closed":
            return ClientClosedError(f"{self.name}: the client was closed during the call")
        if exchanges.last is not None and exchanges.last.answered:
            self._signal("proven")
        failure = request_failure(error, exchanges, session.wire, method=method, tool=tool)
        if failure.session_lost is not None and not session.ended.is_set():
            if failure.error.kind == "auth":
                self.note_lost_login(session, failure.error)
            session.wire.end(failure.session_lost)
        return failure.error

    def _doubt(self, session: Session) -> None:
        """Find out whether a server that did not answer a call answers anything at all."""
        if session not in self._doubted:
            self._doubted.add(session)
            self._tasks.start(partial(self._probe, session), name=f"plait probe {self.name}")

    async def _probe(self, session: Session) -> None:
        """End a session on which nothing is heard: a stopped server would hold it for ever."""
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(self.server.timeouts.connect_seconds):
                with session.borrowed() as client:
                    await ping(client)
        except Exception as error:  # boundary: what counts is whether anything was heard
            safe = without_secrets(error, session.wire.redact)
            logger.debug("%s: the probe failed", self.name, exc_info=safe)
        finally:
            self._doubted.discard(session)
        if session.wire.tapped and session.wire.last_received < began:
            session.wire.end("the server does not answer any more")
