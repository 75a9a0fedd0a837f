"""No socket is lost, whenever an exchange of httpx2 is cancelled, also while it closes others."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest

from plait._support.redact import Redactor
from plait.client.config.servers import SseServer
from plait.client.transports.http_client import open_http_client
from plait.client.transports.wire import Wire

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

CONNECTIONS = 5
MAX_TURNS = 60
"""More turns of the loop than any of these steps takes."""

Work = Callable[[httpx2.AsyncClient, str], Awaitable[object]]


class _Server:
    """Accepts every POST; its connections may be cut, all at once."""

    def __init__(self) -> None:
        self.port = 0
        self.connections: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            self.cut()

    def cut(self) -> None:
        while self.connections:
            self.connections.pop().transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.add(writer)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(1)
                writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}")
        except (OSError, asyncio.IncompleteReadError):
            self.connections.discard(writer)
            writer.close()


async def _post_all(client: httpx2.AsyncClient, url: str) -> None:
    """Have several connections, all idle at the end."""
    await asyncio.gather(*(client.post(url, content=b"x") for _ in range(CONNECTIONS)))


async def _post(client: httpx2.AsyncClient, url: str) -> object:
    return await client.post(url, content=b"x")


async def _stream(client: httpx2.AsyncClient, url: str) -> None:
    async with client.stream("POST", url, content=b"x") as response:
        await response.aread()


async def _nothing(client: httpx2.AsyncClient, url: str) -> None:
    del client, url


def _lost_sockets(generation: int = 2) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        gc.collect(generation)
    return [str(one.message) for one in seen if issubclass(one.category, ResourceWarning)]


@pytest.mark.parametrize("times", [1, 2], ids=["cancelled once", "cancelled twice"])
@pytest.mark.parametrize(
    ("scheme", "first", "is_cut", "work"),
    [
        pytest.param("http", _post_all, False, _nothing, id="the client is closed"),
        pytest.param("http", _post_all, True, _post, id="a post finds idle connections cut"),
        pytest.param("http", _post_all, True, _stream, id="a stream finds idle connections cut"),
        pytest.param("http", _nothing, False, _post_all, id="connections are opened"),
        pytest.param("https", _nothing, False, _post, id="a TLS handshake is not answered"),
    ],
)
async def test_no_socket_is_lost_whichever_turn_of_the_loop_a_session_is_cancelled_in(
    scheme: str, first: Work, is_cut: bool, work: Work, times: int
) -> None:
    server = _Server()
    ready = asyncio.Event()

    async def session() -> None:
        url = f"{scheme}://127.0.0.1:{server.port}/"
        wire = Wire("shop", Redactor(), lambda: None)
        async with open_http_client(SseServer(url=url), wire) as client:
            await first(client, url)
            if is_cut:
                server.cut()
                await asyncio.sleep(0)
            ready.set()
            await work(client, url)

    async with server.running():
        for turns in range(MAX_TURNS):
            ready.clear()
            task = asyncio.create_task(session())
            await ready.wait()
            for _ in range(turns):
                await asyncio.sleep(0)
            for _ in range(times):
                task.cancel()
                await asyncio.sleep(0)
            await asyncio.wait({task})
            was_cancelled = task.cancelled()
            del task
            await asyncio.sleep(0)  # the loop closes the sockets
            server.cut()
            await asyncio.sleep(0)
            # All that other tests have left is searched once, at the end: it takes up to a second.
            assert not _lost_sockets(generation=1)
            if not was_cancelled:
                break
        else:
            assert scheme == "https", "the session did not end"
        assert not _lost_sockets()
