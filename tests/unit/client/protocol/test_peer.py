"""What the peer of a session makes of messages: answers, errors, notifications, questions."""

from __future__ import annotations

import asyncio
import contextvars
import json
from typing import Any

import pytest

from plait._support.redact import Redactor
from plait.client.protocol.exchange import PendingRequest
from plait.client.protocol.peer import RequestError
from plait.client.protocol.session import Callbacks, McpSession
from plait.client.transports.wire import Wire, receiving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(20)]

VERSION = "2025-11-25"
CALLER: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")


class Sent:
    """A sender that keeps what is delivered."""

    any_thread = False
    is_direct = True

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def send(self, body: bytes, request: PendingRequest) -> None:
        raise NotImplementedError

    async def deliver(self, body: bytes) -> None:
        self.messages.append(json.loads(body))

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        raise NotImplementedError


def _wire(ends: list[str] | None = None) -> Wire:
    told = ends if ends is not None else []
    return Wire("files", Redactor(), lambda: told.append("ended"))


def _pending(wire: Wire, number: int = 7, method: str = "tools/call") -> PendingRequest:
    request = wire.requests[number] = PendingRequest(method, number, VERSION)
    return request


def _message(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


def _result(number: object, result: object) -> bytes:
    return _message(id=number, result=result)


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
async def test_a_large_answer_of_a_handshake_is_refused_and_of_others_is_not(method: str) -> None:
    wire = _wire()
    handshake, request = _pending(wire, 1, method), _pending(wire)

    await wire.receive(_result(7, {"text": "x" * 2_000_000}))
    assert (request.answered, handshake.answered) == (True, False)
    assert list(wire.requests) == [1]
    await wire.receive(_result(1, {"instructions": "x" * 2_000_000}))

    reason = f"the server answered {method} with more than 1,048,576 bytes"
    assert str(handshake.fault) == reason


ERROR = {"code": -1, "message": "no", "data": [1]}


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("number", "outcome"),
    [
        (7, {"result": {"a": 1}}),
        ("7", {"result": {"a": 1}}),
        (7, {"error": ERROR}),
        *((other, {"result": {}}) for other in ("x", "", "-7", "7.0", "²", 8, "9" * 5000, None)),
    ],
)
async def test_an_answer_is_taken_by_its_request_or_dropped(
    number: object, outcome: dict[str, Any], at_once: bool
) -> None:
    ends: list[str] = []
    wire = _wire(ends)
    request = _pending(wire)
    is_own = number in {7, "7"}

    if at_once:
        assert wire.take_line(_message(id=number, **outcome)) is is_own
    else:
        await wire.receive(_message(id=number, **outcome))

    assert request.answered is is_own
    assert list(wire.requests) == [] if is_own else [7]
    assert (request.fault, ends) == (None, [])
    if is_own:
        assert request.message is not None
        assert request.message | outcome == request.message


@pytest.mark.parametrize("is_waiting", [True, False])
async def test_that_tools_have_changed_is_known_before_the_line_is_handled(
    is_waiting: bool,
) -> None:
    wire, known = _wire(), list[tuple[str, object]]()
    wire.on_notification = lambda method, params: known.append((method, params))
    if is_waiting:
        _pending(wire)

    assert not wire.take_line(_message(method="notifications/tools/list_changed"))
    assert not wire.take_line(_message(method="notifications/prompts/list_changed"))

    assert known == [("notifications/tools/list_changed", None)]


async def test_an_answer_that_comes_twice_counts_once() -> None:
    wire = _wire()
    request = _pending(wire)

    await wire.receive(_result(7, {"n": 1}) + _result(7, {"n": 2}))

    assert request.message is not None
    assert request.message["result"] == {"n": 1}


async def test_the_end_of_the_connection_is_explored_and_then_fails_what_waits() -> None:
    ends: list[str] = []
    wire = _wire(ends)
    request = _pending(wire)
    order: list[object] = []

    async def before_end() -> None:
        order.append(wire.ended)

    async def nothing_more() -> None:
        await wire.receive(b"")

    async with receiving(nothing_more, wire, before_end) as reading:
        await reading

        assert order == [False]
        assert ends == ["ended"]
        assert wire.end_reason == "the server closed the connection"
        assert isinstance(request.fault, RequestError)
        assert not request.answered


class Session:
    """A session whose server sends what a test says."""

    def __init__(self, **callbacks: Any) -> None:
        self.raw: list[tuple[str, object]] = []
        self.wire = _wire()
        self.sent = Sent()
        self.wire.use(self.sent)
        options = Callbacks(client_info={}, on_raw=self._note, **callbacks)
        self.session = McpSession(self.wire, options)

    def _note(self, method: str, params: object) -> None:
        self.raw.append((method, params))

    async def receive(self, **fields: Any) -> None:
        await self.wire.receive(_message(**fields))


async def test_some_notifications_are_passed_on_as_they_are_in_the_order_of_arrival() -> None:
    one = Session()

    await one.receive(method="notifications/cancelled", params={"requestId": 1})
    await one.receive(method="notifications/roots/list_changed")
    await one.receive(method="notifications/message", params={"level": "info", "data": "x"})
    await one.receive(method="notifications/tools/list_changed")

    assert one.raw == [
        ("notifications/cancelled", {"requestId": 1}),
        ("notifications/roots/list_changed", None),
        ("notifications/tools/list_changed", None),
    ]


async def test_callbacks_run_in_the_context_that_a_message_came_in() -> None:
    callers: asyncio.Queue[str] = asyncio.Queue()

    async def on_message(_notification: object) -> None:
        callers.put_nowait(CALLER.get())

    one = Session(on_message=on_message)
    context = contextvars.copy_context()
    context.run(CALLER.set, "ann")
    body = _message(method="notifications/tools/list_changed")

    await one.wire.receive(body, context=context)
    await one.wire.receive(body)

    assert [await callers.get() for _ in range(2)] == ["ann", "nobody"]


async def test_a_question_that_the_server_takes_back_is_not_answered() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def on_roots(_context: object) -> Any:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    one = Session(on_roots=on_roots)
    await one.receive(id="q", method="roots/list")
    await started.wait()
    await one.receive(method="notifications/cancelled", params={"requestId": "q"})
    await ended.wait()

    assert one.sent.messages == []
    assert one.wire.server_requests == {}


async def test_questions_get_their_id_back_as_it_was() -> None:
    one = Session()

    for number in (7, "7", "q"):
        await one.receive(id=number, method="ping")
    await one.receive(id=8, method="unknown/method")

    assert one.sent.messages == [
        *({"jsonrpc": "2.0", "id": number, "result": {}} for number in (7, "7", "q")),
        {
            "jsonrpc": "2.0",
            "id": 8,
            "error": {"code": -32601, "message": "Method not found", "data": "unknown/method"},
        },
    ]


async def test_a_callback_that_raises_is_answered_with_an_error() -> None:
    async def on_roots(_context: object) -> Any:
        raise LookupError("no folder")

    one = Session(on_roots=on_roots)
    await one.receive(id="q", method="roots/list")
    await asyncio.sleep(0)

    (answer,) = one.sent.messages
    assert answer["error"] == {"code": 0, "message": "no folder"}
