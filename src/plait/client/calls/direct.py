"""Direct calls: straight to the wire, where a call needs nothing but its request and response.

What does not depend on a single call is settled when a tool is listed. Everything special takes
the way of `ToolExecutor`, and so does a direct call that fails: it counts as the first attempt.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import anyio
from pydantic_core import PydanticSerializationError, to_json

from plait._support import mcp_types as types
from plait._support.loops import calls_into, running_loop
from plait._support.threads import import_once
from plait.client.calls.call_budget import run_budgets
from plait.client.calls.outcome import ToolResult, output_schema_notes
from plait.client.calls.tool_call import (
    FirstAttempt,
    PausableCall,
    PausableRequest,
    ToolCall,
    call_deadline,
    run_ends_at,
)
from plait.client.catalog.validation import (
    SchemaValidator,
    prepare,
    validator_for_schema,
    validator_if_prepared,
)
from plait.client.config.argument_readings import is_large
from plait.client.connections.error_mapping import lacks_back_channel
from plait.client.connections.operations import error_text
from plait.client.protocol.exchange import (
    PendingRequest,
    RequestExpiredError,
    RequestTemplate,
    Sender,
    wake,
)
from plait.client.protocol.peer import closed
from plait.client.protocol.repair import is_unfinished
from plait.client.protocol.requests import PROTOCOL_VERSION_HEADER, read_aside, result_of
from plait.client.transports.wire import Wire
from plait.errors import ToolFailedError
from plait.traces.observer import CallTool, Observer, observe
from plait.traces.spans import is_traced

if TYPE_CHECKING:
    from plait.client.catalog.listing import Listing
    from plait.client.catalog.tool import Tool
    from plait.client.config.policy import Policy
    from plait.client.connections.session import Session
    from plait.client.runtime import Lifecycle, Runtime

logger = logging.getLogger("plait.client.calls")

METHOD = "tools/call"
_GRACE_SECONDS = 2.0
"""How much longer than its limit a blocking call waits for the loop of the connections."""


@dataclass(frozen=True, slots=True)
class CallPlan:
    """What the calls of one tool have in common while it is listed like this."""

    tool: Tool
    arguments: SchemaValidator | None
    """Checks the arguments; `None` if they are not checked."""
    policy: Policy | None
    by_hints: bool
    """Whether the policy decides by the annotations of the tool, which must be current."""
    timeout_seconds: float
    cap_seconds: float
    observers: Sequence[Observer]


@dataclass(frozen=True, slots=True)
class _Head:
    """The request of a tool on one session, but for its id and arguments."""

    template: RequestTemplate
    parts: tuple[bytes, bytes, bytes]
    headers: Mapping[str, str]

    def body(self, request_id: int, arguments: bytes) -> bytes:
        number = b"%d" % request_id
        start, token, rest = self.parts
        return b"".join((start, number, token, number, rest, arguments, b"}}"))


class DirectTool:
    """Makes the direct calls of one tool; used from any thread and any event loop."""

    def __init__(
        self, server: str, name: str, lifecycle: Lifecycle, may_be_direct: Callable[[str], bool]
    ) -> None:
        """Take the tool; `may_be_direct` says whether the configuration of a server allows it."""
        self._server, self._name = server, name
        self._key = (server, "")
        self._lifecycle = lifecycle
        self._may_be_direct = may_be_direct
        self._runtime: Runtime | None = None
        self._listing: Listing | None = None
        self._plan: CallPlan | None = None
        self._head: _Head | None = None
        self._proven: Session | None = None

    @property
    def has_observers(self) -> bool:
        """Whether observers of the client see the calls, in the context of their caller."""
        return bool(self._lifecycle.runtime.executor.settings.observers)

    async def call(
        self, arguments: Mapping[str, Any], *, pausable: PausableCall | None = None
    ) -> FirstAttempt | None:
        """Make a call and wait for its outcome; `None` if it has to take the long way.

        `pausable` is set if the caller pauses while the user answers an elicitation.
        """
        prepared = self._prepared(arguments, pausable=pausable)
        if prepared is None and (schema := self._uncompiled()) is not None:
            await prepare(schema)
            prepared = self._prepared(arguments, pausable=pausable)
        if prepared is None:
            return None
        attempt, body, owner = prepared
        if pausable is not None:
            await pausable.send()
        request = attempt.request
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        request.wake = partial(wake, woken)
        if loop is not owner:
            request.wake = partial(calls_into(loop).call, request.wake)
        self._send(attempt, body, owner, is_owner=loop is owner)
        try:
            await woken
        except asyncio.CancelledError as cancelled:
            self._abandon(attempt, owner, cancelled)
            raise
        return self._ended(attempt, owner)

    def call_blocking(
        self, arguments: Mapping[str, Any], *, pausable: PausableCall | None = None
    ) -> FirstAttempt | None:
        """Do what `call` does, and block until it is done."""
        prepared = self._prepared(arguments, pausable=pausable)
        if prepared is None and (schema := self._uncompiled()) is not None:
            validator_for_schema(schema)
            prepared = self._prepared(arguments, pausable=pausable)
        if prepared is None:
            return None
        attempt, body, owner = prepared
        if running_loop() is owner:
            return None  # the long way explains why this cannot be
        if pausable is not None:
            pausable.send_blocking()
        done = Lock()
        done.acquire()
        attempt.request.wake = done.release
        self._send(attempt, body, owner, is_owner=False)
        request, wire = attempt.request, attempt.session.wire
        try:
            while not done.acquire(timeout=_GRACE_SECONDS + max(0.0, _seconds_left(request))):
                if _seconds_left(request) < -_GRACE_SECONDS:
                    # The loop that should have ended it does not run.
                    wire.requests.pop(request.request_id, None)
                    request.fail(RequestExpiredError())
        except BaseException as interrupt:  # Ctrl-C
            self._abandon(attempt, owner, interrupt)
            raise
        return self._ended(attempt, owner)

    def _prepared(
        self, arguments: Mapping[str, Any], *, pausable: PausableCall | None
    ) -> tuple[FirstAttempt, bytes, asyncio.AbstractEventLoop] | None:
        """Return the call with its request, if it needs nothing else."""
        plan, runtime = self._current_plan(), self._lifecycle.runtime
        if plan is None or runtime.executor.log_levels:
            return None
        keeper = runtime.pool.connections[self._server].keeper
        session = keeper.ready_session
        if session is None or session.holders:
            return None
        if plan.by_hints and not self._is_current(keeper.generation):
            return None
        wire = session.wire
        template = wire.template
        if wire.sender is None or not wire.sender.is_direct or template is None:
            return None
        if run_ends_at.get() is not None or run_budgets.get() or is_traced():
            return None
        may_be_held = (
            pausable is not None
            and template.version not in types.version.MODERN_PROTOCOL_VERSIONS
            and runtime.elicits
        )
        if may_be_held and (plan.observers or not self._is_known_not_to_ask(runtime)):
            return None  # the server may ask in the middle of the call
        if plan.arguments is not None and not plan.arguments.surely_accepts(arguments):
            return None
        if plan.policy is not None and not _surely_allows(plan.policy, plan.tool, arguments):
            return None
        try:
            encoded = to_json(arguments, inf_nan_mode="null")
        except (PydanticSerializationError, ValueError, RecursionError):
            return None
        head = self._head
        if head is None or head.template is not template:
            head = self._head = _head(self._name, template)
        now = time.monotonic()
        request_id = wire.next_request_id()
        if may_be_held and pausable is not None:
            call = ToolCall(server=self._server, tool=self._name, pause=pausable.pause)
            request = PausableRequest(METHOD, request_id, template.version, call=call)
        else:
            request = PendingRequest(METHOD, request_id, template.version)
        request.direct = True
        request.headers = head.headers
        request.timeout_seconds = plan.timeout_seconds
        request.expires_at = now + plan.timeout_seconds
        request.latest = now + plan.cap_seconds
        observation = ExitStack() if plan.observers else None
        attempt = FirstAttempt(plan.tool, session, request, now, observation)
        return attempt, head.body(request_id, encoded), session.loop

    def _is_known_not_to_ask(self, runtime: Runtime) -> bool:
        """Return whether calls of the tool have ended, none of which asked the user anything."""
        paused_calls = runtime.executor.router.paused_calls
        return (
            paused_calls is not None and paused_calls.turns.asks(self._server, self._name) is False
        )

    def _current_plan(self) -> CallPlan | None:
        runtime = self._lifecycle.runtime
        current, outdated = runtime.catalog.lists
        listing = current.get(self._key) or outdated.get(self._key)
        if listing is not self._listing or runtime is not self._runtime:
            self._plan = None
        if self._plan is None:
            self._listing, self._runtime = listing, runtime
            if self._may_be_direct(self._server):
                self._plan = plan_for(runtime, self._server, self._name)
        return self._plan

    def _uncompiled(self) -> Mapping[str, Any] | None:
        """Return the schema of the tool if its first call has to compile it."""
        runtime = self._lifecycle.runtime
        if self._plan is not None or not runtime.executor.settings.validate_arguments:
            return None
        tool = runtime.catalog.known(self._server, self._name)
        if tool is None or validator_if_prepared(tool.wire_schema) is not None:
            return None
        return tool.wire_schema

    def _is_current(self, generation: int) -> bool:
        """Return whether the tool is listed in this session, and no change was announced since."""
        listing = self._lifecycle.runtime.catalog.lists[0].get(self._key)
        return listing is not None and listing.holds(generation, time.monotonic())

    def _send(
        self,
        attempt: FirstAttempt,
        body: bytes,
        owner: asyncio.AbstractEventLoop,
        *,
        is_owner: bool,
    ) -> None:
        """Write the request; `is_owner` means that the loop of the connections runs here."""
        request, wire = attempt.request, attempt.session.wire
        if attempt.observation is not None and self._plan is not None:
            operation = CallTool(server=self._server, tool=self._name, attempt=1)
            attempt.observation.enter_context(observe(self._plan.observers, operation))
        sender = wire.sender
        wire.requests[request.request_id] = request
        if owner.is_closed():
            sender = None
        try:
            wire.expire(request, owner)
            if sender is not None and (sender.any_thread or is_owner):
                _write(wire, sender, body, request)
            elif sender is not None:
                write = partial(_write, wire, sender, body, request)
                calls_into(owner).call(partial(copy_context().run, write))
        except RuntimeError:
            sender = None  # the loop of the connections has ended
        if sender is None or wire.sender is None:  # it was closed meanwhile
            wire.requests.pop(request.request_id, None)
            request.fail(closed())

    def _abandon(
        self, attempt: FirstAttempt, owner: asyncio.AbstractEventLoop, error: BaseException
    ) -> None:
        """Tell the server that the caller does not wait any more."""
        request, wire = attempt.request, attempt.session.wire
        if attempt.observation is not None:
            attempt.observation.__exit__(type(error), error, error.__traceback__)
        if wire.requests.pop(request.request_id, None) is None:
            return
        with suppress(RuntimeError):
            owner.call_soon_threadsafe(wire.cancel, request)
            owner.call_soon_threadsafe(wire.check_drained)
            owner.call_soon_threadsafe(request.fail, closed())

    def _ended(self, attempt: FirstAttempt, owner: asyncio.AbstractEventLoop) -> FirstAttempt:
        session, request = attempt.session, attempt.request
        session.last_used = time.monotonic()
        if attempt.observation is not None:
            _end_observation(attempt.observation, (request.message or {}).get("result"))
        if session is not self._proven and request.message is not None:
            self._proven = session
            connection = self._lifecycle.runtime.pool.connections.get(self._server)
            if connection is not None:
                with suppress(RuntimeError):  # the loop of the connections has ended
                    owner.call_soon_threadsafe(connection.keeper.mark_proven)
        return attempt


def _end_observation(observation: ExitStack, result: Mapping[str, Any] | None) -> None:
    """End the observation of a call with a result; one without a result goes on."""
    if result is None:
        return
    if result.get("isError") is True:
        failed = ToolFailedError("the tool reported a failure")
        observation.__exit__(ToolFailedError, failed, None)
    else:
        observation.close()


def plan_for(runtime: Runtime, server: str, name: str) -> CallPlan | None:
    """Plan the calls of a tool; `None` if each of them needs more than a request."""
    connection = runtime.pool.connections.get(server)
    tool = runtime.catalog.known(server, name)
    if connection is None or tool is None or connection.concurrency.limited:
        return None
    if runtime.catalog.is_guarded or runtime.catalog.refusal(server, name) is not None:
        return None
    executor = runtime.executor
    if tool.override is not None or tool.mirrors_arguments or not executor.may_be_direct():
        return None
    arguments = None
    if executor.settings.validate_arguments:
        arguments = validator_if_prepared(tool.wire_schema)
        if arguments is None:
            return None  # the first call compiles it
    call = ToolCall(server=server, tool=name)
    deadline = call_deadline(call, connection.server.timeouts, executor.settings.default_seconds)
    check, observers = executor.settings.policy_check, executor.settings.observers
    return CallPlan(
        tool,
        arguments,
        check.policy,
        check.uses_hints,
        deadline.seconds,
        deadline.cap_seconds,
        observers,
    )


async def result_of_direct(call: ToolCall, attempt: FirstAttempt) -> ToolResult | None:
    """Return the result of a direct call; `None` if the call has to go on."""
    request = attempt.request
    if request.message is None or "error" in request.message:
        return None
    parsed = await read_aside(request, _parsed)
    if parsed is None:
        return None
    attempt.session.wire.note_repairs(request)
    notes = request.notes
    if parsed.is_error and lacks_back_channel(error_text(parsed)):
        return None
    if attempt.tool.output_schema is not None:
        left = request.expires_at - time.monotonic()
        deviations = await output_schema_notes(attempt.tool, parsed, left)
        for note in deviations:
            logger.warning("%s: %s", call.where, note)
        notes += deviations
    seconds = time.monotonic() - attempt.began
    return ToolResult.from_mcp(
        call.server, call.tool, parsed, attempts=1, notes=notes, seconds=seconds
    )


def _parsed(request: PendingRequest) -> types.CallToolResult | None:
    """Return a result that is one of a finished call."""
    result = result_of(request)
    if is_unfinished(result, request.version):
        return None
    return types.CallToolResult.model_validate(result, by_name=False)


def _head(name: str, template: RequestTemplate) -> _Head:
    meta = to_json(dict(template.meta))[1:-1]
    fields = meta + b"," if meta else b""
    start = b'{"jsonrpc":"2.0","id":'
    token = b',"method":"tools/call","params":{"_meta":{' + fields + b'"progressToken":'
    rest = b'},"name":' + to_json(name) + b',"arguments":'
    return _Head(template, (start, token, rest), _headers(name, template))


def _headers(name: str, template: RequestTemplate) -> dict[str, str]:
    if template.protocol_header is None:
        return {}
    headers = {PROTOCOL_VERSION_HEADER: template.protocol_header}
    if template.version in types.version.MODERN_PROTOCOL_VERSIONS:
        import_once("mcp.shared.inbound")
        from mcp.shared import inbound  # noqa: PLC0415  # imports the SDK

        headers[inbound.MCP_METHOD_HEADER] = METHOD
        headers[inbound.MCP_NAME_HEADER] = inbound.encode_header_value(name)
    return headers


def _seconds_left(request: PendingRequest) -> float:
    return request.expires_at - time.monotonic()


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


def _surely_allows(policy: Policy, tool: Tool, arguments: Mapping[str, Any]) -> bool:
    return not is_large(arguments) and policy.decide(tool, arguments).verdict == "allow"
