"""The tapped streams: requests are noted on the way out, answers repaired on the way in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from plait._support.redact import Redactor
from plait.client.protocol.exchange import Exchange, current_exchange, watched_exchanges
from plait.client.transports.open import TappedRead, TappedWrite
from plait.client.transports.wire import Wire

pytestmark = pytest.mark.anyio

Incoming = SessionMessage | Exception


class _Ends:
    """Both tapped ends, and the far ends a test talks to."""

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.wire = Wire("files", Redactor(), lambda: self.ends.append("ended"))
        to_server: tuple[MemoryObjectSendStream[SessionMessage], Any]
        to_server = anyio.create_memory_object_stream[SessionMessage](10)
        from_server: tuple[Any, MemoryObjectReceiveStream[Incoming]]
        from_server = anyio.create_memory_object_stream[Incoming](10)
        self.sent = to_server[1]
        self.server = from_server[0]
        self.write = TappedWrite(to_server[0], self.wire)
        self.read = TappedRead(from_server[1], self.wire)


@asynccontextmanager
async def _tapped() -> AsyncGenerator[_Ends]:
    ends = _Ends()
    async with ends.read, ends.write, ends.sent, ends.server:
        yield ends


@pytest.fixture
async def tapped() -> AsyncIterator[_Ends]:
    async with _tapped() as ends:
        yield ends


def _request(
    number: int, method: str = "tools/call", meta: dict[str, Any] | None = None
) -> SessionMessage:
    params = {"_meta": meta} if meta else None
    return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params))


def _response(number: int | str, result: dict[str, Any]) -> SessionMessage:
    return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=number, result=result))


def _result(item: Incoming) -> dict[str, Any]:
    assert isinstance(item, SessionMessage)
    assert isinstance(item.message, JSONRPCResponse)
    return item.message.result


async def test_a_request_is_noted_before_it_is_sent(tapped: _Ends) -> None:
    with watched_exchanges() as seen:
        await tapped.write.send(_request(7))

    assert seen.last is tapped.wire.pending[7]
    assert seen.last == Exchange("tools/call", 7, "2025-11-25")
    assert (await tapped.sent.receive()).message == _request(7).message


async def test_the_transport_sees_the_exchange_it_is_sending() -> None:
    seen: list[Exchange | None] = []

    class _Transport:
        async def send(self, item: SessionMessage, /) -> None:
            del item
            seen.append(current_exchange())

    wire = Wire("files", Redactor(), lambda: None)
    transport: Any = _Transport()

    await TappedWrite(transport, wire).send(_request(1))

    assert seen == [wire.pending[1]]
    assert current_exchange() is None


async def test_the_version_is_the_one_the_request_was_sent_under(tapped: _Ends) -> None:
    await tapped.write.send(_request(1, meta={PROTOCOL_VERSION_META_KEY: "2026-07-28"}))
    await tapped.write.send(_request(2, meta={PROTOCOL_VERSION_META_KEY: 5}))

    assert tapped.wire.pending[1].version == "2026-07-28"
    assert tapped.wire.pending[2].version == "2025-11-25"


async def test_notifications_and_answers_are_not_waited_for(tapped: _Ends) -> None:
    note = JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")

    with watched_exchanges() as seen:
        await tapped.write.send(SessionMessage(note))
        await tapped.write.send(_response(1, {}))

    assert tapped.wire.pending == {}
    assert seen.all == []


async def test_a_cancelled_request_is_no_longer_waited_for(tapped: _Ends) -> None:
    await tapped.write.send(_request(7))
    cancelled = JSONRPCNotification(
        jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 7}
    )

    await tapped.write.send(SessionMessage(cancelled))

    assert tapped.wire.pending == {}


async def test_an_answer_is_repaired_and_its_notes_are_kept(tapped: _Ends) -> None:
    await tapped.write.send(_request(7))
    exchange = tapped.wire.pending[7]
    await tapped.server.send(_response(7, {"content": "bare"}))

    result = _result(await tapped.read.receive())

    assert result == {"content": [{"type": "text", "text": "bare"}]}
    assert exchange.answered
    assert len(exchange.notes) == 2
    assert tuple(tapped.wire.notes) == exchange.notes
    assert tapped.wire.pending == {}


async def test_an_id_that_comes_back_as_text_is_known(tapped: _Ends) -> None:
    await tapped.write.send(_request(7))
    exchange = tapped.wire.pending[7]
    await tapped.server.send(_response("7", {"content": []}))

    await tapped.read.receive()

    assert exchange.answered


@pytest.mark.parametrize("strange", ["x", "", "-7", "7.0", "²", 8])
async def test_an_answer_to_nothing_passes_untouched(tapped: _Ends, strange: int | str) -> None:
    await tapped.write.send(_request(7))
    await tapped.server.send(_response(strange, {"content": "bare"}))

    assert _result(await tapped.read.receive()) == {"content": "bare"}
    assert list(tapped.wire.pending) == [7]


async def test_an_id_of_thousands_of_digits_does_not_end_the_session(tapped: _Ends) -> None:
    await tapped.server.send(_response("9" * 5000, {"content": "bare"}))

    assert _result(await tapped.read.receive()) == {"content": "bare"}


async def test_an_error_answer_settles_its_request(tapped: _Ends) -> None:
    await tapped.write.send(_request(7))
    exchange = tapped.wire.pending[7]
    error = JSONRPCError(jsonrpc="2.0", id=7, error=ErrorData(code=-1, message="no"))
    await tapped.server.send(SessionMessage(error))

    await tapped.read.receive()

    assert exchange.answered
    assert exchange.notes == ()


async def test_requests_and_exceptions_of_the_server_pass(tapped: _Ends) -> None:
    fault = ValueError("no JSON")
    await tapped.server.send(_request(1, "roots/list"))
    await tapped.server.send(fault)

    first, second = await tapped.read.receive(), await tapped.read.receive()

    assert isinstance(first, SessionMessage)
    assert second is fault


async def test_the_end_of_the_stream_ends_the_wire_after_what_must_come_before() -> None:
    async with _tapped() as ends:
        order: list[str] = []

        async def before_end() -> None:
            order.append(f"ended: {ends.wire.ended}")

        ends.wire.before_end = before_end
        await ends.server.aclose()

        received = [item async for item in ends.read]

        assert received == []
        assert order == ["ended: False"]
        assert ends.ends == ["ended"]
        assert ends.wire.end_reason == "the server closed the connection"


async def test_an_answer_that_nobody_could_foresee_does_not_end_the_session(
    tapped: _Ends,
) -> None:
    await tapped.write.send(_request(7))
    await tapped.server.send(_response(7, {"content": [{"type": []}, {"type": {}}]}))

    result = _result(await tapped.read.receive())

    assert len(result["content"]) == 2


def _notification(method: str, params: dict[str, Any] | None = None) -> SessionMessage:
    return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method=method, params=params))


async def test_notifications_that_the_sdk_keeps_to_itself_are_told(tapped: _Ends) -> None:
    told: list[tuple[str, object]] = []
    tapped.wire.on_notification = lambda method, params: told.append((method, params))
    for message in (
        _notification("notifications/cancelled", {"requestId": 1}),
        _notification("notifications/roots/list_changed"),
        _notification("notifications/message", {"level": "info", "data": "heard elsewhere"}),
    ):
        await tapped.server.send(message)
        assert await anext(tapped.read) is message

    assert told == [
        ("notifications/cancelled", {"requestId": 1}),
        ("notifications/roots/list_changed", None),
    ]


async def test_the_end_of_a_stream_of_ours_is_not_told_as_a_cancelled_request(
    tapped: _Ends,
) -> None:
    told: list[str] = []
    tapped.wire.on_notification = lambda method, _: told.append(method)
    listen = JSONRPCRequest(jsonrpc="2.0", id="listen-1", method="subscriptions/listen")
    await tapped.write.send(SessionMessage(listen))
    await tapped.server.send(_notification("notifications/cancelled", {"requestId": "listen-1"}))
    await anext(tapped.read)

    assert told == []
