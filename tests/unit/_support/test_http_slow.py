"""A slow reply is waited for as long as the request allows."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from plait._support.http import send_request


@pytest.mark.anyio
async def test_the_timeout_of_a_client_does_not_end_a_request_early() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.2)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, httpx2.AsyncClient(timeout=0.05, trust_env=False) as client:
        reply = await send_request(client, "GET", f"http://127.0.0.1:{port}/", timeout_seconds=30)

    assert reply.status == 200
