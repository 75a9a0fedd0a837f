"""Routes log messages, elicitation and sampling requests of a server to the call they belong to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult, ErrorData
from mcp_types import LoggingMessageNotificationParams as LogMessage

from plait.client.calls.sampling import SamplingRequest, SamplingResult

if TYPE_CHECKING:
    from mcp.client import ClientRequestContext, ClientSession
    from mcp.client.session import ElicitationFnT

    from plait.client.calls.tool_call import ToolCall
    from plait.client.connections.deadline import Deadline
    from plait.client.connections.loop_bridge import LoopBridge

logger = logging.getLogger("plait.client.calls")

_ANSWER_TIMEOUT_SECONDS = 600.0
"""How long a user may take to answer an elicitation request."""
T = TypeVar("T", ElicitResult, ElicitResult | ErrorData)

Sample = Callable[[str, SamplingRequest], Coroutine[Any, Any, SamplingResult | ErrorData]]
"""Sends a server's sampling request to the model."""


@dataclass(slots=True, eq=False)
class ActiveCall:
    """A call in progress, with the callbacks of its caller."""

    server: str
    tool: str
    on_log: Callable[[LogMessage], None] | None = None
    on_elicitation: ElicitationFnT | None = None
    sample: Sample | None = None
    on_progress: Sequence[Callable[[float, float | None, str | None], None]] = ()
    """The callbacks of the call and of the client."""
    sampling_requests: int = 0
    """How many sampling requests the server has made during this call."""
    pausing: bool = False
    """Whether an elicitation pauses the caller, so that it must not get another call's answer."""
    session: ClientSession | None = None
    deadline: Deadline | None = None
    answering: bool = False
    """Whether an elicitation request of this call is being answered."""

    @classmethod
    def of(cls, call: ToolCall, bridge: LoopBridge, sample: Sample | None = None) -> ActiveCall:
        """Create it in the caller's event loop, where its callbacks run."""
        return cls(
            call.server,
            call.tool,
            call.on_log and bridge.bind_callback(call.on_log),
            call.on_elicitation
            and cast("ElicitationFnT", bridge.bind_handler(call.on_elicitation)),
            sample and bridge.bind_handler(sample),
        )


_current: ContextVar[ActiveCall | None] = ContextVar("plait_active_call", default=None)


class CallRouter:
    """Holds the calls in progress; lives in the loop that owns the connections."""

    def __init__(self, has_direct_calls: Callable[[ClientSession], bool] | None = None) -> None:
        """Take what says whether a session has direct calls, which this class does not know."""
        self._has_direct_calls = has_direct_calls
        self._active: list[ActiveCall] = []
        self._changed = asyncio.Event()
        self._unassigned: Counter[ClientSession] = Counter()
        """By session, the elicitation requests whose call is not known yet."""
        self._pending: dict[asyncio.Future[Any], set[ActiveCall]] = {}
        """Sampling results in the making, and the calls that may have requested them."""

    @contextlib.contextmanager
    def active(
        self, call: ActiveCall, session: ClientSession, deadline: Deadline | None = None
    ) -> Generator[None]:
        """Route what the server sends on the session to this call during the block.

        The deadline is paused while the caller answers an elicitation request.
        """
        call.session, call.deadline = session, deadline
        self._active.append(call)
        token = _current.set(call)
        try:
            yield
        finally:
            _current.reset(token)
            self._active.remove(call)
            self._ended(call)

    def dispatch_log(self, server: str, message: LogMessage) -> bool:
        """Pass a log message to its call; return whether there is one that takes it."""
        call = _current.get()
        if call is None or call.server != server:
            takers = [each for each in self.calls_of(server) if each.on_log is not None]
            call = takers[0] if len({each.tool for each in takers}) == 1 else None
        if call is None or call.on_log is None:
            return False
        call.on_log(message)
        return True

    async def answer_elicitation(
        self, context: ClientRequestContext, params: ElicitRequestParams, default: ElicitationFnT
    ) -> ElicitResult | ErrorData:
        """Answer an elicitation request by the callback of its call, or by `default`."""
        call = _current.get() or await self._eliciting_call(context.session)
        if call is None or call.on_elicitation is None:
            return await default(context, params)
        call.answering = True
        clock = call.deadline.held() if call.deadline else contextlib.nullcontext()
        try:
            with clock:
                async with asyncio.timeout(None if call.pausing else _ANSWER_TIMEOUT_SECONDS):
                    return await call.on_elicitation(context, params)
        except TimeoutError:
            logger.warning("%s/%s: elicitation was not answered in time", call.server, call.tool)
            return ElicitResult(action="cancel")
        finally:
            call.answering = False
            self._notify()

    async def _eliciting_call(self, session: ClientSession) -> ActiveCall | None:
        """Find the call that a handshake-era request belongs to, which the request does not name.

        If several are possible, wait: those that end without an answer did not send it.
        """
        self._unassigned[session] += 1
        try:
            while True:
                here = [call for call in self._active if call.session is session]
                if self._has_direct_calls is not None and self._has_direct_calls(session):
                    return None  # it may belong to one of those
                running = [call for call in here if not call.answering] or here
                if len(running) <= 1:
                    return running[0] if running else None
                if not any(call.pausing for call in here):
                    takers = [call for call in running if call.on_elicitation is not None]
                    same = len({call.tool for call in takers}) == 1
                    return takers[0] if same else None
                if self._unassigned[session] >= len(running):
                    logger.warning(
                        "%s sent an elicitation request that may belong to any of %d calls; "
                        "it is declined",
                        running[0].server,
                        len(running),
                    )
                    return None
                await self._changed.wait()
        finally:
            self._unassigned[session] -= 1
            if not self._unassigned[session]:
                del self._unassigned[session]

    def _notify(self) -> None:
        if self._unassigned:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def calls_of(self, server: str) -> list[ActiveCall]:
        """Return the calls that a request of the server may belong to: the current one, or all."""
        current = _current.get()
        if current is not None and current.server == server:
            return [current]
        return [call for call in self._active if call.server == server]

    @contextlib.contextmanager
    def cancelled_with(
        self, calls: Sequence[ActiveCall], result: asyncio.Future[Any]
    ) -> Generator[None]:
        """Cancel a pending result when the last call that may have requested it has ended."""
        if calls:
            self._pending[result] = set(calls)
        try:
            yield
        finally:
            self._pending.pop(result, None)

    def _ended(self, call: ActiveCall) -> None:
        self._notify()
        for result, calls in list(self._pending.items()):
            calls.discard(call)
            if not calls:
                result.cancel()


def with_schema_defaults(request: ElicitRequestParams, answer: T) -> T:
    """Fill in the fields of an accepted form that are missing and have a default."""
    if not isinstance(answer, ElicitResult) or answer.action != "accept":
        return answer
    if not isinstance(request, ElicitRequestFormParams):
        return answer
    fields: Mapping[str, Any] = request.requested_schema.get("properties") or {}
    content = dict(answer.content or {})
    for name, field in fields.items():
        if name not in content and isinstance(field, Mapping) and "default" in field:
            content[name] = field["default"]
    return answer.model_copy(update={"content": content})
