"""Servers that a user changes while the client is in use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait import ConfigError, MultiServerMCPClient
from plait.client import Toolbox
from plait.client.config.servers import StdioServer
from plait.langchain.client.client import ServerList
from tests.servers.langchain_servers import math_server

pytestmark = pytest.mark.anyio

B: dict[str, Any] = {"url": "http://localhost/mcp"}


def server() -> dict[str, Any]:
    return {"command": "a", "args": ["1"], "env": {"X": "1"}}


Change = Callable[[dict[str, Any]], Any]
CHANGES: dict[str, tuple[Any, Change, list[str], int]] = {
    # The servers at first; what changes them; the servers then, and how many were changed.
    "nothing": ({"a": server()}, lambda own: None, ["a"], 0),
    "another server": ({"a": server()}, lambda own: own.update(b=B), ["a", "b"], 1),
    "a server taken away": ({"a": server(), "b": B}, lambda own: own.pop("a"), ["b"], 1),
    "other arguments": ({"a": server()}, lambda own: own["a"]["args"].append("2"), ["a"], 1),
    "another variable": ({"a": server()}, lambda own: own["a"]["env"].update(X="2"), ["a"], 1),
    "another program": ({"a": server()}, lambda own: own["a"].update(command="b"), ["a"], 1),
    "the first server": ({}, lambda own: own.update(a=server()), ["a"], 1),
    "the first server of none": (None, lambda own: own.update(a=server()), ["a"], 1),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_changes_of_the_users_own_dictionary_are_applied_once(name: str) -> None:
    mine, change, names, changed = CHANGES[name]
    server_list = ServerList(mine)
    assert mine is None or server_list.connections is mine

    change(server_list.connections)
    changes = server_list.changes()

    assert len(changes) == changed
    assert (server_list.change_of("a") is None) is (changed == 0 or "b" in names)
    async with Toolbox(server_list.config) as server_list.toolbox:
        for apply in (*changes, *changes):
            await apply()
        assert server_list.changes() == []
        assert list(server_list.toolbox.config.servers) == names


async def test_the_servers_may_be_replaced_as_a_whole() -> None:
    async with MultiServerMCPClient({"a": server()}) as client:
        client.connections = {"math": math_server()}

        assert "add" in {tool.name for tool in await client.get_tools()}
        assert list(client.config.servers) == ["math"]
        client.connections = {"c": {"comand": "x"}}
        with pytest.raises(ConfigError):
            await client.get_tools()


def test_of_a_whole_configuration_the_servers_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"a": {"command": "a"}}, "toolNamePrefix": true}')

    for source in ({"mcpServers": {"a": server()}}, str(file)):
        server_list = ServerList(source)
        assert list(server_list.connections) == ["a"]
        assert isinstance(server_list.connections["a"], StdioServer)
    mine = {"servers": server()}
    assert ServerList(mine).connections is mine  # a server called servers is a server
    with pytest.raises(ConfigError):
        ServerList({"a": {"comand": "x"}})
