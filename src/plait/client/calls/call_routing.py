"""Calls in progress: routes log messages and requests that a server sends during them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from plait._support import mcp_types as types
from plait.client.calls.paused_calls import (
    ANSWER_TIMEOUT_SECONDS,
    DirectCall,
    HeldCall,
    PausedCalls,
)
from plait.client.calls.sampling import SamplingRequest, SamplingResult
from plait.client.calls.tool_call import CallbackContext
from plait.telemetry.spans import waiting_span

if TYPE_CHECKING:
    from plait.client.calls.tool_call import OnAnyProgress, ToolCall
    from plait.client.connections.deadline import Deadline
    from plait.client.connections.loop_bridge import LoopBridge
    from plait.client.connections.session import Session
    from plait.client.protocol.inbound import OnElicitation, RequestContext
    from plait.client.protocol.session import McpSession

logger = logging.getLogger("plait.client.calls")

T = TypeVar("T", "types.ElicitResult", "types.ElicitResult | types.ErrorData")

Sample: TypeAlias = (
    "Callable[[str, SamplingRequest], Coroutine[Any, Any, SamplingResult | types.ErrorData]]"
)
"""Sends a server's sampling request to the model."""


@dataclass(slots=True, eq=False)
class ActiveCall:
    """A call in progress, with the callbacks of its caller."""

    server: str
    tool: str
    on_log: Callable[[types.LoggingMessageNotificationParams], None] | None = None
    on_elicitation: OnElicitation | None = None
    sample: Sample | None = None
    on_progress: Sequence[Callable[[float, float | None, str | None], None]] = ()
    """The callbacks of the call and of the client."""
    sampling_requests: int = 0
    """How many sampling requests the server has made during this call."""
    pausing: bool = False
    """Whether an elicitation pauses the caller, so that it must not get another call's answer."""
    session: McpSession | None = None
    source: object | None = None
    """What log messages of its connection are known by."""
    deadline: Deadline | None = None
    abandoned: bool = False
    """Whether it ended without a response, so that the server may still wait for an answer."""
    on_asked: Callable[[McpSession], None] | None = None
    """Called when an elicitation request of this call arrives."""
    has_elicited: bool = False
    """Whether the server may have sent an elicitation request during this call."""
    is_underway: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def can_ask(self) -> bool:
        """Whether its caller answers elicitation requests."""
        return self.on_elicitation is not None

    @classmethod
    def of(
        cls,
        call: ToolCall,
        bridge: LoopBridge,
        sample: Sample | None,
        on_any_progress: OnAnyProgress | None,
    ) -> ActiveCall:
        """Create it in the caller's event loop, where its callbacks and those of the client run."""
        on_progress = [] if call.on_progress is None else [call.on_progress]
        if on_any_progress is not None:
            context = CallbackContext(server_name=call.server, tool_name=call.tool)
            on_progress.append(
                lambda progress, total, message: on_any_progress(progress, total, message, context)
            )
        return cls(
            call.server,
            call.tool,
            call.on_log and bridge.bind_callback(call.on_log),
            call.on_elicitation and bridge.bind_handler(call.on_elicitation),
            sample and bridge.bind_handler(sample),
            tuple(bridge.bind_callback(callback) for callback in on_progress),
        )


_current: ContextVar[ActiveCall | None] = ContextVar("plait_active_call", default=None)


