"""Runs one tool call: checks, attempts, retries and the fallback server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from plait._support import mcp_types as types
from plait._support.gather import resolve
from plait._support.loops import running_loop
from plait.client.calls.approval import PolicyCheck, hints_of
from plait.client.calls.arguments import argument_error_text, prepare_in_bounded_time
from plait.client.calls.call_budget import RunCounters
from plait.client.calls.call_routing import (
    ActiveCall,
    CallRouter,
    ElicitationTurns,
    PausedCalls,
    Sample,
)
from plait.client.calls.direct import Convert, DirectAttempt, DirectTool, result_of_direct
from plait.client.calls.fallback import BeforeFallback, has_not_run, may_fall_back
from plait.client.calls.outcome import (
    ToolResult,
    mark_harmless,
    output_schema_notes,
    retry_reason,
)
from plait.client.calls.paused_call import PausedCall
from plait.client.calls.result_cache import ResultCache, ResultCaching, caller_of
from plait.client.calls.tool_call import (
    OnAnyProgress,
    PausableRequest,
    ToolCall,
    call_deadline,
    progress_callback,
    within_run,
)
from plait.client.catalog.catalog import ToolCatalog, not_offered
from plait.client.catalog.overrides import arguments_for_fallback
from plait.client.catalog.validation import prepare
from plait.client.config.timing import Timeouts
from plait.client.connections.connection import ATTEMPTS, may_retry, pause_before_retry
from plait.client.connections.deadline import HASTY
from plait.client.connections.operations import call_tool, is_modern, is_refused
from plait.errors import (
    CallTimeoutError,
    ConnectionLostError,
    InvalidArgumentsError,
    PermissionDeniedError,
    PlaitError,
    ToolFailedError,
    ToolNotFoundError,
)
from plait.traces.observer import CallTool, Observer, observe
from plait.traces.spans import (
    SPANS,
    TOOL_ERROR,
    add_event,
    captures_content,
    error_type,
    is_set_up,
    is_traced,
    tool_span,
)

if TYPE_CHECKING:
    from plait.client.catalog.tool import Tool
    from plait.client.config.budgets import CallBudget
    from plait.client.connections.connection import Answer, ServerConnection
    from plait.client.connections.deadline import Deadline
    from plait.client.connections.loop_bridge import LoopBridge
    from plait.client.connections.pool import ConnectionPool
    from plait.client.protocol.session import McpSession

logger = logging.getLogger("plait.client.calls")

_SHORT_SECONDS = 0.1
_MOST_DECISIONS = 3
"""How often a call is decided about, while the hints of its tool change."""
_MAX_DIRECT_TOOLS = 1000
"""How many tools keep what their direct calls have in common."""

T = TypeVar("T")


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
        self._uncached: set[str] = set()
        """Servers whose results are not cached, which was logged."""
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
        converted = attempt.converted(convert)
        return await self._continued(call, attempt) if converted is None else converted

    def run_blocking(self, call: ToolCall, convert: Convert[T] | None = None) -> ToolResult | T:
        """Do what `run` does, and block until it is done."""
        direct = self.direct_tool(call.server, call.tool)
        here = running_loop()
        is_owner = here is not None and here is self._bridge.running_loop()
        attempt = None if is_owner else direct.prepare(call)
        if attempt is None or self.settings.observers:
            return self._bridge.run_blocking(self.run, call, convert)
        direct.make_blocking(attempt, call.recorder)
        converted = attempt.converted(convert)
        if converted is not None:
            return converted
        return self._bridge.run_blocking(self._continued, call, attempt)

    async def _continued(self, call: ToolCall, attempt: DirectAttempt) -> ToolResult:
        """Return the result of a call whose first attempt is made."""
        result = await result_of_direct(call, attempt)
        return await self.run_attempts(call, attempt) if result is None else result

    async def run_attempts(self, call: ToolCall, first: DirectAttempt | None = None) -> ToolResult:
        """Permit the call and attempt it until there is a result, an error, or no time left.

        `first` is permitted, and perhaps already made.
        """
        async with within_run(call):
            if not is_traced():
                return await self._run(call, first)
            with _span_of(call) as details:
                return _described(await self._run(call, first), details)

    async def _run(self, call: ToolCall, first: DirectAttempt | None) -> ToolResult:
        """Permit, attempt, classify; then retry, fall back, or raise."""
        primary: tuple[PlaitError, Tool | None] | None = None
        """The error and the tool of the first server, while its fallback is called."""
        decisions = 0
        while True:
            # A call that was sent is not checked again: a failure would say that it has not run.
            tool, permitted = None if first is None else first.tool, call
            try:
                if first is None:
                    tool = await self._recall(call)
                    if primary is not None:
                        permitted = await self._for_fallback(call, tool, primary[1])
                    self._check_offered(call)
                    permitted = await self._permitted(permitted, tool)
                elif self.settings.policy_check.policy is not None:
                    # Another attempt meets the tool as it is then.
                    permitted = replace(call, decided_hints=first.tool.annotations)
                if self.results is None or first is not None:
                    return await self._run_on_server(permitted, tool, first)
                return await self._run_cached(permitted, tool, self.results)
            except PlaitError as error:
                if primary is not None:
                    if not has_not_run(error):
                        raise  # it may have run there, which the caller must know
                    logger.warning("the fallback server failed too: %s", error)
                    primary[0].add_note(f"the fallback server failed too: {error}")
                    raise primary[0] from error
                first, decisions = None, decisions + 1
                if isinstance(error, _HintsChangedError) and decisions < _MOST_DECISIONS:
                    logger.info("%s", error)
                    continue
                fallback = await self._fallback_call(permitted, tool, error)
                if fallback is None:
                    raise
                logger.warning("%s; calling %s instead", error, fallback.server)
                call, primary = fallback, (error, tool)

    async def _run_cached(
        self, call: ToolCall, tool: Tool | None, results: ResultCache
    ) -> ToolResult:
        if not results.caches(tool):
            return await self._run_on_server(call, tool)
        caller = await caller_of(call, self.pool[call.server].server)
        if caller is None:
            if call.server not in self._uncached:
                self._uncached.add(call.server)
                logger.warning(
                    "%s: results are not cached, as its auth object may act for several users; "
                    "make `auth` a function of the run",
                    call.server,
                )
            return await self._run_on_server(call, tool)
        if (cached := results.get(call, tool, caller=caller)) is not None:
            return cached
        changes = results.changes(call.server)
        active = ActiveCall.of(call, self._bridge, self._sample)
        result = await self._run_on_server(call, tool, active=active)
        # The answers of this user are no part of the key, and those of another are others.
        if call.input_answers is None and not active.has_elicited:
            results.put(call, tool, result, since=changes, caller=caller)
        return result

    async def run_local(
        self, call: ToolCall, tool: Tool, function: Callable[[ToolCall], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Make a call of a function of the program, under the rules for calls of servers."""
        if not is_set_up():
            return await self._run_local(call, tool, function)
        with _span_of(call, kind="function") as details:
            return _described(await self._run_local(call, tool, function), details)

    async def _run_local(
        self, call: ToolCall, tool: Tool, function: Callable[[ToolCall], Awaitable[ToolResult]]
    ) -> ToolResult:
        began = time.monotonic()
        async with within_run(call):
            call = await self._permitted(call, tool)
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
        return replace(result, seconds=time.monotonic() - began)

    async def _recall(self, call: ToolCall) -> Tool | None:
        if self.catalog.is_guarded:
            # Before the arguments are checked, which only the locked schema can do.
            await self._bridge.run(self.catalog.approve, call.server, call.tool, call.access)
        if self.settings.policy_check.uses_hints:
            current = self.catalog.current
            tool, _ = await self._bridge.run(current, call.server, call.tool, call.access)
            return tool
        known = self.catalog.known(call.server, call.tool, call.access)
        if known is not None:
            return known
        return await self._bridge.run(self.catalog.recall, call.server, call.tool, call.access)

    async def _run_on_server(
        self,
        call: ToolCall,
        tool: Tool | None,
        first: DirectAttempt | None = None,
        active: ActiveCall | None = None,
    ) -> ToolResult:
        """Attempt a permitted call on its server, again where that cannot run it twice."""
        active = active or ActiveCall.of(call, self._bridge, self._sample)
        client_wide = progress_callback(self.settings.on_progress, call.server, call.tool)
        callbacks = [each for each in (call.on_progress, client_wide) if each is not None]
        active.on_progress = tuple(self._bridge.bind_callback(each) for each in callbacks)
        began = time.monotonic() if first is None else first.began
        observers = (*self.settings.observers, SPANS) if is_traced() else self.settings.observers
        attempt = 0
        try:
            with self._runs.counted(call):
                if call.recorder is not None:
                    await call.recorder.send()
                while True:
                    attempt += 1
                    operation = CallTool(server=call.server, tool=call.tool, attempt=attempt)
                    try:
                        with observe(observers, operation):
                            if first is not None and not first.is_made:
                                await self.direct_tool(call.server, call.tool).make(first, None)
                            answer = await self._bridge.run(
                                self._attempt, call, tool, active, first
                            )
                            if observers and answer.value.is_error:
                                raise _ReportedFailure(answer)
                        break
                    except _ReportedFailure as failed:
                        answer = failed.answer
                        break
                    except PlaitError as error:
                        pause = self._pause_before_retry(call, tool, error, attempt, began)
                        if pause is None:
                            error.attempts = attempt
                            if tool is not None and tool.read_only:
                                mark_harmless(error)
                            raise
                        logger.info("calling %s again after: %s", call.where, retry_reason(error))
                        details = {"error.type": error_type(error), "attempt": attempt}
                        add_event("plait.retry", details)
                        await asyncio.sleep(pause)
                        first = None
        finally:
            if self.results is not None and (tool is None or not tool.read_only):
                # The call may have changed what was read before, also if its answer was lost.
                self.results.forget(call.server)
        notes: tuple[str, ...] = ()
        if tool is not None:
            left = self._seconds_of(call) - (time.monotonic() - began)
            notes = await output_schema_notes(tool, answer.value, left)
        for note in notes:
            logger.warning("%s: %s", call.where, note)
        return ToolResult.from_mcp(
            call.server,
            call.tool,
            answer.value,
            attempts=attempt,
            notes=(*answer.notes, *notes),
            seconds=time.monotonic() - began,
        )

    async def _attempt(
        self, call: ToolCall, tool: Tool | None, active: ActiveCall, first: DirectAttempt | None
    ) -> Answer[types.CallToolResult]:
        """Make one attempt, in the loop of the connections, or go on with a direct one."""
        connection = self.pool.connection(call.server, call.access)
        with connection.used():
            deadline = self._deadline(call, connection)
            active.source = connection.keeper.options
            send = partial(self._send, call, tool, connection, deadline, active, first)
            if first is not None:
                if first.held is not None:
                    return await self.paused_calls.outcome(call, first.held)
                if is_refused(first.request):
                    raise connection.failure_of(first.session, first.request, deadline, call.tool)
                if not isinstance(first.request, PausableRequest):
                    return await send()
            else:
                may_ask = call.pause is not None or call.on_elicitation is not None
                if not may_ask or not await self._elicits_during_calls(call, connection, deadline):
                    return await send()
            if call.pause is None:
                if connection.keeper.transport == "http":  # requests come in the stream of a call
                    return await send()
                async with self.turns.taken(call, active, connection):
                    return await send()

            async def send_paused(paused: PausedCall) -> Answer[types.CallToolResult]:
                active.on_elicitation, active.pausing = paused.ask, True
                bare = replace(call, input_answers=None, pause=None)
                return await self._send(bare, tool, connection, deadline, active, first)

            idempotent = _is_idempotent(tool)
            return await self.paused_calls.run(call, send_paused, idempotent=idempotent)

    async def _elicits_during_calls(
        self, call: ToolCall, connection: ServerConnection, deadline: Deadline
    ) -> bool:
        """Say whether the server sends elicitation requests, as opposed to results that ask."""
        if self.paused_calls.has(call):
            return True
        session = await connection.keeper.wait_for_session(deadline.patience, unreserved=True)
        return not is_modern(session.client)

    async def _send(
        self,
        call: ToolCall,
        tool: Tool | None,
        connection: ServerConnection,
        deadline: Deadline,
        active: ActiveCall,
        first: DirectAttempt | None = None,
    ) -> Answer[types.CallToolResult]:
        approved = None
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

        async def operation(client: McpSession) -> types.CallToolResult:
            if approved not in (None, self.catalog.version(call.server, call.access)):
                # It waited for its turn, and the tools may be others than those that were checked.
                text = "the server was restarted, or changed its tools, before the call was sent"
                raise call.error(ConnectionLostError, text)
            meta: types.RequestParamsMeta | None = None
            if is_modern(client) and (level := self.log_levels.get(call.server)) is not None:
                meta = {types.LOG_LEVEL_META_KEY: level}
            with self.router.active(active, client.session, deadline):
                return await call_tool(
                    client,
                    call.tool,
                    call.arguments,
                    mirrored=tool is not None and tool.mirrors_arguments,
                    on_progress=on_progress,
                    meta=meta,
                    answers=call.input_answers,
                    hand_back=call.pause is not None,
                    first=None if first is None else first.request,
                )

        return await connection.request(operation, deadline, method="tools/call", tool=call.tool)

    def _pause_before_retry(
        self, call: ToolCall, tool: Tool | None, error: PlaitError, attempt: int, began: float
    ) -> float | None:
        """Return the seconds to wait before the next attempt, or `None` if there must be none."""
        if attempt >= ATTEMPTS or not may_retry(error, idempotent=_is_idempotent(tool)):
            return None
        limit = self._deadline(call, self.pool[call.server]).seconds
        return pause_before_retry(error, limit - (time.monotonic() - began))

    def _deadline(self, call: ToolCall, connection: ServerConnection) -> Deadline:
        timeouts = connection.server.timeouts
        deadline = call_deadline(call, timeouts, self.settings.default_seconds)
        if call.server in self.settings.fallbacks:
            deadline.patience = HASTY  # there is another server to call
        return deadline

    def _check_offered(self, call: ToolCall) -> None:
        reason = self.catalog.refusal(call.server, call.tool, call.access)
        if reason is not None:
            raise not_offered(call.server, call.tool, reason)

    async def _permitted(self, call: ToolCall, tool: Tool | None) -> ToolCall:
        """Return the call with valid arguments, if the policy permits it."""
        call = await self._with_valid_arguments(await self.settings.policy_check.own(call), tool)
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

    async def _fallback_call(
        self, call: ToolCall, tool: Tool | None, error: PlaitError
    ) -> ToolCall | None:
        """Return the call to make on the fallback server, if there is one and it may be used."""
        server = self.settings.fallbacks.get(call.server)
        if server is None or not may_fall_back(error, idempotent=_is_idempotent(tool)):
            return None
        before_fallback = self.settings.before_fallback
        if before_fallback is not None and await resolve(before_fallback(error, call)) is False:
            return None
        # Credentials and decisions are for the first server only.
        return replace(call, server=server, access=None, instead_of=call.server, decided_hints=None)

    async def _for_fallback(
        self, call: ToolCall, tool: Tool | None, primary: Tool | None
    ) -> ToolCall:
        """Return the call with the arguments that the tool of the fallback server takes."""
        if tool is None:
            raise ToolNotFoundError(
                f"{call.server} has no tool {call.tool!r}", server=call.server, tool=call.tool
            )
        # What overrides hide is for one server: it may be secret, or not for the model to set.
        context = call.override_context or call
        arguments = await arguments_for_fallback(tool, call.arguments, primary, context)
        return replace(call, arguments=arguments)


def _is_idempotent(tool: Tool | None) -> bool:
    return tool is not None and tool.idempotent


def _span_of(
    call: ToolCall, kind: str = "extension"
) -> contextlib.AbstractContextManager[dict[str, Any]]:
    arguments = partial(_as_json, call)
    return tool_span(call.server, call.tool, arguments, call_id=call.call_id, kind=kind)


def _described(result: ToolResult, details: dict[str, Any]) -> ToolResult:
    """Add a result to the details of its span, and return it."""
    if result.is_error:
        details["error.type"] = TOOL_ERROR
    if captures_content():
        details["gen_ai.tool.call.result"] = result.text
    return result


def _as_json(call: ToolCall) -> str:
    return json.dumps(dict(call.arguments), default=str, ensure_ascii=False)
