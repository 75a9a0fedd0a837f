"""Ports and proxies that break the network, tested with bare sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress

import pytest

from plait.testing import blackhole, eventually, free_port
from plait.testing.fixtures import StartFaultProxy

pytestmark = pytest.mark.anyio


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1024):
        writer.write(data)
        await writer.drain()
    writer.close()


@pytest.fixture
async def echo_port() -> AsyncGenerator[int]:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


class Peer:
    """A client of the echo server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> Peer:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, text: bytes, timeout_seconds: float = 5) -> bytes:
        async with asyncio.timeout(timeout_seconds):
            self._writer.write(text)
            await self._writer.drain()
            return await self._reader.read(1024)

    async def until_cut(self) -> None:
        async with asyncio.timeout(5):
            with suppress(ConnectionResetError):
                assert await self._reader.read(1024) == b""

    def close(self) -> None:
        self._writer.close()


async def test_a_proxy_passes_everything_on(echo_port: int, fault_proxy: StartFaultProxy) -> None:
    proxy = fault_proxy(echo_port)
    peer = await Peer.connect(proxy.port)

    assert await peer.ask(b"hello") == b"hello"
    assert (proxy.connections, proxy.open_connections) == (1, 1)
    assert proxy.url_for("http://127.0.0.1:1/mcp?x") == f"http://127.0.0.1:{proxy.port}/mcp?x"

    peer.close()
    await eventually(lambda: proxy.open_connections == 0)


async def test_a_proxy_cuts_open_connections_and_takes_new_ones(
    echo_port: int, fault_proxy: StartFaultProxy
) -> None:
    proxy = fault_proxy(echo_port)
    peer = await Peer.connect(proxy.port)
    await peer.ask(b"hello")

    proxy.cut()

    await peer.until_cut()
    peer.close()
    other = await Peer.connect(proxy.port)
    assert await other.ask(b"again") == b"again"
    other.close()


async def test_a_proxy_cuts_idle_connections(echo_port: int, fault_proxy: StartFaultProxy) -> None:
    proxy = fault_proxy(echo_port, idle_seconds=0.6)
    peer = await Peer.connect(proxy.port)
    for _ in range(4):
        assert await peer.ask(b"busy") == b"busy"
        await asyncio.sleep(0.2)  # longer in all than an idle connection would live

    await peer.until_cut()
    peer.close()


async def test_a_proxy_swallows_everything_until_it_is_told_otherwise(
    echo_port: int, fault_proxy: StartFaultProxy
) -> None:
    proxy = fault_proxy(echo_port)
    old = await Peer.connect(proxy.port)
    await old.ask(b"hello")

    proxy.blackhole()

    new = await Peer.connect(proxy.port)
    for peer in (old, new):
        with pytest.raises(TimeoutError):
            await peer.ask(b"anyone?", 0.1)
    proxy.forward()
    assert await old.ask(b"back") == b"back"
    old.close()
    new.close()


async def test_a_proxy_refuses_until_it_is_told_otherwise(
    echo_port: int, fault_proxy: StartFaultProxy
) -> None:
    proxy = fault_proxy(echo_port)
    peer = await Peer.connect(proxy.port)
    await peer.ask(b"hello")

    proxy.refuse()

    await peer.until_cut()
    peer.close()
    with pytest.raises(ConnectionRefusedError):
        await Peer.connect(proxy.port)
    proxy.forward()
    other = await Peer.connect(proxy.port)
    assert await other.ask(b"back") == b"back"
    other.close()


async def test_a_proxy_without_a_target_cuts_at_once(fault_proxy: StartFaultProxy) -> None:
    proxy = fault_proxy(free_port())
    peer = await Peer.connect(proxy.port)
    await peer.until_cut()
    peer.close()


def test_a_black_hole_accepts_and_never_answers(blackhole_port: int) -> None:
    with socket.create_connection(("127.0.0.1", blackhole_port), timeout=1) as peer:
        peer.sendall(b"anyone?")
        peer.settimeout(0.1)
        with pytest.raises(TimeoutError):
            peer.recv(1)


def test_a_free_port_refuses() -> None:
    with blackhole() as taken:
        assert free_port() != taken
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", free_port()), timeout=1)
