"""A tool call to be made, and the time its run has left."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Hashable, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from mcp.client.session import ElicitationFnT
from mcp_types import LoggingMessageNotificationParams

from plait.client.calls.approval import OnApproval
from plait.client.config.timing import Timeouts
from plait.client.connections.credentials import Access
from plait.client.connections.deadline import Deadline
from plait.client.connections.operations import Given
from plait.errors import PlaitError, RunDeadlineError

OnProgress = Callable[[float, float | None, str | None], Awaitable[None] | None]
"""Gets the progress, the total and the message of each progress notification."""

OnCallLog = Callable[[LoggingMessageNotificationParams], Awaitable[None] | None]
"""Gets each log message that a server sends during a call."""

_CALL_SECONDS = 60.0
_LONGEST_FACTOR = 10
"""How far progress may stretch a call, in multiples of its timeout."""

_run_ends_at: ContextVar[float | None] = ContextVar("plait_run_ends_at", default=None)


@dataclass(frozen=True, slots=True)
class Pause:
    """A call whose caller can be paused, and makes it again to go on with it."""

    key: tuple[str, ...]
    """By which it is known again."""
    resumed: bool = False
    """Whether it is made to go on, and its answers are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """What tells one run, and one conversation, from another."""

    key: Hashable | None = None
    """The same for all calls of a run, and for no others; `None` where that is not known."""

    thread: str | None = None
    """The conversation that the run belongs to."""

    turn: str | None = None
    """What the run was started with; one that goes on after an interrupt has the same."""

    goes_on: bool = False
    """Whether the run is known to go on with the last one of its conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call to be made."""

    server: str
    tool: str
    """The wire name."""

    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    timeout_seconds: float | None = None
    on_progress: OnProgress | None = None
    on_log: OnCallLog | None = None
    on_elicitation: ElicitationFnT | None = None
    """Answers what the server asks the user during the call."""

    on_approval: OnApproval | None = None
    """Asks a person about the call where the policy says so, in place of the client's own."""

    instead_of: str | None = None
    """The server that was asked first and failed."""

    input_responses: Given | None = field(default=None, repr=False)
    """Answers to what the server asked when this call was made before."""

    pause: Pause | None = None
    """Given, a question to the user ends the call with `InputNeededError`."""

    access: Access | None = field(default=None, repr=False)
    """Credentials for this call, on top of the server's own."""

    ends_at: float | None = None
    """The monotonic time by which the run must be over."""

    run: RunIdentity | None = field(default=None, repr=False)
    """Which run it is made in."""

    @property
    def where(self) -> str:
        """The tool's full name, for texts."""
        return f"{self.server}/{self.tool}"

    def run_seconds_left(self) -> float | None:
        """Say how much time the run has left, or `None` if it may take as long as it likes."""
        ends = [end for end in (self.ends_at, _run_ends_at.get()) if end is not None]
        return min(ends) - time.monotonic() if ends else None


@contextlib.contextmanager
def run_deadline(seconds: float) -> Generator[None]:
    """Give everything called in the block so many seconds in all.

    A call that would take longer is ended, on the server too, with `RunDeadlineError`; no call is
    started afterwards. Of two blocks, one in the other, the one that ends first counts.
    """
    ends_at = time.monotonic() + seconds
    outer = _run_ends_at.get()
    token = _run_ends_at.set(ends_at if outer is None else min(outer, ends_at))
    try:
        yield
    finally:
        _run_ends_at.reset(token)


def within_run(call: ToolCall) -> AbstractAsyncContextManager[None]:
    """End the block when the time of the whole run is over.

    Raises:
        RunDeadlineError: It is over.
    """
    left = call.run_seconds_left()
    return contextlib.nullcontext() if left is None else _within(left, call)


@contextlib.asynccontextmanager
async def _within(left: float, call: ToolCall) -> AsyncGenerator[None]:
    if left <= 0:
        raise _run_is_over(call, "it was not sent")
    limit = asyncio.timeout(left)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired() or isinstance(error, PlaitError):
            raise
        raise _run_is_over(call, "it may still take effect, so check first") from error


def _run_is_over(call: ToolCall, outcome: str) -> RunDeadlineError:
    return RunDeadlineError(
        f"{call.where}: the time of the whole run is over; {outcome}",
        server=call.server,
        tool=call.tool,
    )


def deadline_of(call: ToolCall, timeouts: Timeouts, default_seconds: float | None) -> Deadline:
    """Find the limit of a call: its own, the tool's, the server's, the client's, 60 s."""
    by_tool = _seconds_of_tool(call, timeouts.tool_seconds) if timeouts.tool_seconds else None
    seconds = (
        call.timeout_seconds or by_tool or timeouts.call_seconds or default_seconds or _CALL_SECONDS
    )
    cap = timeouts.longest_call_seconds or seconds * _LONGEST_FACTOR
    return Deadline(seconds, cap_seconds=cap, setting="timeout")


def _seconds_of_tool(call: ToolCall, by_tool: Mapping[str, float]) -> float | None:
    """Find the limit of a tool: by its name, else by the first pattern that fits."""
    by_pattern = (
        seconds
        for pattern, seconds in by_tool.items()
        if fnmatchcase(call.where if "/" in pattern else call.tool, pattern)
    )
    return by_tool.get(call.where) or by_tool.get(call.tool) or next(by_pattern, None)
