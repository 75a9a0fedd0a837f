"""HTTP connections: what they read, when they are used again, and what ends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from itertools import pairwise
from typing import Any

import anyio
import h11
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.client.transports import http_pool
from plait.client.transports.http_pool import (
    MAX_CONNECTIONS,
    HttpConnection,
    HttpExchange,
    HttpPool,
    head_of,
)

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = (
    b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
)


class Exchange(HttpExchange):
    """Records what happens to it."""

    def __init__(self, body: bytes = b"{}") -> None:
        super().__init__(b"POST / HTTP/1.1\r\n", body, httpx2.Request("POST", "http://server.test"))
        self.status = 0
        self.received = b""
        self.outcome: str | Exception | None = None

    def on_response(self, status: int, headers: http_pool.Fields) -> None:
        self.status = status

    def on_data(self, data: bytes) -> None:
        self.received += data

    def on_end(self) -> None:
        self.outcome = "ended"

    def on_fault(self, fault: Exception) -> None:
        self.outcome = fault


class Transport(asyncio.Transport):
    """A transport without a socket."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self.breaks = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0

    def write(self, data: Any) -> None:
        self.written += data
        self.closed = self.closed or self.breaks

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True


class Pool(HttpPool):
    """Connects to nothing."""

    def __init__(self) -> None:
        super().__init__("server.test", 80, None, exchange_seconds=30, read_seconds=300)
        self.made: list[HttpConnection] = []
        self.transports: list[Transport] = []
        self.refusal: Exception | None = None
        self.now = 0.0

    async def _new_connection(self) -> HttpConnection:
        if self.refusal is not None:
            raise self.refusal
        connection, transport = HttpConnection(self, self._loop), Transport()
        connection.connection_made(transport)
        self.made.append(connection)
        self.transports.append(transport)
        return connection

    async def started(self, exchange: Exchange | None = None) -> Exchange:
        exchange = exchange or Exchange()
        self.submit(exchange)
        await settled()
        return exchange

    def sweep_at(self, seconds: float, change: Callable[[], object] = lambda: None) -> None:
        """Sweep as if time had passed."""
        change()
        now = self._loop.time
        self._loop.time = lambda: now() + seconds  # type: ignore[method-assign]
        try:
            self._sweep()
        finally:
            self._loop.time = now  # type: ignore[method-assign]


@pytest.fixture
async def pool() -> AsyncGenerator[Pool]:
    pool = Pool()
    yield pool
    await pool.close()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_connection_is_used_again_after_a_whole_response(pool: Pool) -> None:
    for _ in range(3):
        exchange = await pool.started()
        pool.made[0].data_received(OK)
        assert (exchange.status, exchange.received, exchange.outcome) == (200, b"{}", "ended")

    assert len(pool.made) == 1
    request = b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}"
    assert pool.transports[0].written == request * 3
    await pool.close()
    assert pool.transports[0].closed


@pytest.mark.parametrize(
    ("response", "body"), [(OK, b"{}"), (CHUNKED, b"abcde")], ids=["length", "chunked"]
)
@given(data=st.data())
def test_a_response_may_arrive_in_any_pieces(
    response: bytes, body: bytes, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(response)), max_size=8))

    async def run() -> None:
        pool = Pool()
        exchange = await pool.started()
        bounds = [0, *sorted(cuts), len(response)]
        for start, end in pairwise(bounds):
            if response[start:end]:
                pool.made[0].data_received(response[start:end])
        assert (exchange.status, exchange.received, exchange.outcome) == (200, body, "ended")
        await pool.close()

    asyncio.run(run())


async def test_a_body_without_a_length_ends_with_the_connection(pool: Pool) -> None:
    exchange = await pool.started()
    pool.made[0].data_received(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nwhole")
    assert exchange.outcome is None
    pool.made[0].eof_received()

    assert (exchange.received, exchange.outcome) == (b"whole", "ended")
    assert pool.transports[0].closed


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    ],
    ids=["two framings", "two lengths", "another protocol"],
)
async def test_a_response_that_can_be_read_in_two_ways_is_refused(
    pool: Pool, response: bytes
) -> None:
    exchange = await pool.started()
    pool.made[0].data_received(response)

    assert type(exchange.outcome) is httpx2.RemoteProtocolError
    assert pool.transports[0].closed