class CallRouter:
    """Holds the calls in progress; lives in the loop that owns the connections."""

    def __init__(self, sessions_of: Callable[[McpSession], list[Session]] = lambda _: []) -> None:
        """Take what finds the session that a message came from, with its direct calls."""
        self._sessions_of = sessions_of
        self.paused_calls: PausedCalls | None = None
        self._active: list[ActiveCall] = []
        self._changed = asyncio.Event()
        self._unassigned: Counter[McpSession] = Counter()
        """By session, the elicitation requests whose call is not known yet."""

    @contextlib.contextmanager
    def active(
        self, call: ActiveCall, session: McpSession, deadline: Deadline | None = None
    ) -> Generator[None]:
        """Route what the server sends on the session to this call during the block.

        The deadline is paused while the caller answers an elicitation request.
        """
        call.session, call.deadline, call.abandoned = session, deadline, False
        call.is_underway = True
        call.ended.clear()
        self._active.append(call)
        token = _current.set(call)
        try:
            yield
        except BaseException:
            call.abandoned = True
            raise
        finally:
            _current.reset(token)
            call.is_underway = False
            call.ended.set()
            self._active.remove(call)
            self._notify()

    def dispatch_log(
        self, server: str, source: object, message: types.LoggingMessageNotificationParams
    ) -> bool:
        """Pass a log message to its call; return whether there is one that takes it.

        `source` is the connection that it came from, as `ActiveCall.source` has it.
        """
        call = _current.get()
        if call is None or call.server != server:
            here = [each for each in self._active if each.source is source]
            call = here[0] if len(here) == 1 and not self._direct_calls(here[0].session) else None
        if call is None or call.on_log is None:
            return False
        call.on_log(message)
        return True

    async def answer_elicitation(
        self,
        context: RequestContext,
        params: types.ElicitRequestParams,
        default: OnElicitation,
    ) -> types.ElicitResult | types.ErrorData:
        """Answer an elicitation request by the callback of its call, or by `default`."""
        call = _current.get()
        for possible in self._calls_on(context.session) if call is None else [call]:
            possible.has_elicited = True
        if call is None:
            call = await self._asking_call(context.session)
        if isinstance(call, HeldCall):
            with call.time_stopped():
                return await call.ask(context, params)
        if call is None or call.on_elicitation is None:
            return await default(context, params)
        if call.on_asked is not None:
            call.on_asked(context.session)
        clock = call.deadline.held() if call.deadline else contextlib.nullcontext()
        try:
            with clock, waiting_span("elicitation"):
                async with asyncio.timeout(None if call.pausing else ANSWER_TIMEOUT_SECONDS):
                    return await call.on_elicitation(context, params)
        except TimeoutError:
            logger.warning("%s/%s: elicitation was not answered in time", call.server, call.tool)
            return types.ElicitResult(action="cancel")

    async def _asking_call(self, session: McpSession) -> ActiveCall | HeldCall | None:
        """Find the call that a handshake-era request belongs to, which the request does not name.

        If several are possible, wait: a call that gets its response did not send it. A call that
        ends otherwise may have sent it, and then nobody may answer it.
        """
        possible: list[ActiveCall | DirectCall] = [
            *self._calls_on(session),
            *self._direct_calls(session),
        ]
        self._unassigned[session] += 1
        try:
            if not any(call.can_ask for call in possible):
                return None
            for call in possible:
                if isinstance(call, DirectCall):
                    call.call_at_end(self._notify)
            while not any(call.abandoned for call in possible):
                possible = [call for call in possible if call.is_underway]
                if not possible:
                    return None
                if len(possible) == 1:
                    (only,) = possible
                    if isinstance(only, ActiveCall):
                        return only
                    # A direct call goes on as a paused one.
                    return None if self.paused_calls is None else self.paused_calls.hold(only)
                if self._unassigned[session] >= len(possible):
                    logger.warning(
                        "%s sent an elicitation request that may belong to any of %d calls; "
                        "none of them answers it",
                        possible[0].server,
                        len(possible),
                    )
                    return None
                await self._changed.wait()
            return None
        finally:
            self._unassigned[session] -= 1
            if not self._unassigned[session]:
                del self._unassigned[session]

    def _direct_calls(self, session: McpSession | None) -> list[DirectCall]:
        return [
            DirectCall(request, one)
            for one in ([] if session is None else self._sessions_of(session))
            for request in list(one.wire.requests.values())
            if request.direct
        ]

    def _calls_on(self, session: McpSession) -> list[ActiveCall]:
        return [call for call in self._active if call.session is session]

    def _notify(self) -> None:
        if self._unassigned:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def calls_of(self, server: str, session: McpSession) -> list[ActiveCall]:
        """Return the calls that a request of a session may belong to: the current one, or all."""
        current = _current.get()
        if current is not None and current.server == server:
            return [current]
        return [call for call in self._calls_on(session) if call.server == server]


def with_schema_defaults(request: types.ElicitRequestParams, answer: T) -> T:
    """Fill in the fields of an accepted form that are missing and have a default."""
    if not isinstance(answer, types.ElicitResult) or answer.action != "accept":
        return answer
    if not isinstance(request, types.ElicitRequestFormParams):
        return answer
    fields: Mapping[str, Any] = request.requested_schema.get("properties") or {}
    content = dict(answer.content or {})
    for name, schema in fields.items():
        if name not in content and isinstance(schema, Mapping) and "default" in schema:
            content[name] = schema["default"]
    return answer.model_copy(update={"content": content})
