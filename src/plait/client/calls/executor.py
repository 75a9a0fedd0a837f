"""Runs one tool call: checks, attempts, retries and the fallback server.

The first attempt is direct, straight to the wire, where a call needs nothing but its request and
response. What does not depend on a single call is settled when a tool is listed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from plait._support import mcp_types as types
from plait._support.gather import resolve
from plait._support.threads import calls_into, running_loop
from plait.client.calls.approval import PolicyCheck, hints_of
from plait.client.calls.arguments import argument_error_text, prepare_in_bounded_time
from plait.client.calls.call_budget import RunCounters, run_budgets
from plait.client.calls.call_routing import (
    ActiveCall,
    CallRouter,
    ElicitationTurns,
    HeldCall,
    PausedCall,
    PausedCalls,
    Sample,
)
from plait.client.calls.failures import (
    BeforeFallback,
    has_not_run,
    mark_harmless,
    may_fall_back,
    retry_reason,
)
from plait.client.calls.outcome import ToolResult, output_schema_notes
from plait.client.calls.result_cache import ResultCache, ResultCaching, ResultSlot
from plait.client.calls.tool_call import (
    OnAnyProgress,
    PausableRequest,
    SendRecorder,
    ToolCall,
    call_deadline,
    run_ends_at,
    within_run,
)
from plait.client.catalog.catalog import ToolCatalog, not_offered
from plait.client.catalog.overrides import arguments_for_fallback
from plait.client.catalog.validation import Test, prepare, quick_test, validator_if_prepared
from plait.client.config.argument_readings import is_large
from plait.client.config.servers import Timeouts
from plait.client.connections.connection import ATTEMPTS, Answer, may_retry, pause_before_retry
from plait.client.connections.deadline import HASTY
from plait.client.connections.error_mapping import lacks_back_channel
from plait.client.connections.operations import call_tool, error_text, is_modern, is_refused
from plait.client.protocol.exchange import (
    PendingRequest,
    RequestExpiredError,
    RequestTemplate,
    Sender,
    wake,
)
from plait.client.protocol.headers import VERSION_HEADER, routing_headers
from plait.client.protocol.peer import closed
from plait.client.protocol.read_results import read_aside, result_of
from plait.client.protocol.repair import is_plain_text, is_unfinished
from plait.client.transports.wire import Wire
from plait.errors import (
    CallTimeoutError,
    ConnectionLostError,
    InvalidArgumentsError,
    PermissionDeniedError,
    PlaitError,
    ToolFailedError,
    ToolNotFoundError,
)
from plait.telemetry.observer import CallTool, Observer, observe
from plait.telemetry.spans import (
    SPANS,
    TOOL_ERROR,
    add_event,
    captures_content,
    error_type,
    is_traced,
    tool_span,
    waiting_span,
)

if TYPE_CHECKING:
    from plait.client.calls.call_routing import Turn
    from plait.client.catalog.listing import Listing
    from plait.client.catalog.tool import Tool
    from plait.client.config.budgets import CallBudget
    from plait.client.config.policy import Policy
    from plait.client.connections.connection import ConnectionPool, ServerConnection
    from plait.client.connections.deadline import Deadline
    from plait.client.connections.loop_bridge import LoopBridge
    from plait.client.connections.session_keeper import Session
    from plait.client.protocol.session import McpSession

T = TypeVar("T")

Convert = Callable[[Mapping[str, Any], str, float], T | None]
"""Converts a result as the server sent it, of a protocol version and an attempt begun then."""

METHOD = "tools/call"
_MAX_TEXTS = 500
"""A result of more blocks is converted in a thread, not where somebody looks at its content."""
_GRACE_SECONDS = 2.0
"""How much longer than its limit a blocking call waits for the loop of the connections."""


@dataclass(frozen=True, slots=True)
class CallPlan:
    """What the calls of one tool have in common while it is listed like this."""

    tool: Tool
    accepts: Test | None
    """Says whether arguments are surely valid; `None` if they are not checked."""
    policy: Policy | None
    by_hints: bool
    """Whether the policy decides by the annotations of the tool, which must be current."""
    timeout_seconds: float
    cap_seconds: float


class _Head:
    """The request of a tool on one session, but for its id and arguments."""

    def __init__(self, name: str, template: RequestTemplate) -> None:
        self.template = template
        meta = to_json(dict(template.meta))[1:-1]
        fields = meta + b"," if meta else b""
        self._start = b'{"jsonrpc":"2.0","id":'
        self._token = b',"method":"tools/call","params":{"_meta":{' + fields + b'"progressToken":'
        self._rest = b'},"name":' + to_json(name) + b',"arguments":'
        self.headers: dict[str, str] = {}
        if template.protocol_header is not None:
            self.headers[VERSION_HEADER] = template.protocol_header
            if template.version in types.version.MODERN_PROTOCOL_VERSIONS:
                self.headers |= routing_headers(METHOD, {"name": name})

    def body(self, request_id: int, arguments: bytes) -> bytes:
        number = b"%d" % request_id
        return b"".join((self._start, number, self._token, number, self._rest, arguments, b"}}"))


@dataclass(slots=True, eq=False)
class DirectAttempt:
    """A direct call: it is permitted, and only its request is to be sent."""

    tool: Tool
    session: Session
    request: PendingRequest
    body: bytes
    began: float
    """When it was prepared, on the monotonic clock."""
    turn: Turn | None = None
    """What keeps other calls from asking meanwhile, if the server may ask in the middle of it."""
    is_made: bool = False

    @property
    def result(self) -> Mapping[str, Any] | None:
        """The result of the response, as the server sent it."""
        return None if self.request.message is None else self.request.message.get("result")

    def converted_result(self, convert: Convert[T]) -> T | None:
        """Return what a caller makes of the result; `None` if that is left to this package."""
        if (result := self.result) is None:
            return None
        return convert(result, self.request.version, self.began)

    def text_result(self) -> ToolResult | None:
        """Return the result if it is nothing but text, and nothing about it is to be checked."""
        request, result = self.request, self.result
        if result is None or request.notes or self.tool.output_schema is not None:
            return None
        if result.get("isError") or not is_plain_text(result, request.version):
            return None
        if len(result["content"]) > _MAX_TEXTS:
            return None
        seconds = time.monotonic() - self.began
        return ToolResult.of_text(self.tool.server, self.tool.wire_name, result, seconds=seconds)

    @property
    def held_call(self) -> HeldCall | None:
        """The paused call as which it goes on, if the server asked the user something."""
        paused = self.request.paused if isinstance(self.request, PausableRequest) else None
        return paused if isinstance(paused, HeldCall) else None


class DirectTool:
    """Makes the direct calls of one tool; used from any thread and any event loop."""

    def __init__(self, server: str, name: str, executor: ToolExecutor) -> None:
        self._server, self._name = server, name
        self._key = (server, "")
        self._executor = executor
        self._pool, self._catalog = executor.pool, executor.catalog
        self._listing: Listing | None = None
        self._plan: CallPlan | None = None
        self._head: _Head | None = None
        self._proven: Session | None = None

    async def make(self, attempt: DirectAttempt, recorder: SendRecorder | None) -> None:
        """Send the request, and wait until it has an outcome, or the server asks something."""
        request, owner = attempt.request, attempt.session.loop
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        request.wake = partial(wake, woken)
        if loop is not owner:
            request.wake = partial(calls_into(loop).call, request.wake)
        try:
            if recorder is not None:
                await recorder.send()
            self._send(attempt, is_owner=loop is owner)
            await woken
        except asyncio.CancelledError:
            self._abandon(attempt)
            raise
        finally:
            if attempt.turn is not None:
                self._end_turn(attempt, attempt.turn)
        self._note_end(attempt)

    def make_blocking(self, attempt: DirectAttempt) -> None:
        """Do what `make` does, and block until it is done."""
        request, wire = attempt.request, attempt.session.wire
        done = Lock()
        done.acquire()
        request.wake, request.blocks = done.release, True
        try:
            self._send(attempt, is_owner=False)
            left = request.expires_at - time.monotonic()
            while not done.acquire(timeout=_GRACE_SECONDS + max(0.0, left)):
                left = request.expires_at - time.monotonic()
                if left < -_GRACE_SECONDS:
                    # The loop that should have ended it does not run.
                    wire.requests.pop(request.request_id, None)
                    request.fail(RequestExpiredError())
        except BaseException:  # Ctrl-C
            self._abandon(attempt)
            raise
        finally:
            if attempt.turn is not None:
                self._end_turn(attempt, attempt.turn)
        self._note_end(attempt)

    def _end_turn(self, attempt: DirectAttempt, turn: Turn) -> None:
        """Let other calls ask; one that has asked has its session to itself."""
        if attempt.result is not None and isinstance(attempt.request, PausableRequest):
            self._executor.turns.learn(attempt.request.call, elicited=False)
        turn.release()

    def prepare(self, call: ToolCall) -> DirectAttempt | None:
        """Return the attempt with its request, if the call needs nothing else."""
        plan, executor = self.plan, self._executor
        if plan is None or not call.is_plain or executor.log_levels:
            return None
        connection = self._pool.connections[self._server]
        keeper = connection.keeper
        session = keeper.ready_session
        if session is None or session.holders:
            return None
        if not session.loop.is_running():
            return None  # nobody would read the answer, or end the wait for it
        if plan.by_hints:
            # The tool must be listed in this session, and no change announced since.
            listing = self._catalog.lists[0].get(self._key)
            if listing is None or not listing.holds(keeper.generation, time.monotonic()):
                return None
        wire = session.wire
        template = wire.template
        if wire.sender is None or not wire.sender.is_direct or template is None:
            return None
        if run_ends_at.get() is not None or run_budgets.get() or is_traced():
            return None
        may_be_held = (
            call.pause is not None
            and template.version not in types.version.MODERN_PROTOCOL_VERSIONS
            and keeper.options.on_elicitation is not None
        )
        if may_be_held and (executor.settings.observers or executor.paused_calls.has(call)):
            return None
        arguments = call.arguments
        if plan.accepts is not None and not plan.accepts(arguments):
            return None
        # Deciding about large arguments may take long, so the executor does it in a thread.
        if plan.policy is not None and (
            is_large(arguments) or plan.policy.decide(plan.tool, arguments).verdict != "allow"
        ):
            return None
        try:
            encoded = to_json(arguments, inf_nan_mode="null")
        except (PydanticSerializationError, ValueError, RecursionError):
            return None
        head = self._head
        if head is None or head.template is not template:
            head = self._head = _Head(self._name, template)
        turn = executor.turns.turn_of(call, connection)[0] if may_be_held else None
        if turn is not None and not turn.claim():
            return None  # it waits for another call that may ask
        now = time.monotonic()
        request_id = wire.next_request_id()
        request = (
            PausableRequest(METHOD, request_id, template.version, call=call)
            if may_be_held
            else PendingRequest(METHOD, request_id, template.version)
        )
        request.direct = True
        request.headers = head.headers
        request.timeout_seconds = plan.timeout_seconds
        request.expires_at = now + plan.timeout_seconds
        request.latest = now + plan.cap_seconds
        body = head.body(request_id, encoded)
        return DirectAttempt(plan.tool, session, request, body, now, turn)

    @property
    def plan(self) -> CallPlan | None:
        """What its calls have in common; `None` if each of them needs more than a request."""
        current, outdated = self._catalog.lists
        listing = current.get(self._key) or outdated.get(self._key)
        if listing is not self._listing:
            self._plan = None
        if self._plan is None:
            self._listing = listing
            self._plan = self._make_plan()
        return self._plan

    def _make_plan(self) -> CallPlan | None:
        executor, catalog = self._executor, self._catalog
        connection = self._pool.connections.get(self._server)
        tool = catalog.known(self._server, self._name)
        if connection is None or tool is None or connection.concurrency.limited:
            return None
        if catalog.is_guarded or catalog.refusal(self._server, self._name) is not None:
            return None
        if tool.override is not None or tool.mirrors_arguments or not executor.may_be_direct():
            return None
        accepts = None
        if executor.settings.validate_arguments:
            accepts = quick_test(tool.wire_schema)
            if accepts is None and (known := validator_if_prepared(tool.wire_schema)) is not None:
                accepts = known.surely_accepts
            if accepts is None:
                return None  # the first call compiles it
        call = ToolCall(server=self._server, tool=self._name)
        timeouts, default = connection.server.timeouts, executor.settings.default_seconds
        deadline = call_deadline(call, timeouts, default)
        check = executor.settings.policy_check
        return CallPlan(
            tool, accepts, check.policy, check.uses_hints, deadline.seconds, deadline.cap_seconds
        )

    def uncompiled(self) -> Mapping[str, Any] | None:
        """Return the schema of the tool if its first call has to compile it."""
        if self._plan is not None or not self._executor.settings.validate_arguments:
            return None
        tool = self._catalog.known(self._server, self._name)
        if tool is None or validator_if_prepared(tool.wire_schema) is not None:
            return None
        return tool.wire_schema

    def _send(self, attempt: DirectAttempt, *, is_owner: bool) -> None:
        """Write the request; `is_owner` means that the loop of the connections runs here."""
        attempt.is_made = True
        request, wire, owner = attempt.request, attempt.session.wire, attempt.session.loop
        sender = wire.sender
        wire.requests[request.request_id] = request
        if owner.is_closed():
            sender = None
        try:
            wire.expire(request, owner)
            if sender is not None and (sender.any_thread or is_owner):
                _write(wire, sender, attempt.body, request)
            elif sender is not None:
                write = partial(_write, wire, sender, attempt.body, request)
                calls_into(owner).call(partial(copy_context().run, write))
        except RuntimeError:
            sender = None  # the loop of the connections has ended
        if sender is None or wire.sender is None:  # it was closed meanwhile
            wire.requests.pop(request.request_id, None)
            request.fail(closed())

    def _abandon(self, attempt: DirectAttempt) -> None:
        """Tell the server that the caller does not wait any more."""
        request, wire, owner = attempt.request, attempt.session.wire, attempt.session.loop
        if wire.requests.pop(request.request_id, None) is None:
            return
        with suppress(RuntimeError):
            owner.call_soon_threadsafe(wire.cancel, request)
            owner.call_soon_threadsafe(wire.check_drained)
            owner.call_soon_threadsafe(request.fail, closed())

    def _note_end(self, attempt: DirectAttempt) -> None:
        session = attempt.session
        session.last_used = time.monotonic()
        if session is self._proven or attempt.request.message is None:
            return
        self._proven = session
        connection = self._pool.connections.get(self._server)
        if connection is not None:
            with suppress(RuntimeError):  # the loop of the connections has ended
                session.loop.call_soon_threadsafe(connection.keeper.mark_proven)


async def answer_of_direct(attempt: DirectAttempt) -> Answer[types.CallToolResult] | None:
    """Return the result of a direct call; `None` if the call has to go on."""
    request = attempt.request
    if attempt.result is None:
        return None

    def parsed(request: PendingRequest) -> types.CallToolResult | None:
        result = result_of(request)
        if is_unfinished(result, request.version):
            return None
        return types.CallToolResult.model_validate(result, by_name=False)

    try:
        result = await read_aside(request, parsed)
    except ValidationError:
        return None
    if result is None or (result.is_error and lacks_back_channel(error_text(result))):
        return None
    attempt.session.wire.note_repairs(request)
    return Answer(result, request.notes)


def _write(wire: Wire, sender: Sender, body: bytes, request: PendingRequest) -> None:
    if request.request_id not in wire.requests:
        return  # the caller was cancelled, or the session closed, before it was written
    try:
        if wire.sender is not sender:
            raise anyio.ClosedResourceError  # another thread may be failing it as not sent
        sender.send(body, request)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        wire.requests.pop(request.request_id, None)
        request.fail(closed())


logger = logging.getLogger("plait.client.calls")

_SHORT_SECONDS = 0.1
"""Checking arguments for so long takes nothing from the time of the call."""
_MAX_DECISIONS = 3
"""How often a call is decided about, while the hints of its tool change."""
_MAX_DIRECT_TOOLS = 1000
"""How many tools keep what their direct calls have in common."""


class _HintsChangedError(PermissionDeniedError):
    """The tool of a call is not listed as it was when the call was permitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSettings:
    """The options of a client that concern its calls."""

    default_seconds: float | None = None
    validate_arguments: bool = True
    fallbacks: Mapping[str, str] = field(default_factory=dict[str, str])
    """The fallback server of each server that has one."""
    before_fallback: BeforeFallback | None = None
    result_caching: ResultCaching | None = None
    call_budget: CallBudget | None = None
    tool_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Timeouts by tool, for the functions of the program; servers have their own."""
    observers: Sequence[Observer] = ()
    on_progress: OnAnyProgress | None = None
    """Gets the progress of every call, in addition to the callback of the call."""
    policy_check: PolicyCheck = field(default_factory=PolicyCheck)


class _ReportedFailure(ToolFailedError):  # noqa: N818
    """Ends the observation of a call that its tool reports as failed."""

    def __init__(self, answer: Answer[types.CallToolResult]) -> None:
        super().__init__("the tool reported a failure")
        self.answer = answer


@dataclass(slots=True, eq=False)
class _ServerCall:
    """A call on one server, from its permission to its last attempt."""

    call: ToolCall
    first: DirectAttempt | None = None
    """The direct attempt, until it has failed."""
    tool: Tool | None = None
    active: ActiveCall = field(init=False)
    began: float = 0.0
    attempts: int = 0
    failure: PlaitError | None = None
    """Why its fallback is called instead."""
    slot: ResultSlot | None = None
    """The place of the result in the cache; `None` if it is not cached."""

    @property
    def is_idempotent(self) -> bool:
        return self.tool is not None and self.tool.idempotent


class ToolExecutor:
    """Runs calls in the caller's loop, and each attempt in the loop that owns the connections."""

    def __init__(
        self,
        pool: ConnectionPool,
        catalog: ToolCatalog,
        bridge: LoopBridge,
        settings: CallSettings | None = None,
        *,
        router: CallRouter | None = None,
        sample: Sample | None = None,
    ) -> None:
        """Take the parts; `sample` answers sampling requests, if servers may make them."""
        self.pool = pool
        self.catalog = catalog
        self._bridge = bridge
        self._direct_tools: dict[tuple[str, str], DirectTool] = {}
        self.settings = settings or CallSettings()
        caching = self.settings.result_caching
        self.results = None if caching is None else ResultCache(caching)
        self.log_levels: dict[str, types.LoggingLevel] = {}
        """The lowest level of log messages that a server sends during calls, where it was set."""
        self.router = router or CallRouter()
        self._sample = sample
        self.turns = ElicitationTurns()
        self.paused_calls = self.router.paused_calls = PausedCalls(pool, self.turns)
        self._runs = RunCounters(self.settings.call_budget)

    def direct_tool(self, server: str, tool: str) -> DirectTool:
        """Return what makes the direct calls of a tool."""
        key = (server, tool)
        direct = self._direct_tools.get(key)
        if direct is None:
            if len(self._direct_tools) >= _MAX_DIRECT_TOOLS:
                self._direct_tools.clear()
            direct = self._direct_tools[key] = DirectTool(server, tool, self)
        return direct

    def may_be_direct(self) -> bool:
        """Return whether calls need nothing that only this class does."""
        settings = self.settings
        return (
            not self.log_levels
            and self._sample is None
            and self.results is None
            and settings.call_budget is None
            and settings.on_progress is None
        )

    async def run(self, call: ToolCall, convert: Convert[T] | None = None) -> ToolResult | T:
        """Make the call, and retry it where that cannot run it twice.

        The first attempt is direct if the call needs nothing but its request and response.
        `convert` may convert the result of that attempt, as the server sent it, in place of this
        method; it returns `None` if it cannot.
        """
        direct = self.direct_tool(call.server, call.tool)
        attempt = direct.prepare(call)
        if attempt is None and (schema := direct.uncompiled()) is not None:
            await prepare(schema)
            attempt = direct.prepare(call)
        if attempt is None or self.settings.observers:
            return await self.run_attempts(call, attempt)
        await direct.make(attempt, call.recorder)
        converted = attempt.converted_result(convert) if convert else attempt.text_result()
        return await self._continue(call, attempt) if converted is None else converted

    def run_blocking(self, call: ToolCall, convert: Convert[T] | None = None) -> ToolResult | T:
        """Do what `run` does, and block until it is done."""
        direct = self.direct_tool(call.server, call.tool)
        here = running_loop()
        is_owner = here is not None and here is self._bridge.running_loop()
        attempt = None if is_owner or call.recorder is not None else direct.prepare(call)
        if attempt is None or self.settings.observers:
            return self._bridge.run_blocking(self.run, call, convert)
        direct.make_blocking(attempt)
        converted = attempt.converted_result(convert) if convert else attempt.text_result()
        if converted is not None:
            return converted
        return self._bridge.run_blocking(self._continue, call, attempt)

    async def _continue(self, call: ToolCall, attempt: DirectAttempt) -> ToolResult:
        """Return the result of a call whose first attempt is made."""
        answer = await answer_of_direct(attempt)
        if answer is None:
            return await self.run_attempts(call, attempt)
        made = _ServerCall(call, tool=attempt.tool, began=attempt.began, attempts=1)
        return await self._result(made, answer, attempt.request.expires_at)

    async def run_attempts(self, call: ToolCall, first: DirectAttempt | None = None) -> ToolResult:
        """Do what `run` does, with the first attempt if there is one.

        `first` is permitted, and perhaps already made.
        """
        async with within_run(call):
            if not is_traced():
                return await self._run(call, first)
            with _span_of(call) as details:
                return _with_details(await self._run(call, first), details)

    async def _run(self, call: ToolCall, first: DirectAttempt | None) -> ToolResult:
        """Permit, attempt, classify; then retry, fall back, or raise."""
        current, decisions = _ServerCall(call, first), 0
        primary: _ServerCall | None = None
        """The call on the first server, while its fallback is called."""
        with ExitStack() as budget:
            while True:
                try:
                    # A retry is of the same permitted call, and counts once.
                    if not current.attempts:
                        await self._permit(current, primary)
                        if self.results is not None and current.first is None:
                            server = self.pool[current.call.server].server
                            current.slot = await self.results.slot_of(
                                current.call, current.tool, server
                            )
                            cached = current.slot and self.results.get(current.slot)
                            if cached is not None:
                                return cached
                        budget.enter_context(self._runs.counted(current.call))
                        if current.call.recorder is not None:
                            await current.call.recorder.send()
                    answer = await self._attempt(current)
                    break
                except PlaitError as error:
                    if (pause := self._pause_before_retry(current, error)) is not None:
                        logger.info("calling %s again after: %s", call.where, retry_reason(error))
                        details = {"error.type": error_type(error), "attempt": current.attempts}
                        add_event("plait.retry", details)
                        await asyncio.sleep(pause)
                        current.first = None
                        continue
                    if current.attempts:
                        error.attempts = current.attempts
                        if current.tool is not None and current.tool.read_only:
                            mark_harmless(error)
                    if primary is not None and primary.failure is not None:
                        if not has_not_run(error):
                            raise  # it may have run there, which the caller must know
                        logger.warning("the fallback server failed too: %s", error)
                        primary.failure.add_note(f"the fallback server failed too: {error}")
                        raise primary.failure from error
                    decisions += 1
                    if isinstance(error, _HintsChangedError) and decisions < _MAX_DECISIONS:
                        logger.info("%s", error)
                        current = _ServerCall(call)
                        continue
                    fallback = await self._fallback_call(current, error)
                    if fallback is None:
                        raise
                    logger.warning("%s; calling %s instead", error, fallback.server)
                    current.failure = error
                    call, current, primary = fallback, _ServerCall(fallback), current
        result = await self._result(current, answer, current.began + self._seconds_of(current.call))
        # The answers of this user are no part of the cache's key, and those of another are others.
        asked = current.call.input_answers is not None or current.active.has_elicited
        if self.results is not None and current.slot is not None and not asked:
            self.results.put(current.slot, result)
        return result

    async def _permit(self, current: _ServerCall, primary: _ServerCall | None) -> None:
        """Look the tool up, and check and permit the call; or raise why it must not be made."""
        settings, call, first = self.settings, current.call, current.first
        if first is None:
            tool = current.tool = await self._recall(call)
            if primary is not None:
                if tool is None:
                    text = f"{call.server} has no tool {call.tool!r}"
                    raise ToolNotFoundError(text, server=call.server, tool=call.tool)
                # What overrides hide is for one server: it may be secret, or not for the model.
                context = call.override_context or call
                arguments = await arguments_for_fallback(
                    tool, call.arguments, primary.tool, context
                )
                call = replace(call, arguments=arguments)
            reason = self.catalog.refusal(call.server, call.tool, call.access)
            if reason is not None:
                raise not_offered(call.server, call.tool, reason)
            current.call = await self._permitted_call(call, tool)
        else:
            # A call that was sent is not checked again: a failure would say that it has not run.
            current.tool = first.tool
            if settings.policy_check.policy is not None:
                # Another attempt meets the tool as it is then.
                current.call = replace(call, decided_hints=first.tool.annotations)
        current.active = ActiveCall.of(
            current.call, self._bridge, self._sample, settings.on_progress
        )
        current.began = time.monotonic() if first is None else first.began

    async def _attempt(self, current: _ServerCall) -> Answer[types.CallToolResult]:
        """Make one attempt under the observers."""
        call, first = current.call, current.first
        current.attempts += 1
        operation = CallTool(server=call.server, tool=call.tool, attempt=current.attempts)
        observers = (*self.settings.observers, SPANS) if is_traced() else self.settings.observers
        try:
            with observe(observers, operation):
                if first is not None and not first.is_made:
                    await self.direct_tool(call.server, call.tool).make(first, None)
                answer = await self._bridge.run(self._send_in_turn, current)
                if observers and answer.value.is_error:
                    raise _ReportedFailure(answer)
                return answer
        except _ReportedFailure as failed:
            return failed.answer
        finally:
            if self.results is not None and (current.tool is None or not current.tool.read_only):
                # The call may have changed what was read before, also if its answer was lost.
                self.results.forget(call.server)

    async def _send_in_turn(self, current: _ServerCall) -> Answer[types.CallToolResult]:
        """Send a call in the loop of the connections, or go on with a direct one.

        Calls on a server that may ask something in the middle of them take turns.
        """
        call, first = current.call, current.first
        connection = self.pool.connection(call.server, call.access)
        with connection.used():
            deadline = call_deadline(
                call, connection.server.timeouts, self.settings.default_seconds
            )
            if call.server in self.settings.fallbacks:
                deadline.patience = HASTY  # there is another server to call
            current.active.source = connection.keeper.options
            send = partial(self._send, current, connection=connection, deadline=deadline)
            if first is not None:
                if first.held_call is not None:
                    return await self.paused_calls.outcome(call, first.held_call)
                if is_refused(first.request):
                    raise connection.failure_of(first.session, first.request, deadline, call.tool)
                if not isinstance(first.request, PausableRequest):
                    return await send(call)
            elif call.pause is None and call.on_elicitation is None:
                return await send(call)
            elif not self.paused_calls.has(call):
                keeper, patience = connection.keeper, deadline.patience
                session = await keeper.wait_for_session(patience, unreserved=True)
                if is_modern(session.client):  # it asks by its result
                    return await send(call)
            if call.pause is None:
                if connection.keeper.transport == "http":  # requests come in the stream of a call
                    return await send(call)
                async with self.turns.in_turn(call, current.active, connection):
                    return await send(call)

            async def send_paused(paused: PausedCall) -> Answer[types.CallToolResult]:
                current.active.on_elicitation, current.active.pausing = paused.ask, True
                return await send(replace(call, input_answers=None, pause=None))

            return await self.paused_calls.run(call, send_paused, idempotent=current.is_idempotent)

    async def _send(
        self,
        current: _ServerCall,
        call: ToolCall,
        *,
        connection: ServerConnection,
        deadline: Deadline,
    ) -> Answer[types.CallToolResult]:
        approved, active, tool, first = None, current.active, current.tool, current.first
        if self.catalog.is_guarded:
            approved = await self.catalog.approve(call.server, call.tool, call.access)
        if call.decided_hints is not None and first is None:
            listed, version = await self.catalog.current(call.server, call.tool, call.access)
            approved = approved or version
            if hints_of(listed) != call.decided_hints:
                text = "its annotations changed after the call was permitted. It was not sent."
                raise call.error(_HintsChangedError, text)

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            deadline.extend()
            for callback in active.on_progress:
                callback(progress, total, message)

        async def answer_all(requests: types.InputRequests) -> types.InputResponses:
            answer = call.on_input
            with deadline.held(), waiting_span("elicitation"):
                return {} if answer is None else await answer(requests)

        async def operation(client: McpSession) -> types.CallToolResult:
            if approved not in (None, self.catalog.version(call.server, call.access)):
                # It waited for its turn, and the tools may be others than those that were checked.
                text = "the server was restarted, or changed its tools, before the call was sent"
                raise call.error(ConnectionLostError, text)
            meta = dict(call.meta or {})
            if is_modern(client) and (level := self.log_levels.get(call.server)) is not None:
                meta[types.LOG_LEVEL_META_KEY] = level
            with self.router.active(active, client.session, deadline):
                return await call_tool(
                    client,
                    call.tool,
                    call.arguments,
                    mirrored=tool is not None and tool.mirrors_arguments,
                    on_progress=on_progress,
                    meta=cast("types.RequestParamsMeta", meta) if meta else None,
                    answers=call.input_answers,
                    hand_back=call.pause is not None,
                    answer_all=None if call.on_input is None else answer_all,
                    visits_urls=call.visits_urls,
                    first=None if first is None else first.request,
                )

        return await connection.request(operation, deadline, method="tools/call", tool=call.tool)

    def _pause_before_retry(self, current: _ServerCall, error: PlaitError) -> float | None:
        """Return the seconds to wait before the next attempt, or `None` if there must be none."""
        if not 0 < current.attempts < ATTEMPTS or not may_retry(
            error, idempotent=current.is_idempotent
        ):
            return None
        left = self._seconds_of(current.call) - (time.monotonic() - current.began)
        return pause_before_retry(error, left)

    async def _fallback_call(self, current: _ServerCall, error: PlaitError) -> ToolCall | None:
        """Return the call to make on the fallback server, if there is one and it may be used."""
        settings = self.settings
        server = settings.fallbacks.get(current.call.server)
        if server is None or not may_fall_back(error, idempotent=current.is_idempotent):
            return None
        if settings.before_fallback is not None:
            allowed = await resolve(settings.before_fallback(error, current.call))
            if allowed is False:
                return None
        # Credentials and decisions are for the first server only.
        return replace(
            current.call,
            server=server,
            access=None,
            instead_of=current.call.server,
            decided_hints=None,
        )

    async def _result(
        self, current: _ServerCall, answer: Answer[types.CallToolResult], ends_at: float
    ) -> ToolResult:
        """Return the result of a call, checked by the output schema of its tool."""
        notes: tuple[str, ...] = ()
        if current.tool is not None and current.tool.output_schema is not None:
            left = ends_at - time.monotonic()
            notes = await output_schema_notes(current.tool, answer.value, left)
        for note in notes:
            logger.warning("%s: %s", current.call.where, note)
        return ToolResult.from_mcp(
            current.call.server,
            current.call.tool,
            answer.value,
            attempts=current.attempts,
            notes=(*answer.notes, *notes),
            seconds=time.monotonic() - current.began,
        )

    async def run_local(
        self, call: ToolCall, tool: Tool, function: Callable[[ToolCall], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Make a call of a function of the program, under the rules for calls of servers."""
        began = time.monotonic()
        span = _span_of(call, kind="function") if is_traced() else nullcontext(dict[str, Any]())
        with span as details:
            async with within_run(call):
                call = await self._permitted_call(call, tool)
                timeouts = Timeouts(tool_seconds=self.settings.tool_seconds)
                deadline = call_deadline(call, timeouts, self.settings.default_seconds)
                with self._runs.counted(call):
                    if call.recorder is not None:
                        await call.recorder.send()
                    try:
                        async with deadline:
                            result = await function(call)
                    except TimeoutError as error:
                        if not deadline.expired:
                            raise
                        text = f"no result within {deadline.seconds:g} s; it may still be running"
                        raise call.error(CallTimeoutError, text) from error
            return _with_details(replace(result, seconds=time.monotonic() - began), details)

    async def _recall(self, call: ToolCall) -> Tool | None:
        catalog, names = self.catalog, (call.server, call.tool, call.access)
        if catalog.is_guarded:
            # Before the arguments are checked, which only the locked schema can do.
            await self._bridge.run(catalog.approve, *names)
        if self.settings.policy_check.uses_hints:
            tool, _ = await self._bridge.run(catalog.current, *names)
            return tool
        return catalog.known(*names) or await self._bridge.run(catalog.recall, *names)

    async def _permitted_call(self, call: ToolCall, tool: Tool | None) -> ToolCall:
        """Return the call with valid arguments, if the policy permits it."""
        call = await self._with_valid_arguments(
            await self.settings.policy_check.with_own_arguments(call), tool
        )
        permitted = await self.settings.policy_check.permit(call, tool)
        if permitted.arguments is call.arguments:
            return permitted
        # The repair of arguments that a person edited must not lead to a call that is denied.
        repaired = await self._with_valid_arguments(permitted, tool)
        await self.settings.policy_check.check(repaired, tool)
        return repaired

    async def _with_valid_arguments(self, call: ToolCall, tool: Tool | None) -> ToolCall:
        if tool is None or not self.settings.validate_arguments:
            return call
        began, limit = time.monotonic(), self._seconds_of(call)
        validator = await prepare(tool.wire_schema)
        prepared = await prepare_in_bounded_time(
            validator, call.arguments, tool=tool.name, seconds=limit
        )
        if prepared.problems:
            text = argument_error_text(tool.name, prepared.problems)
            raise InvalidArgumentsError(text, server=call.server, tool=call.tool)
        for change in prepared.changes:
            logger.debug("%s: %s", call.where, change)
        spent = time.monotonic() - began
        if spent > _SHORT_SECONDS:  # the check is a part of the time of the call
            call = replace(call, spent_seconds=min(spent, max(limit - _SHORT_SECONDS, 0.0)))
        if prepared.arguments is call.arguments:
            return call
        return replace(call, arguments=prepared.arguments)

    def _seconds_of(self, call: ToolCall) -> float:
        """Return the time of a call, also of one of a function of the program."""
        timeouts = Timeouts(tool_seconds=self.settings.tool_seconds)
        if call.server in self.pool.connections:
            timeouts = self.pool[call.server].server.timeouts
        return call_deadline(call, timeouts, self.settings.default_seconds).seconds


def _span_of(call: ToolCall, kind: str = "extension") -> AbstractContextManager[dict[str, Any]]:
    def arguments() -> str:
        return json.dumps(dict(call.arguments), default=str, ensure_ascii=False)

    return tool_span(call.server, call.tool, arguments, call_id=call.call_id, kind=kind)


def _with_details(result: ToolResult, details: dict[str, Any]) -> ToolResult:
    """Add a result to the details of its span, and return it."""
    if result.is_error:
        details["error.type"] = TOOL_ERROR
    if captures_content():
        details["gen_ai.tool.call.result"] = result.text
    return result
