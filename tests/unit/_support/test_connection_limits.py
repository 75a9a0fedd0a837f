"""How the protocol of our HTTP servers writes responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
import uvicorn
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from plait._support.connection_limits import MAX_JOINED_BYTES, ConnectionLimits, protocol_with
from plait.testing import eventually

pytestmark = pytest.mark.anyio


class Recording(asyncio.Transport):
    """Keeps each write of a server."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed_after: int | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert self.closed_after is None
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed_after is not None

    def close(self) -> None:
        self.closed_after = len(self.writes)

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def answered(text: str, *headers: bytes, app: ASGIApp | None = None) -> Recording:
    """Return what a server writes that answers one request with this text."""
    config = uvicorn.Config(app or PlainTextResponse(text), http="h11", log_level="critical")
    config.load()
    protocol = protocol_with(ConnectionLimits())(config, ServerState(), {})
    transport = Recording()
    protocol.connection_made(transport)
    lines = [b"GET / HTTP/1.1", b"Host: localhost", *headers, b"", b""]
    protocol.data_received(b"\r\n".join(lines))
    await eventually(lambda: b"".join(transport.writes).count(b"x") >= text.count("x") > 0)
    protocol.connection_lost(None)
    return transport


async def test_the_head_and_the_body_of_a_response_are_written_together() -> None:
    transport = await answered("xyz")

    (response,) = transport.writes
    assert response.startswith(b"HTTP/1.1 200")
    assert response.endswith(b"\r\n\r\nxyz")


async def test_a_connection_closes_after_its_last_response() -> None:
    transport = await answered("xyz", b"Connection: close")

    assert transport.closed_after == len(transport.writes) == 1


async def test_what_is_large_is_not_held_back() -> None:
    parts = ["x" * (MAX_JOINED_BYTES + 1)] * 3
    transport = await answered("".join(parts), app=StreamingResponse(_each(parts)))

    assert len(transport.writes) >= len(parts)


async def _each(parts: list[str]) -> AsyncGenerator[str]:
    for part in parts:
        yield part
