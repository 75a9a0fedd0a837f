"""Servers that a user changes while the client is in use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plait import ConfigError
from plait.client import Toolbox
from plait.client.config.servers import StdioServer
from plait.langchain.client.client import ServerList

pytestmark = pytest.mark.anyio

A: dict[str, Any] = {"command": "a", "args": ["1"], "env": {"X": "1"}}
B: dict[str, Any] = {"url": "http://localhost/mcp"}


async def applied(server_list: ServerList) -> list[str]:
    """Apply the changes, and return the names of the servers that there are then."""
    async with Toolbox(server_list.config) as server_list.toolbox:
        for apply in server_list.changes():
            await apply()
        assert server_list.changes() == []
        return list(server_list.toolbox.config.servers)


def test_nothing_has_changed_at_first() -> None:
    server_list = ServerList({"a": A})

    assert server_list.changes() == []
    assert server_list.change_of("a") is None


async def test_the_users_own_dictionary_is_watched() -> None:
    mine = {"a": A}
    server_list = ServerList(mine)
    mine["b"] = B

    assert server_list.connections is mine
    assert server_list.change_of("b") is not None
    assert await applied(server_list) == ["a", "b"]


async def test_a_server_that_is_taken_away_is_gone() -> None:
    server_list = ServerList({"a": A, "b": B})
    del server_list.connections["a"]

    assert server_list.change_of("a") is None
    assert await applied(server_list) == ["b"]


@pytest.mark.parametrize("key", ["args", "env", "command"])
async def test_a_server_that_is_changed_in_place_is_new(key: str) -> None:
    server: dict[str, Any] = {"command": "a", "args": ["1"], "env": {"X": "1"}}
    server_list = ServerList({"a": server})
    match server[key]:
        case list() as items:
            items.append("2")
        case dict() as entries:
            entries["X"] = "2"
        case _:
            server[key] = "other"

    assert server_list.change_of("a") is not None
    assert len(server_list.changes()) == 1
    assert await applied(server_list) == ["a"]


@pytest.mark.parametrize("source", [None, {}])
async def test_a_client_may_start_without_servers(source: dict[str, Any] | None) -> None:
    server_list = ServerList(source)
    server_list.connections["a"] = A

    assert server_list.config.servers == {}
    assert await applied(server_list) == ["a"]


async def test_an_empty_dictionary_of_the_users_is_watched_too() -> None:
    mine: dict[str, Any] = {}
    server_list = ServerList(mine)
    mine["a"] = A

    assert await applied(server_list) == ["a"]


def test_of_a_whole_configuration_the_servers_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"a": {"command": "a"}}, "toolNamePrefix": true}')

    for source in ({"mcpServers": {"a": A}}, str(file)):
        server_list = ServerList(source)

        assert list(server_list.connections) == ["a"]
        assert isinstance(server_list.connections["a"], StdioServer)


def test_a_server_called_servers_is_a_server() -> None:
    mine = {"servers": A}

    assert ServerList(mine).connections is mine


def test_a_wrong_server_is_refused_at_once() -> None:
    with pytest.raises(ConfigError):
        ServerList({"a": {"comand": "x"}})
