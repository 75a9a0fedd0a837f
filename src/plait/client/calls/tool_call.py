"""A tool call as data, its deadlines, and the callbacks for calls and notifications."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Hashable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from plait._support import mcp_types as types
from plait._support.durations import checked_seconds
from plait._support.gather import resolve
from plait.client.config.budgets import value_by_tool
from plait.client.connections.deadline import PATIENT, Deadline, Patience
from plait.client.protocol.exchange import PendingRequest
from plait.errors import PlaitError, RunDeadlineError

if TYPE_CHECKING:
    from plait.client.calls.approval import OnApproval
    from plait.client.config.servers import Timeouts
    from plait.client.connections.credentials import CallerCredentials
    from plait.client.connections.operations import InputAnswers
    from plait.client.protocol.session import OnElicitation, RequestContext

OnLog = Callable[[str, "types.LoggingMessageNotificationParams"], Awaitable[None] | None]
"""Gets the server's name and its log message."""

OnProgress = Callable[[float, float | None, str | None], Awaitable[None] | None]
"""Gets progress, total and message of each progress notification."""

OnCallLog = Callable[["types.LoggingMessageNotificationParams"], Awaitable[None] | None]
"""Gets each log message that the server sends during the call."""

OnInput = Callable[["types.InputRequests"], Awaitable["types.InputResponses"]]
"""Gets the input requests of a result by their keys, and returns the answers."""

E = TypeVar("E", bound=PlaitError)

_RUN_IS_OVER_TEXT = "the time of the whole run is over"
_WAIT_SECONDS = 30.0
"""How long a call waits for a server that is down, unless `connect_timeout` is set."""
_CALL_SECONDS = 60.0
"""The timeout of a call, unless one is set."""
_MAX_EXTENSION_FACTOR = 10
"""How far progress may extend a call, in multiples of its timeout."""

run_ends_at: ContextVar[float | None] = ContextVar("plait_run_ends_at", default=None)
"""The deadline that `run_deadline` sets, on the monotonic clock."""


@dataclass
class CallbackContext:
    """The server, and the tool where it is known, that a callback is about."""

    server_name: str
    tool_name: str | None = None


OnNotification = Callable[[Any, CallbackContext], Awaitable[None] | None]
"""Gets the params of a notification, or `None` if it has none, and the server's name."""

OnAnyProgress = Callable[[float, float | None, str | None, CallbackContext], Awaitable[None] | None]
"""Gets progress, total and message of any call, and which call it is."""


@dataclass(kw_only=True)
class ServerCallbacks:
    """Callbacks for server notifications; each may be sync or async."""

    on_message: OnNotification | None = None
    """A log message that no callback of a call takes."""
    on_initialized: OnNotification | None = None
    """A session was opened, the first one or a later one; the params are `ServerInfo`."""
    on_cancelled: OnNotification | None = None
    """A server cancelled a request of its own."""
    on_elicitation_complete: OnNotification | None = None
    """A person has done what a URL was for that a server asked to visit."""
    on_tools_list_changed: OnNotification | None = None
    on_prompts_list_changed: OnNotification | None = None
    on_resources_list_changed: OnNotification | None = None
    on_roots_list_changed: OnNotification | None = None
    on_resources_updated: OnNotification | None = None
    """A subscribed resource changed."""

    @classmethod
    def of(cls, options: Mapping[str, Any], on_log: OnLog | None = None) -> ServerCallbacks:
        """Read them from the options of a client; `on_log` gets messages before `on_message`."""
        callbacks = {name: options.get(name) for name in NOTIFICATION_CALLBACKS}
        if on_log is not None:
            on_message: OnNotification | None = callbacks["on_message"]

            async def notify(
                params: types.LoggingMessageNotificationParams, context: CallbackContext
            ) -> None:
                await resolve(on_log(context.server_name, params))
                if on_message is not None:
                    await resolve(on_message(params, context))

            callbacks["on_message"] = notify
        return cls(**callbacks)

    def registered(self) -> dict[str, OnNotification]:
        """Return the callbacks that are set, by name."""
        callbacks = {name: getattr(self, name) for name in NOTIFICATION_CALLBACKS}
        return {name: callback for name, callback in callbacks.items() if callback is not None}


NOTIFICATION_CALLBACKS = tuple(field.name for field in fields(ServerCallbacks))
"""The names of all callbacks of the form `(params, context)`."""