async def test_headers_after_the_body_are_bounded_too(pool: Pool) -> None:
    exchange = await pool.started()
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Long: "
    pool.made[0].data_received(head)
    for _ in range(20):
        pool.made[0].data_received(b"x" * 8192)

    assert type(exchange.outcome) is httpx2.RemoteProtocolError


async def test_the_connection_used_last_is_used_next(pool: Pool) -> None:
    for _ in range(3):
        pool.submit(Exchange())
    await settled()
    for connection in (pool.made[1], pool.made[2], pool.made[0]):
        connection.data_received(OK)
    exchange = await pool.started()

    assert exchange.connection is pool.made[0]


@pytest.mark.parametrize(
    "response",
    [
        OK.replace(b"200 OK\r\n", b"200 OK\r\nConnection: close\r\n"),
        OK.replace(b"HTTP/1.1", b"HTTP/1.0"),
        OK + b"HTTP/1.1 200",
        OK + OK.replace(b"{}", b"[]"),
    ],
    ids=["connection: close", "HTTP/1.0", "more than the response", "two responses"],
)
async def test_a_connection_that_may_not_be_used_again_is_closed(
    pool: Pool, response: bytes
) -> None:
    exchange = await pool.started()
    pool.made[0].data_received(response)

    assert (exchange.received, exchange.outcome) == (b"{}", "ended")
    assert pool.transports[0].closed
    assert (await pool.started()).connection is pool.made[1]


async def test_an_idle_connection_is_closed_before_the_server_closes_it(pool: Pool) -> None:
    await pool.started()
    pool.made[0].data_received(OK)
    pool.sweep_at(3.5)
    assert not pool.transports[0].closed
    pool.sweep_at(4.5)
    assert pool.transports[0].closed


@pytest.mark.parametrize(
    "happens",
    [
        lambda one: one.data_received(OK),
        lambda one: (one.eof_received(), one.connection_lost(None)),
    ],
    ids=["it says something unasked", "the server closes it"],
)
async def test_an_idle_connection_that_hears_from_its_server_is_used_no_more(
    pool: Pool, happens: Callable[[HttpConnection], object]
) -> None:
    await pool.started()
    pool.made[0].data_received(OK)
    happens(pool.made[0])

    assert pool.transports[0].closed or pool.made[0]._transport is None
    assert (await pool.started()).connection is pool.made[1]


@pytest.mark.parametrize(
    ("happens", "fault"),
    [
        (lambda one: one.eof_received(), httpx2.RemoteProtocolError),
        (lambda one: one.connection_lost(None), httpx2.ReadError),
        (lambda one: one.connection_lost(ConnectionResetError("reset")), httpx2.ReadError),
        (lambda one: one.data_received(b"no HTTP at all\r\n\r\n"), httpx2.RemoteProtocolError),
        (lambda one: one.data_received(b"HTTP/1.1 200 " * 10_000), httpx2.RemoteProtocolError),
        (lambda one: (one.data_received(OK[:-1]), one.eof_received()), httpx2.RemoteProtocolError),
        (lambda one: (one.data_received(OK[:-1]), one.connection_lost(None)), httpx2.ReadError),
        (lambda one: (one.pause_writing(), one.connection_lost(None)), httpx2.WriteError),
    ],
)
async def test_a_broken_connection_fails_its_exchange(
    pool: Pool, happens: Callable[[HttpConnection], object], fault: type[httpx2.RequestError]
) -> None:
    exchange = await pool.started()
    happens(pool.made[0])

    assert type(exchange.outcome) is fault
    assert pool.transports[0].closed or pool.made[0]._transport is None


async def test_a_server_that_hangs_up_instead_of_answering_is_described(pool: Pool) -> None:
    exchange = await pool.started()
    pool.made[0].eof_received()

    assert str(exchange.outcome) == "Server disconnected without sending a response."


async def test_a_request_that_cannot_be_written_has_not_been_sent(pool: Pool) -> None:
    await pool.started()
    pool.made[0].data_received(OK)
    pool.transports[0].breaks = True

    assert isinstance((await pool.started()).outcome, httpx2.WriteError)


