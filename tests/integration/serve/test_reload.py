"""A changed configuration is used while clients are connected."""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import psutil
import pytest
from mcp import Client

from plait import MultiServerMCPClient, Toolbox
from plait.client.config.read import ClientConfig, read_config
from plait.errors import ConfigError, UnknownServerError
from plait.testing import StateDir, eventually
from plait.viewer.connected import ConnectedServers
from tests import nursery
from tests.integration.serve.conftest import connected, serving_http, text_of, write_config

pytestmark = pytest.mark.anyio


async def test_a_client_starts_stops_and_replaces_only_what_changed(
    tmp_path: Path, state: StateDir
) -> None:
    fault = nursery.stdio_config(state_dir=state.path)
    config = write_config(tmp_path, {"kept": fault, "gone": fault, "other": fault})
    async with Toolbox(str(config)) as box:
        before = {name: (await box.call(name, "pid")).text for name in box.server_names}
        entry = {**fault, "timeout": 44}
        write_config(tmp_path, {"other": entry, "kept": fault, "new": fault})

        changed = await box.reload()

        after = {name: (await box.call(name, "pid")).text for name in box.server_names}
        with pytest.raises(UnknownServerError):
            await box.call("gone", "pid")
        unchanged = await box.reload()

    assert changed == {"gone", "other", "new"}
    assert unchanged == set()
    assert list(after) == ["other", "kept", "new"]
    assert after["kept"] == before["kept"]
    assert after["other"] != before["other"]


async def test_a_call_under_way_ends_on_the_server_that_it_began_with(
    tmp_path: Path, state: StateDir
) -> None:
    fault = nursery.stdio_config(state_dir=state.path)
    config = write_config(tmp_path, {"server": fault})
    async with Toolbox(str(config)) as box:
        process = int((await box.call("server", "pid")).text)
        call = asyncio.create_task(box.call("server", "slow", {"seconds": 1.0}))
        await eventually(lambda: box.status().servers["server"].in_flight == 1)
        write_config(tmp_path, {"server": {**fault, "timeout": 44}})
        await box.reload()
        assert not (await call).is_error
        await eventually(lambda: not psutil.pid_exists(process))
        assert int((await box.call("server", "pid")).text) != process


async def test_a_broken_file_changes_nothing(tmp_path: Path, state: StateDir) -> None:
    config = write_config(tmp_path, {"server": nursery.stdio_config(state_dir=state.path)})
    async with Toolbox(str(config)) as box:
        config.write_text("{")
        with pytest.raises(ConfigError):
            await box.reload()
        assert not (await box.call("server", "pid")).is_error


async def test_a_client_watches_its_file(tmp_path: Path, state: StateDir) -> None:
    fault = nursery.stdio_config(state_dir=state.path)
    config = write_config(tmp_path, {"one": fault})
    async with MultiServerMCPClient(str(config), watch=True) as client:
        assert {tool.name for tool in await client.get_tools("one")}
        config.write_text("{ broken")
        write_config(tmp_path, {"two": fault})
        await eventually(lambda: client.toolbox.server_names == ("two",), timeout_seconds=20)
        assert {tool.name for tool in await client.get_tools("two")}
        assert list(client.connections) == ["two"]


def test_a_client_in_code_without_a_loop_watches_and_reloads(
    tmp_path: Path, state: StateDir
) -> None:
    fault = nursery.stdio_config(state_dir=state.path)
    config = write_config(tmp_path, {"one": fault})
    with MultiServerMCPClient(str(config), watch=True) as client:
        assert client.get_tools_blocking()
        write_config(tmp_path, {"one": fault, "two": fault})
        ends = time.monotonic() + 20
        while client.toolbox.server_names != ("one", "two"):
            assert time.monotonic() < ends
            time.sleep(0.05)
    with MultiServerMCPClient(str(config)) as client:
        write_config(tmp_path, {"one": fault})
        assert client.reload_blocking() == {"two"}
        assert list(client.connections) == ["one"]


def test_only_a_file_can_be_watched(state: StateDir) -> None:
    with pytest.raises(ConfigError, match="from a file"):
        Toolbox({"server": nursery.stdio_config(state_dir=state.path)}, watch=True)


