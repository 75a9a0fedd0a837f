"""Networks that cut what is idle: the next call goes through, and nobody is alarmed."""

from __future__ import annotations

import asyncio
import logging

import pytest

from plait import PlaitError, Toolbox
from plait.testing import eventually
from plait.testing.fixtures import StartFaultProxy, StartFaultServer

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.mark.parametrize("kind", ["http modern", "http legacy", "sse", "websocket"])
async def test_a_call_after_an_idle_cut_succeeds_without_a_warning(
    kind: str,
    fault_server: StartFaultServer,
    fault_proxy: StartFaultProxy,
    caplog: pytest.LogCaptureFixture,
) -> None:
    transport = kind.split(maxsplit=1)[0]
    server = fault_server(transport, legacy_only="legacy" in kind)  # pyright: ignore[reportArgumentType]
    proxy = fault_proxy(server.port, idle_seconds=0.5)
    config = {"url": proxy.url_for(server.url)}
    async with Toolbox(
        {"server": config | ({"transport": "sse"} if transport == "sse" else {})}
    ) as box:
        assert (await box.call("server", "counter")).text == "1"

        def is_cut() -> bool:
            # The client may have connected again, and that connection may just have been cut: the
            # end of its stream has to arrive too.
            knows = transport == "http" or box.status()["server"].state != "ready"
            return proxy.open_connections == 0 and knows

        await eventually(is_cut, timeout_seconds=10)
        assert (await box.call("server", "counter")).text == "2"
    assert not [one for one in caplog.records if one.levelno > logging.INFO], caplog.text


@pytest.mark.parametrize("kind", ["http modern", "http legacy", "sse", "websocket"])
async def test_a_network_that_swallows_everything_is_noticed_within_the_time_for_the_call(
    kind: str, fault_server: StartFaultServer, fault_proxy: StartFaultProxy
) -> None:
    transport = kind.split(maxsplit=1)[0]
    server = fault_server(transport, legacy_only="legacy" in kind)  # pyright: ignore[reportArgumentType]
    proxy = fault_proxy(server.port)
    config = {"url": proxy.url_for(server.url), "connect_timeout": 2}
    async with Toolbox(
        {"server": config | ({"transport": "sse"} if transport == "sse" else {})}
    ) as box:
        await box.call("server", "counter")
        await asyncio.to_thread(proxy.blackhole)
        async with asyncio.timeout(10):
            with pytest.raises(TimeoutError):
                await box.call("server", "counter", timeout_seconds=1)
        await asyncio.to_thread(proxy.cut)
        await asyncio.to_thread(proxy.forward)

        async def answers() -> bool:
            try:
                return (await box.call("server", "echo", {"text": "back"})).text == "back"
            except PlaitError:
                return False

        await eventually(answers, timeout_seconds=20)
