"""Nothing a client does blocks the loop it runs in, be it the caller's or its own."""

from __future__ import annotations

import asyncio
import signal

import pytest
from blockbuster import blockbuster_ctx

from plait import Toolbox
from plait.testing.fixtures import StartFaultServer
from tests.nursery import send_signal, stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.mark.parametrize("lazy", [False, True], ids=["caller's loop", "own loop"])
async def test_opening_calling_healing_and_closing_never_block(
    lazy: bool, fault_server: StartFaultServer
) -> None:
    servers = {
        "stdio": stdio_config(),
        "http": {"url": fault_server("http").url},
        "sse": {"url": fault_server("sse").url, "transport": "sse"},
        "socket": {"url": fault_server("websocket").url},
        "missing": {"command": "no-such-program"},
    }
    with blockbuster_ctx():
        box = Toolbox(servers)
        if not lazy:
            await box.__aenter__()
        await box.tools()
        for name in ("stdio", "http", "sse", "socket"):
            assert (await box.call(name, "add", {"a": 1, "b": 1})).text == "2"
        pid = box.status()["stdio"].pid
        assert pid is not None
        await asyncio.to_thread(send_signal, pid, signal.SIGKILL)
        assert (await box.call("stdio", "counter")).text == "1"
        await box.aclose()
