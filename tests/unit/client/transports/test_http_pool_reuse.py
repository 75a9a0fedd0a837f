"""A connection that its server has closed, or is about to close, is not used for a request."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest

from plait.client.transports import http_pool
from plait.client.transports.http_pool import HttpExchange, HttpPool, head_of
from plait.testing.ports import bind

pytestmark = pytest.mark.anyio

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class _Post(HttpExchange):
    def __init__(self) -> None:
        head = head_of(b"/", [(b"Host", b"localhost")])
        super().__init__(head, b"{}", httpx2.Request("POST", "http://localhost"))
        self.outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def on_end(self) -> None:
        self.outcome.set_result("answered")

    def on_fault(self, fault: Exception) -> None:
        self.outcome.set_result(type(fault).__name__)


@asynccontextmanager
async def _pool(
    accept: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncGenerator[HttpPool]:
    """Yield a pool of connections to a server."""
    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    pool = HttpPool("127.0.0.1", port, None, exchange_seconds=5, read_seconds=5)
    yield pool
    await pool.close()
    server.close()


async def test_a_request_that_waits_is_not_written_to_a_closed_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_pool, "MAX_CONNECTIONS", 1)

    async def answer_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(RESPONSE)
        writer.close()

    posts = [_Post() for _ in range(5)]
    async with _pool(answer_and_close) as pool:
        for post in posts:
            pool.submit(post)
        outcomes = await asyncio.gather(*(post.outcome for post in posts))

    assert outcomes == ["answered"] * 5


async def test_a_connection_that_was_closed_while_it_was_opened_gets_no_request() -> None:
    with bind() as listener:
        port: int = listener.getsockname()[1]
        pool = HttpPool("127.0.0.1", port, None, exchange_seconds=5, read_seconds=5)
        post = _Post()
        pool.submit(post)
        await asyncio.sleep(0)  # the system connects meanwhile; the loop learns of it later
        listener.accept()[0].close()
        outcome = await post.outcome
        await pool.close()

    assert outcome == "ConnectError"  # it was not sent, so it may be sent again


async def test_after_a_cut_response_the_next_request_has_a_new_connection() -> None:
    connections: list[asyncio.StreamWriter] = []
    first_answered = asyncio.Event()

    async def answer_or_cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        is_second = len(connections) == 2
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"{}"):
                if is_second:
                    await first_answered.wait()
                    writer.transport.abort()  # the first connection is cut a moment later
                    return
                writer.write(RESPONSE)

    both, after = [_Post(), _Post()], _Post()
    async with _pool(answer_or_cut) as pool:
        for post in both:
            pool.submit(post)
        await asyncio.wait([post.outcome for post in both], return_when=asyncio.FIRST_COMPLETED)
        first_answered.set()
        outcomes = [await post.outcome for post in both]
        pool.submit(after)
        outcomes.append(await after.outcome)
    for writer in connections:
        writer.close()

    assert outcomes.count("answered") == 2
    assert outcomes[2] == "answered"
    assert len(connections) == 3
