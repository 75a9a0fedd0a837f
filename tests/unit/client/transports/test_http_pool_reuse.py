"""A connection that its server has closed is not used for the next request."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from plait.client.transports import http_pool
from plait.client.transports.http_pool import HttpExchange, HttpPool, head_of

pytestmark = pytest.mark.anyio

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class _Post(HttpExchange):
    def __init__(self) -> None:
        super().__init__(head_of(b"/", [(b"Host", b"localhost")]), b"{}")
        self.outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def on_end(self) -> None:
        self.outcome.set_result("answered")

    def on_fault(self, fault: httpx2.RequestError) -> None:
        self.outcome.set_result(type(fault).__name__)


async def test_a_request_that_waits_is_not_written_to_a_closed_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_pool, "MOST_CONNECTIONS", 1)

    async def answer_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(RESPONSE)
        writer.close()

    server = await asyncio.start_server(answer_and_close, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    pool = HttpPool("127.0.0.1", port, None, exchange_seconds=5, read_seconds=5)
    posts = [_Post() for _ in range(5)]
    for post in posts:
        pool.submit(post)
    outcomes = await asyncio.gather(*(post.outcome for post in posts))
    await pool.close()
    server.close()

    assert outcomes == ["answered"] * 5
