"""What a stdio server writes: messages are passed on, noise is counted and shown once, safely."""

from __future__ import annotations

import logging

import pytest

from plait._support.redact import Redactor
from plait.client.config.servers import StdioServer
from plait.client.transports.pipes import LineProtocol
from plait.client.transports.stdio import StdioRead
from plait.client.transports.wire import Wire

pytestmark = pytest.mark.anyio

MESSAGE = b'{"jsonrpc":"2.0","id":1,"result":{}}'


async def _read(data: bytes, *, secrets: tuple[str, ...] = ()) -> tuple[int, Wire]:
    """Read everything; return how many messages there were, and the wire."""
    wire = Wire("files", Redactor(secrets), lambda: None)
    lines = LineProtocol()
    lines.data_received(data)
    lines.connection_lost(None)
    read = StdioRead(lines, wire, StdioServer(command="x"))
    count = 0
    async for _ in read:
        count += 1
    return count, wire


async def test_messages_are_found_and_noisy_lines_counted() -> None:
    count, wire = await _read(b"hello\n" + MESSAGE + b"\n\nbanner " + MESSAGE + b"\n" + MESSAGE)

    assert count == 3
    assert wire.noise_lines == 2


async def test_noise_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        await _read(b"one\ntwo\nthree\n")

    (record,) = caplog.records
    assert "(one)" in record.getMessage()


async def test_a_long_secret_in_noise_is_not_shown_in_part(
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = "eyJ" + "x" * 900

    with caplog.at_level(logging.WARNING):
        await _read(f"got {secret} at last\n".encode(), secrets=(secret,))

    assert "xxx" not in caplog.text
