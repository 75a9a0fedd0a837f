"""The viewer as a process: what its server keeps of requests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from plait.testing import ServerProcess
from tests.nursery import python

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.mark.parametrize("head", ["GET /", "GET / HTTP/1.1\r\nX-Long: "], ids=["address", "header"])
async def test_a_head_without_end_is_refused(tmp_path: Path, head: str) -> None:
    command = [*python(), "-m", "plait.cli", "view", str(tmp_path), "--port", "0"]
    with ServerProcess(command, ready=r"(?P<url>http://\S+)") as viewer:
        port = urlsplit(viewer.url).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + b"a" * 65_536)

        async with asyncio.timeout(10):
            answer = await reader.readline()

        assert answer == b"HTTP/1.1 400 Bad Request\r\n"
        writer.transport.abort()  # what was not sent would keep it open
