"""Servers that are not ready in time: nobody waits for them twice, and they come later."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from plait import ConnectTimeoutError, MultiServerMCPClient
from plait.testing import eventually
from tests.nursery import entry

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

PROGRAM = str(Path(__file__).parents[2] / "servers" / "late.py")


def server(gate: Path, tool: str, **more: object) -> dict[str, object]:
    """Return a server with one tool, which starts to speak once the file `gate` is there."""
    return entry(PROGRAM, str(gate), tool, **more)


def names(tools: list[Any]) -> list[str]:
    return sorted(tool.name for tool in tools)


@pytest.fixture
def now(tmp_path: Path) -> Path:
    (tmp_path / "now").touch()
    return tmp_path / "now"


async def test_a_server_that_hangs_is_waited_for_once_and_announced_without_anybody_asking(
    tmp_path: Path, now: Path
) -> None:
    later = tmp_path / "later"
    changed: list[str] = []
    servers = {"good": server(now, "a"), "slow": server(later, "b", connect_timeout=2)}

    def note(_params: object, context: Any) -> None:
        changed.append(context.server_name)

    async with MultiServerMCPClient(servers, on_tools_list_changed=note) as client:
        began = time.monotonic()
        assert names(await client.get_tools()) == ["a"]
        waited = time.monotonic() - began
        began = time.monotonic()
        assert names(await client.get_tools()) == ["a"]
        again = time.monotonic() - began
        later.touch()
        await eventually(lambda: changed == ["slow"], timeout_seconds=20)
        assert names(await client.get_tools(wait=0)) == ["a", "b"]

    assert waited >= 2
    assert again < 0.5


async def test_a_server_that_was_late_is_waited_for_by_name(tmp_path: Path, now: Path) -> None:
    later = tmp_path / "later"
    servers = {"good": server(now, "a"), "slow": server(later, "b", connect_timeout=1)}
    async with MultiServerMCPClient(servers) as client:
        assert names(await client.get_tools()) == ["a"]
        began = time.monotonic()
        with pytest.raises(ConnectTimeoutError):
            await client.get_tools("slow")
        assert time.monotonic() - began > 0.3
        later.touch()
        await eventually(lambda: client.status()["slow"].state == "ready", timeout_seconds=20)
        assert names(await client.get_tools("slow")) == ["b"]


async def test_wait_bounds_how_long_servers_are_waited_for(tmp_path: Path, now: Path) -> None:
    later = tmp_path / "later"
    servers = {"good": server(now, "a"), "slow": server(later, "b")}
    async with MultiServerMCPClient(servers) as client:
        assert await client.get_tools(wait=0) == []
        await client.toolbox.tools("good")
        began = time.monotonic()
        assert names(await client.get_tools(wait=0)) == ["a"]
        assert names(await client.get_tools(wait=0.3)) == ["a"]
        assert time.monotonic() - began < 2
        later.touch()
        assert names(await client.get_tools(wait=20)) == ["a", "b"]


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_primary_that_is_down_at_the_start_is_listed_from_its_backup(
    tmp_path: Path, now: Path, *, hangs: bool
) -> None:
    later = tmp_path / "later"
    main = server(later, "b", connect_timeout=3)
    if not hangs:
        main |= {"args": ["-c", "raise SystemExit(1)"], "reconnect": {"enabled": False}}
    servers = {"main": main, "spare": server(now, "b")}
    client = MultiServerMCPClient(servers, fallbacks={"main": "spare"}, tool_name_prefix=True)
    async with client:
        (tool,) = await client.get_tools()
        assert tool.name == "main_b"
        began = time.monotonic()
        assert await tool.ainvoke({}) == "now"
        assert time.monotonic() - began < 2
        if hangs:
            later.touch()
            await eventually(lambda: client.status()["main"].tool_count == 1, timeout_seconds=20)
            assert await tool.ainvoke({}) == "later"
            assert names(await client.get_tools()) == ["main_b"]


async def test_no_server_may_be_up_where_connection_errors_are_ignored() -> None:
    down = {"url": "http://127.0.0.1:9/mcp", "reconnect": {"enabled": False}}
    servers = {"one": down, "two": down}
    async with MultiServerMCPClient(servers, on_connection_error="ignore") as client:
        assert await client.get_tools() == []


async def test_who_waits_less_does_not_spend_the_first_wait(now: Path) -> None:
    async with MultiServerMCPClient({"good": server(now, "a")}) as client:
        assert await client.get_tools(wait=0) == []
        assert names(await client.get_tools()) == ["a"]
