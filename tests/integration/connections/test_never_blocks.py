"""Nothing a client does blocks the loop it runs in, be it the caller's or its own."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from plait import ConfigError, MultiServerMCPClient, Toolbox
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


@pytest.mark.parametrize("kind", [Toolbox, MultiServerMCPClient])
async def test_files_are_not_read_in_the_loop(
    kind: type[Toolbox | MultiServerMCPClient], tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("NAME=value")
    (tmp_path / "policy.json").write_text('{"default": "allow"}')
    (tmp_path / "plait.lock.json").write_text('{"version": 1, "servers": {}}')
    server = {**stdio_config(), "envFile": str(tmp_path / ".env")}
    config: dict[str, object] = {"mcpServers": {"server": server}, "lock": "warn"}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({**config, "policy": "policy.json"}))

    with blockbuster_ctx():
        client = kind(str(path))
        with pytest.raises(ConfigError, match="no such file"):
            kind(str(tmp_path / "missing.json"))
        await client.aclose()
