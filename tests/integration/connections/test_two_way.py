"""Servers that talk back: subscriptions, roots and log messages."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path

import pytest
from mcp_types import CLIENT_INFO_META_KEY

from plait import Toolbox
from plait._support.logs import WIRE
from plait.testing import eventually
from plait.testing.fixtures import StartFaultServer
from tests.nursery import send_signal, stdio_config
from tests.servers.scripted_http import Reply, scripted_http

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ERAS = [{"legacy_only": True}, {"modern_only": True}]
OPENS = {"legacy": "initialize", "modern": "server/discover"}


@pytest.mark.parametrize("era", ERAS, ids=["legacy", "modern"])
async def test_a_subscription_outlives_a_restart_of_the_server(
    era: dict[str, bool], fault_server: StartFaultServer
) -> None:
    server = fault_server("http", **era)  # pyright: ignore[reportArgumentType]
    seen: list[str] = []
    async with Toolbox({"server": {"url": server.url}}) as box:
        subscription = await box.subscribe("server", "test://static", seen.append)
        await box.call("server", "touch", {"uri": "test://static"})
        await eventually(lambda: seen == ["test://static"])

        await asyncio.to_thread(server.restart)
        await box.call("server", "counter")
        # Whoever subscribed is told once that something may have been missed.
        await eventually(lambda: len(seen) >= 2, timeout_seconds=15)
        told = len(seen)
        async with asyncio.timeout(10):
            while len(seen) == told:
                await box.call("server", "touch", {"uri": "test://static"})
                await asyncio.sleep(0.2)

        subscription.cancel()


@pytest.mark.parametrize("era", ERAS, ids=["legacy", "modern"])
async def test_a_server_that_asks_is_shown_the_roots(era: dict[str, bool], tmp_path: Path) -> None:
    config = stdio_config(**era)  # pyright: ignore[reportArgumentType]
    async with Toolbox({"server": config}, roots=[tmp_path, "file:///data"]) as box:
        result = await box.call("server", "roots")
        assert tmp_path.as_uri() in result.text
        assert "file:///data" in result.text


@pytest.mark.parametrize("era", ERAS, ids=["legacy", "modern"])
async def test_log_messages_arrive_from_the_level_that_was_asked_for(era: dict[str, bool]) -> None:
    heard: list[tuple[str, str]] = []
    async with Toolbox(
        {"server": stdio_config(**era)},  # pyright: ignore[reportArgumentType]
        log_level="info",
        on_log=lambda server, message: heard.append((server, message.level)),
    ) as box:
        await box.call("server", "log", {"level": "warning", "text": "careful"})
        await eventually(lambda: heard == [("server", "warning")])
        await box.set_logging_level("error")
        if "modern_only" in era:  # the legacy test server takes the level and ignores it
            await box.call("server", "log", {"level": "warning", "text": "quiet"})
        await box.call("server", "log", {"level": "error", "text": "loud"})
        await eventually(lambda: heard == [("server", "warning"), ("server", "error")])


async def test_a_log_level_outlives_the_session_and_concerns_its_server_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, WIRE)
    servers = {name: stdio_config(legacy_only=True) for name in ("one", "other")}
    async with Toolbox(servers) as box:
        await box.tools()
        await box.set_logging_level("error", "one")
        for name in servers:
            pid = box.status()[name].pid
            assert pid is not None
            send_signal(pid, signal.SIGKILL)
        for name in servers:
            await box.call(name, "echo", {"text": "again"})

    texts = [record.getMessage() for record in caplog.records if record.name == WIRE]
    levels = [one for one in texts if one.startswith("→") and "logging/setLevel" in one]
    assert ["→ one" in one and '"level":"error"' in one for one in levels] == [True, True]


async def test_a_server_that_is_not_asked_for_roots_or_logs_is_left_alone() -> None:
    async with Toolbox({"server": stdio_config()}) as box:
        assert not (await box.call("server", "counter")).is_error
        await box.set_logging_level("debug")


@pytest.mark.parametrize("era", ERAS, ids=["legacy", "modern"])
async def test_a_legacy_server_s_new_tool_is_listed_after_it_is_announced(
    era: dict[str, bool],
) -> None:
    async with Toolbox({"server": stdio_config(**era)}) as box:  # pyright: ignore[reportArgumentType]
        before = {tool.wire_name for tool in await box.tools()}
        await box.call("server", "grow")

        async def grown() -> bool:
            tools = await box.tools(refresh="modern_only" in era)
            return {tool.wire_name for tool in tools} - before == {"grown_1"}

        await eventually(grown)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_this_client_says_who_it_is(era: str) -> None:
    async def answer(reply: Reply) -> None:
        reply.json(reply.response())

    host = {"name": "my-host", "version": "7"}
    async with scripted_http(answer, era=era) as server:
        async with Toolbox({"server": {"url": server.url}}, client_info=host) as box:
            await box.tools()
        opened = next(one for one in server.seen if one.method == OPENS[era])

    params = opened.message["params"]
    assert host in (params.get("clientInfo"), params.get("_meta", {}).get(CLIENT_INFO_META_KEY))
