"""One tool call: its deadline, its attempts, and what becomes of it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from mcp import Client
from mcp_types import LOG_LEVEL_META_KEY, CallToolResult, LoggingLevel, RequestParamsMeta

from plait.catalog.catalog import ToolCatalog
from plait.catalog.filters import is_offered
from plait.catalog.tool import Tool
from plait.config.policies import Timeouts
from plait.connections.connection import Answer
from plait.connections.deadline import Deadline
from plait.connections.handover import Handover
from plait.connections.operations import call_tool, is_modern
from plait.connections.pool import ConnectionPool
from plait.connections.retry import ATTEMPTS, may_retry, pause_before_retry
from plait.errors import PermissionDeniedError, PlaitError
from plait.execution.outcome import ToolResult
from plait.execution.output_check import output_notes, prepare_check
from plait.telemetry.observer import CallTool, Observer, observe

logger = logging.getLogger("plait.execution")

OnProgress = Callable[[float, float | None, str | None], Awaitable[None] | None]
"""Gets the progress, the total and the message of each progress notification."""

_CALL_SECONDS = 60.0
_LONGEST_FACTOR = 10
"""How far progress may stretch a call, in multiples of its timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call to be made."""

    server: str
    tool: str
    """The wire name."""

    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    timeout_seconds: float | None = None
    on_progress: OnProgress | None = None


class ToolExecutor:
    """Makes calls; it runs where the caller is, and hands each attempt over to the connections."""

    def __init__(
        self,
        pool: ConnectionPool,
        catalog: ToolCatalog,
        handover: Handover,
        *,
        default_seconds: float | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._pool = pool
        self._catalog = catalog
        self._handover = handover
        self._default_seconds = default_seconds
        self._observers = tuple(observers)
        self.log_level: LoggingLevel | None = None
        """From which level on servers shall send log messages during calls."""

    async def run(self, call: ToolCall) -> ToolResult:
        """Make the call, and make it again where that can do no harm.

        Raises:
            PlaitError: The call could not be made, or its outcome is not known.
        """
        tool = await self._handover.run(self._catalog.recall, call.server, call.tool)
        self._check_offered(call, tool)
        tell = call.on_progress and self._handover.returning(call.on_progress)
        began = time.perf_counter()
        attempt = 0
        while True:
            attempt += 1
            try:
                with observe(
                    self._observers,
                    CallTool(server=call.server, tool=call.tool, attempt=attempt),
                ):
                    answer = await self._handover.run(self._attempt, call, tool, tell)
            except PlaitError as error:
                pause = self._pause_before_retry(call, tool, error, attempt, began)
                if pause is None:
                    raise
                logger.info("calling %s/%s again after: %s", call.server, call.tool, error)
                await asyncio.sleep(pause)
                continue
            if tool is not None:
                await prepare_check(tool)
            return ToolResult.from_mcp(
                call.server,
                call.tool,
                answer.value,
                attempts=attempt,
                notes=(*answer.notes, *_output_notes(tool, answer.value)),
                seconds=time.perf_counter() - began,
            )

    async def _attempt(
        self,
        call: ToolCall,
        tool: Tool | None,
        tell: Callable[[float, float | None, str | None], None] | None,
    ) -> Answer[CallToolResult]:
        """Make one attempt; runs in the loop that owns the connections."""
        connection = self._pool[call.server]
        deadline = self._deadline(call, connection.server.timeouts)
        on_progress = partial(_progressed, deadline, tell)

        def operation(client: Client) -> Awaitable[CallToolResult]:
            meta: RequestParamsMeta | None = None
            if self.log_level is not None and is_modern(client):
                meta = {LOG_LEVEL_META_KEY: self.log_level}
            return call_tool(
                client,
                call.tool,
                call.arguments,
                mirrored=tool is not None and tool.mirrors_arguments,
                on_progress=on_progress,
                meta=meta,
            )

        return await connection.request(operation, deadline, method="tools/call", tool=call.tool)

    def _pause_before_retry(
        self, call: ToolCall, tool: Tool | None, error: PlaitError, attempt: int, began: float
    ) -> float | None:
        """Say how long to wait before the next attempt, or `None` when there must be none."""
        idempotent = tool is not None and tool.idempotent
        if attempt >= ATTEMPTS or not may_retry(error, idempotent=idempotent):
            return None
        limit = self._deadline(call, self._pool[call.server].server.timeouts).seconds
        return pause_before_retry(error, limit - (time.perf_counter() - began))

    def _check_offered(self, call: ToolCall, tool: Tool | None) -> None:
        if tool is not None and not is_offered(tool, self._pool[call.server].server):
            raise PermissionDeniedError(
                f"{call.server}/{call.tool}: this tool is not offered (include/exclude)",
                server=call.server,
                tool=call.tool,
            )

    def _deadline(self, call: ToolCall, timeouts: Timeouts) -> Deadline:
        """Find the limit of a call: its own, the tool's, the server's, the client's, 60 s."""
        by_tool = (
            seconds
            for pattern, seconds in timeouts.tool_seconds.items()
            if fnmatchcase(call.tool, pattern)
        )
        seconds = (
            call.timeout_seconds
            or next(by_tool, None)
            or timeouts.call_seconds
            or self._default_seconds
            or _CALL_SECONDS
        )
        cap = timeouts.longest_call_seconds or seconds * _LONGEST_FACTOR
        return Deadline(seconds, cap_seconds=cap, setting="timeout")


def _output_notes(tool: Tool | None, result: CallToolResult) -> tuple[str, ...]:
    notes = () if tool is None else output_notes(tool, result)
    for note in notes:
        logger.warning("%s/%s: %s", tool and tool.server, tool and tool.wire_name, note)
    return notes


async def _progressed(
    deadline: Deadline,
    tell: Callable[[float, float | None, str | None], None] | None,
    progress: float,
    total: float | None,
    message: str | None,
) -> None:
    deadline.extend()
    if tell is not None:
        tell(progress, total, message)
