"""Ports and proxies that break the network, tested with bare sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Self

import pytest

from plait.testing import blackhole, eventually, free_port
from plait.testing.fixtures import StartFaultProxy

pytestmark = pytest.mark.anyio


@pytest.fixture
async def echo_port() -> AsyncGenerator[int]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1024):
            writer.write(data)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


class Peer:
    """A client of the echo server; entering its context connects it."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._writer.close()

    async def ask(self, text: bytes, timeout_seconds: float = 5) -> bytes:
        async with asyncio.timeout(timeout_seconds):
            self._writer.write(text)
            await self._writer.drain()
            return await self._reader.read(1024)

    async def until_cut(self) -> None:
        async with asyncio.timeout(5):
            with suppress(ConnectionResetError):
                assert await self._reader.read(1024) == b""


async def test_a_proxy_passes_everything_on_and_cuts_what_is_open(
    echo_port: int, fault_proxy: StartFaultProxy
) -> None:
    proxy = fault_proxy(echo_port)
    async with Peer(proxy.port) as peer:
        assert await peer.ask(b"hello") == b"hello"
        assert (proxy.connections, proxy.open_connections) == (1, 1)
        assert proxy.url_for("http://127.0.0.1:1/mcp?x") == f"http://127.0.0.1:{proxy.port}/mcp?x"
    await eventually(lambda: proxy.open_connections == 0)
    async with Peer(proxy.port) as peer:
        await peer.ask(b"hello")
        proxy.cut()
        await peer.until_cut()
    async with Peer(proxy.port) as other:
        assert await other.ask(b"again") == b"again"


async def test_a_proxy_cuts_idle_connections(echo_port: int, fault_proxy: StartFaultProxy) -> None:
    async with Peer(fault_proxy(echo_port, idle_seconds=0.6).port) as peer:
        for _ in range(4):
            assert await peer.ask(b"busy") == b"busy"
            await asyncio.sleep(0.2)  # longer in all than an idle connection would live
        await peer.until_cut()


async def test_a_proxy_swallows_everything_or_refuses_until_it_forwards(
    echo_port: int, fault_proxy: StartFaultProxy
) -> None:
    proxy = fault_proxy(echo_port)
    async with Peer(proxy.port) as old:
        await old.ask(b"hello")
        proxy.blackhole()
        async with Peer(proxy.port) as new:
            for peer in (old, new):
                with pytest.raises(TimeoutError):
                    await peer.ask(b"anyone?", 0.1)
        proxy.forward()
        assert await old.ask(b"back") == b"back"
        proxy.refuse()
        await old.until_cut()
    with pytest.raises(ConnectionRefusedError):
        await Peer(proxy.port).__aenter__()
    proxy.forward()
    async with Peer(proxy.port) as other:
        assert await other.ask(b"back") == b"back"


async def test_a_proxy_without_a_target_cuts_at_once(fault_proxy: StartFaultProxy) -> None:
    async with Peer(fault_proxy(free_port()).port) as peer:
        await peer.until_cut()


def test_a_black_hole_accepts_and_never_answers_and_a_free_port_refuses(
    blackhole_port: int,
) -> None:
    with socket.create_connection(("127.0.0.1", blackhole_port), timeout=1) as peer:
        peer.sendall(b"anyone?")
        peer.settimeout(0.1)
        with pytest.raises(TimeoutError):
            peer.recv(1)
    with blackhole() as taken:
        assert free_port() != taken
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", free_port()), timeout=1)
