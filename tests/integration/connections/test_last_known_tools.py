"""Servers that cannot list their tools: those of the last list stay on offer."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import psutil
import pytest

from plait import ConnectError, MultiServerMCPClient, PlaitError, Toolbox
from plait.testing import ServerProcess, eventually
from plait.testing.fixtures import StartFaultServer
from tests.nursery import entry, stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

LATE = str(Path(__file__).parents[2] / "servers" / "late.py")
AT_ONCE_SECONDS = 30
"""Long enough for a busy machine, and shorter than the `connect_timeout` of these tests."""


async def heal_and_kill(box: Toolbox, server: ServerProcess) -> None:
    """End a server, heal its connection by a call, and end it again."""
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    await box.call("web", "echo", {"text": "back"})
    assert box.status()["web"].sessions == 2
    await asyncio.to_thread(server.kill)


@pytest.mark.parametrize("more", [{}, {"required": True}], ids=["optional", "required"])
async def test_tools_stay_through_a_second_outage(
    fault_server: StartFaultServer, more: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    server = fault_server("http", legacy_only=True)
    web = {"url": server.url, "connect_timeout": 90, **more}
    servers = {"web": web, "local": stdio_config()}
    async with MultiServerMCPClient(servers, tool_name_prefix=True) as client:
        before = [tool.name for tool in await client.get_tools()]
        await heal_and_kill(client.toolbox, server)

        async with asyncio.timeout(AT_ONCE_SECONDS):
            with caplog.at_level(logging.WARNING, logger="plait"):
                during = [[tool.name for tool in await client.get_tools()] for _ in range(3)]
            named = [tool.name for tool in await client.get_tools("web")]
        status = client.status()

        assert during == [before] * 3
        assert named == [name for name in before if name.startswith("web_")]
        assert (status["web"].tools_outdated, status["local"].tools_outdated) == (True, False)
        assert set(status.failures) == {"web"}
        assert [record.message.partition(": ")[0] for record in caplog.records] == [
            "going on with the earlier tools of web"
        ]

        await asyncio.to_thread(server.start)
        await client.toolbox.call("web", "echo", {"text": "back again"})
        assert [tool.name for tool in await client.get_tools()] == before
        assert not client.status()["web"].tools_outdated


async def test_whoever_handles_connection_errors_hears_of_a_server_with_earlier_tools(
    fault_server: StartFaultServer,
) -> None:
    server = fault_server("http", legacy_only=True)
    heard: list[tuple[str, str]] = []

    def note(name: str, error: PlaitError) -> None:
        heard.append((name, type(error).__name__))

    web = {"url": server.url, "connect_timeout": 90}
    async with Toolbox({"web": web}, on_connection_error=note) as box:
        before = await box.tools()
        await heal_and_kill(box, server)
        async with asyncio.timeout(AT_ONCE_SECONDS):
            assert [await box.tools() for _ in range(2)] == [before] * 2

    assert heard == [("web", "ConnectError")]


async def test_whoever_asks_for_a_new_list_gets_the_error(fault_server: StartFaultServer) -> None:
    server = fault_server("http", legacy_only=True)
    web = {"url": server.url, "connect_timeout": 0.2}
    async with Toolbox({"web": web}) as box:
        await box.tools()
        await heal_and_kill(box, server)
        with pytest.raises(ConnectError):
            await box.tools(refresh=True)


async def test_many_callers_wait_together_for_a_program_that_hangs(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    server = entry(LATE, str(gate), "a", connect_timeout=90)

    def names(tools: list[Any]) -> list[str]:
        return [tool.name for tool in tools]

    async with Toolbox({"server": server}, cache=False) as box:
        assert names(await box.tools()) == ["a"]
        gate.unlink()
        pid = box.status()["server"].pid
        assert pid is not None
        psutil.Process(pid).kill()
        await eventually(lambda: box.status()["server"].state != "ready")
        async with asyncio.timeout(AT_ONCE_SECONDS):
            listed = await asyncio.gather(*(box.tools() for _ in range(50)))

        assert [names(tools) for tools in listed] == [["a"]] * 50
        assert box.status()["server"].tools_outdated
