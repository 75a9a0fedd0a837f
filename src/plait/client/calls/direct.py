"""Direct calls: straight to the wire, where a call needs nothing but its request and response.

What does not depend on a single call is settled when a tool is listed. A direct call is the first
attempt of `ToolExecutor`, which also handles those that fail.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from plait._support import mcp_types as types
from plait._support.threads import calls_into
from plait.client.calls.call_budget import run_budgets
from plait.client.calls.call_routing import HeldCall
from plait.client.calls.outcome import ToolResult
from plait.client.calls.tool_call import (
    PausableRequest,
    SendRecorder,
    ToolCall,
    call_deadline,
    run_ends_at,
)
from plait.client.catalog.validation import Test, quick_test, validator_if_prepared
from plait.client.config.argument_readings import is_large
from plait.client.connections.connection import Answer
from plait.client.connections.error_mapping import lacks_back_channel
from plait.client.connections.operations import error_text
from plait.client.protocol.exchange import (
    PendingRequest,
    RequestExpiredError,
    RequestTemplate,
    Sender,
    wake,
)
from plait.client.protocol.headers import VERSION_HEADER, routing_headers
from plait.client.protocol.peer import closed
from plait.client.protocol.repair import is_plain_text, is_unfinished
from plait.client.protocol.results import read_aside, result_of
from plait.client.transports.wire import Wire
from plait.telemetry.spans import is_traced

if TYPE_CHECKING:
    from plait.client.calls.call_routing import Turn
    from plait.client.calls.executor import ToolExecutor
    from plait.client.catalog.listing import Listing
    from plait.client.catalog.tool import Tool
    from plait.client.config.policy import Policy
    from plait.client.connections.session import Session

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