@pytest.mark.parametrize(
    ("seconds", "unflushed", "fault"),
    [
        (299.0, False, None),
        (301.0, False, httpx2.ReadTimeout),
        (29.0, True, None),
        (31.0, True, httpx2.WriteTimeout),
    ],
)
async def test_silence_ends_an_exchange(
    pool: Pool, seconds: float, unflushed: bool, fault: type[httpx2.RequestError] | None
) -> None:
    exchange = await pool.started()
    if unflushed:
        pool.made[0].pause_writing()
    pool.sweep_at(seconds)

    assert exchange.outcome is None if fault is None else type(exchange.outcome) is fault


async def test_the_rest_of_a_response_that_nobody_waits_for_is_read_for_a_while(pool: Pool) -> None:
    exchange = await pool.started()
    exchange.ended = True
    pool.made[0].data_received(OK)
    assert not pool.transports[0].closed
    assert exchange.outcome is None

    slow = await pool.started()
    slow.ended = True
    pool.sweep_at(2.5)
    assert pool.transports[0].closed

    large = await pool.started()
    pool.made[1].data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    large.ended = True
    pool.made[1].data_received(b"x" * 70_000)
    assert pool.transports[1].closed


async def test_more_exchanges_than_connections_wait_for_their_turn(pool: Pool) -> None:
    exchanges = [Exchange() for _ in range(MAX_CONNECTIONS + 2)]
    for exchange in exchanges:
        pool.submit(exchange)
    await settled()
    assert len(pool.made) == MAX_CONNECTIONS
    assert exchanges[-1].connection is None

    pool.made[7].data_received(OK)
    assert exchanges[-2].connection is pool.made[7]
    pool.made[8].connection_lost(None)  # a new one takes its place
    await settled()
    assert exchanges[-1].connection is pool.made[-1]


async def test_an_exchange_does_not_wait_for_a_connection_forever(pool: Pool) -> None:
    exchanges = [Exchange() for _ in range(MAX_CONNECTIONS + 1)]
    for exchange in exchanges:
        pool.submit(exchange)
    await settled()
    pool.sweep_at(29)
    assert exchanges[-1].outcome is None
    pool.sweep_at(31)
    assert isinstance(exchanges[-1].outcome, httpx2.PoolTimeout)


@pytest.mark.parametrize(
    ("refusal", "fault"),
    [
        (ConnectionRefusedError("refused"), httpx2.ConnectError),
        (TimeoutError("slow"), httpx2.ConnectTimeout),
    ],
)
async def test_a_connection_that_cannot_be_opened_fails_one_exchange(
    pool: Pool, refusal: Exception, fault: type[httpx2.RequestError]
) -> None:
    pool.refusal = refusal
    assert type((await pool.started()).outcome) is fault
    pool.refusal = None
    assert (await pool.started()).connection is pool.made[0]


async def test_an_exchange_that_is_given_up_is_not_written_or_loses_its_connection(
    pool: Pool,
) -> None:
    written, waiting = Exchange(), Exchange()
    await pool.started(written)
    pool.submit(waiting)
    pool.drop(waiting)
    pool.drop(written)
    await settled()

    assert pool.transports[0].closed
    assert waiting.connection is None
    assert (written.outcome, waiting.outcome) == (None, None)


async def test_a_closed_pool_takes_nothing() -> None:
    pool = Pool()
    await pool.close()
    with pytest.raises(anyio.ClosedResourceError):
        pool.submit(Exchange())


@pytest.mark.parametrize("value", [b"a\r\nX-Evil: 1", b"a\nb", b"a\0b"])
def test_a_header_cannot_smuggle_another_one(value: bytes) -> None:
    with pytest.raises(h11.LocalProtocolError):
        head_of(b"/", [(b"Host", b"x"), (b"X-Team", value)])


def test_a_head_has_all_headers_and_is_still_open() -> None:
    head = head_of(b"/mcp?x=1", [(b"Host", b"x"), (b"X-Team", b"blue")])
    assert head == b"POST /mcp?x=1 HTTP/1.1\r\nHost: x\r\nX-Team: blue\r\n"