async def decline(context: RequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Decline an elicitation, in a client that only a paused run answers."""
    del context, params
    return types.ElicitResult(action="decline")


@dataclass(frozen=True, slots=True)
class Pause:
    """Marks a call whose caller can be paused, and repeats the call to resume it."""

    key: tuple[str, ...]
    """Identifies the call when it is repeated."""
    resumed: bool = False
    """Whether this is the repetition, with the user's answers."""


class SendRecorder(Protocol):
    """Records that a call is about to be sent, for a caller that may make the call again."""

    async def send(self) -> None:
        """Leave the record: from now on the call may have taken effect."""
        ...


@dataclass(slots=True, eq=False, kw_only=True)
class PausableRequest(PendingRequest):
    """A direct call that is held if the server asks the user something in the middle of it."""

    call: ToolCall
    paused: object | None = None
    """What holds it, once the server has asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """Identifies a run and its conversation."""

    key: Hashable | None = None
    """Unique to the calls of one run; `None` if it is not known."""
    thread: str | None = None
    """The conversation of the run."""
    turn: str | None = None
    """The input of the run; a run resumed after an interrupt has the same."""
    resumed: bool = False
    """Whether the run is known to resume the last one of its conversation."""


@dataclass(slots=True, kw_only=True)
class ToolCall:
    """A tool call, with its callbacks and limits; `replace` makes another one of it.

    It is not frozen, because that would take three times as long for every direct call.
    """

    server: str
    tool: str
    """The wire name."""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    call_id: str | None = None
    """The id that the model gave the call, for spans."""
    timeout_seconds: float | None = None
    spent_seconds: float = 0.0
    """How much of its time the call has spent before it was sent."""
    on_progress: OnProgress | None = None
    on_log: OnCallLog | None = None
    on_elicitation: OnElicitation | None = None
    """Answers elicitation requests during the call."""
    on_approval: OnApproval | None = None
    """Requests approval if the policy says so, instead of the client's own callback."""
    recorder: SendRecorder | None = field(default=None, repr=False)
    """Leaves a record before the call is sent, when it is permitted."""
    instead_of: str | None = None
    """The server that failed, if this one is its fallback."""
    on_input: OnInput | None = None
    """Answers all input requests of a result together, in place of the callbacks for each."""
    visits_urls: bool = True
    """Whether the person is asked to visit the URLs that a server's error demands."""
    meta: Mapping[str, Any] | None = field(default=None, repr=False)
    """Fields of `_meta` that the server gets."""
    input_answers: InputAnswers | None = field(default=None, repr=False)
    """Answers to the input requests of the server when this call was made before."""
    pause: Pause | None = None
    """If set, an elicitation request ends the call with `InputNeededError`."""
    access: CallerCredentials | None = field(default=None, repr=False)
    """Credentials for this call, in addition to the server's own."""
    ends_at: float | None = None
    """The monotonic time at which the run ends."""
    run: RunIdentity | None = field(default=None, repr=False)
    override_context: object | None = field(default=None, repr=False)
    """What functions of overrides get, where those of a fallback server may be needed."""
    decided_hints: Mapping[str, Any] | None = None
    """The annotations that the policy or a person decided by, if they matter."""

    @property
    def is_plain(self) -> bool:
        """Whether the call has no credentials, limits, and callbacks during the call of its own."""
        return (
            self.timeout_seconds is None
            and self.on_progress is None
            and self.on_log is None
            and self.on_elicitation is None
            and self.on_input is None
            and self.meta is None
            and self.input_answers is None
            and self.access is None
            and self.ends_at is None
        )

    @property
    def where(self) -> str:
        """The tool's full name, for texts."""
        return f"{self.server}/{self.tool}"

    def error(self, kind: type[E], text: str) -> E:
        """Create an error about this call."""
        return kind(f"{self.where}: {text}", server=self.server, tool=self.tool)

    def run_seconds_left(self) -> float | None:
        """Return the seconds until the run's deadline, or `None` if it has none."""
        ends = [end for end in (self.ends_at, run_ends_at.get()) if end is not None]
        return min(ends) - time.monotonic() if ends else None


@contextlib.contextmanager
def run_deadline(seconds: float) -> Generator[None]:
    """Set a deadline, in seconds from now, for all calls in the block.

    A call that takes longer is cancelled, on the server too, with `RunDeadlineError`, and no call
    is started afterwards. Of nested blocks, the earliest deadline counts.
    """
    left = checked_seconds(max(seconds, 0.0), "run_deadline", may_be_zero=True)
    ends_at = time.monotonic() + left
    outer = run_ends_at.get()
    token = run_ends_at.set(ends_at if outer is None else min(outer, ends_at))
    try:
        yield
    finally:
        run_ends_at.reset(token)


@contextlib.asynccontextmanager
async def within_run(call: ToolCall) -> AsyncGenerator[None]:
    """Cancel the block at the deadline of the run, with `RunDeadlineError`."""
    left = call.run_seconds_left()
    if left is not None and left <= 0:
        raise call.error(RunDeadlineError, f"{_RUN_IS_OVER_TEXT}; it was not sent")
    limit = asyncio.timeout(left)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired() or isinstance(error, PlaitError):
            raise
        text = f"{_RUN_IS_OVER_TEXT}; it may still take effect, so check first"
        raise call.error(RunDeadlineError, text) from error


def call_deadline(call: ToolCall, timeouts: Timeouts, default_seconds: float | None) -> Deadline:
    """Return the deadline of a call: its own, else the tool's, server's, client's, or 60 s."""
    by_tool = value_by_tool(timeouts.tool_seconds, call.server, call.tool)
    chosen = call.timeout_seconds or by_tool or timeouts.call_seconds or default_seconds
    seconds = chosen or _CALL_SECONDS
    cap = timeouts.longest_call_seconds or seconds * _MAX_EXTENSION_FACTOR
    patience = PATIENT
    if timeouts.connect_seconds is None:
        # A caller that has set a longer time for its call has it for waiting too.
        patience = Patience(max(_WAIT_SECONDS, chosen or 0.0))
    return Deadline(
        seconds,
        cap_seconds=cap,
        setting="timeout",
        patience=patience,
        spent_seconds=call.spent_seconds,
    )