async def test_the_viewer_follows_its_file(tmp_path: Path, state: StateDir) -> None:
    fault = nursery.stdio_config(state_dir=state.path)
    config = write_config(tmp_path, {"one": fault})

    def read() -> ClientConfig:
        return read_config(str(config))

    servers = ConnectedServers(read(), reread=read)
    async with servers.running():
        config.write_text("{ broken")
        await eventually(lambda: any("configuration" in n.kind for n in servers.notices))
        write_config(tmp_path, {"two": fault})
        await eventually(lambda: "two" in servers.tools, timeout_seconds=20)
        assert list(servers.config.servers) == ["two"]


async def test_plait_serve_starts_without_servers(tmp_path: Path, state: StateDir) -> None:
    config = write_config(tmp_path, {})
    async with connected("stdio", "legacy", config) as client:
        assert (await client.list_tools()).tools == []
        write_config(tmp_path, {"one": nursery.stdio_config(state_dir=state.path)})
        await eventually_has(client, "one__pid")


async def eventually_has(client: Client, name: str) -> None:
    async def is_listed() -> bool:
        return any(tool.name == name for tool in (await client.list_tools()).tools)

    await eventually(is_listed, timeout_seconds=20)


async def test_servers_from_a_dict_have_no_file_to_reload(state: StateDir) -> None:
    async with Toolbox({"server": nursery.stdio_config(state_dir=state.path)}) as box:
        with pytest.raises(ConfigError, match="not made from a file"):
            await box.reload()


async def test_plait_serve_follows_its_file(tmp_path: Path, state: StateDir) -> None:
    fault = nursery.stdio_config(state_dir=state.path)
    changed = anyio.Event()

    async def on_message(message: object) -> None:
        if "ToolListChanged" in type(message).__name__:
            changed.set()

    config = write_config(tmp_path, {"one": fault})
    async with connected("stdio", "legacy", config, message_handler=on_message) as client:
        first = text_of(await client.call_tool("one__pid"))
        changed = anyio.Event()
        config.write_text("{ broken")
        await anyio.lowlevel.checkpoint()
        assert text_of(await client.call_tool("one__pid")) == first
        write_config(tmp_path, {"one": fault, "two": fault})
        with anyio.fail_after(30):
            while not any(tool.name == "two__pid" for tool in (await client.list_tools()).tools):
                await changed.wait()
                changed = anyio.Event()
        assert text_of(await client.call_tool("one__pid")) == first
        assert not (await client.call_tool("two__pid")).is_error
        write_config(tmp_path, {"two": fault})
        with anyio.fail_after(30):
            while any(tool.name == "one__pid" for tool in (await client.list_tools()).tools):
                await changed.wait()
                changed = anyio.Event()

    assert json.loads(config.read_text())["mcpServers"].keys() == {"two"}


async def test_plait_serve_follows_its_file_after_clients_have_gone(
    tmp_path: Path, state: StateDir
) -> None:
    fault = nursery.stdio_config(state_dir=state.path)
    config = write_config(tmp_path, {"one": fault})
    with serving_http(config) as server:
        for _ in range(3):
            async with Client(server.url, mode="legacy") as client:
                assert not (await client.call_tool("one__pid")).is_error
        async with Client(server.url, mode="legacy") as client:

            async def is_listed(name: str) -> bool:
                return name in {tool.name for tool in (await client.list_tools()).tools}

            write_config(tmp_path, {"one": fault, "two": fault})
            await eventually(partial(is_listed, "two__pid"), timeout_seconds=30)
            write_config(tmp_path, {"one": fault, "three": fault})
            await eventually(partial(is_listed, "three__pid"), timeout_seconds=30)


async def test_a_server_that_is_disabled_is_removed(state: StateDir) -> None:
    fault = nursery.stdio_config(state_dir=state.path)
    async with Toolbox({"server": fault, "other": fault}) as box:
        await box.call("server", "pid")
        for entry in ({**fault, "enabled": False}, {**fault, "disabled": True}):
            await box.add_server("server", entry)
            assert box.server_names == ("other",)
        await box.add_server("server", fault)
        assert not (await box.call("server", "pid")).is_error
