"""Servers that a user changes while the client is in use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plait import ConfigError
from plait.client.config.servers import StdioServer
from plait.langchain.client.server_list import Roster

A: dict[str, Any] = {"command": "a", "args": ["1"], "env": {"X": "1"}}
B: dict[str, Any] = {"url": "http://localhost/mcp"}


def test_nothing_has_changed_at_first() -> None:
    changes = Roster({"a": A}).changes()

    assert (changes.new, changes.gone) == ({}, ())


def test_the_users_own_dictionary_is_watched() -> None:
    mine = {"a": A}
    roster = Roster(mine)
    mine["b"] = B

    assert roster.connections is mine
    assert roster.changes().new == {"b": B}
    assert roster.changes().new == {}


def test_a_server_that_is_taken_away_is_gone() -> None:
    roster = Roster({"a": A, "b": B})
    del roster.connections["a"]

    assert roster.changes().gone == ("a",)
    assert roster.changes().gone == ()


@pytest.mark.parametrize("key", ["args", "env", "command"])
def test_a_server_that_is_changed_in_place_is_new(key: str) -> None:
    server: dict[str, Any] = {"command": "a", "args": ["1"], "env": {"X": "1"}}
    roster = Roster({"a": server})
    match server[key]:
        case list() as items:
            items.append("2")
        case dict() as entries:
            entries["X"] = "2"
        case _:
            server[key] = "other"

    assert roster.changes().new == {"a": server}


@pytest.mark.parametrize("source", [None, {}])
def test_a_client_may_start_without_servers(source: dict[str, Any] | None) -> None:
    roster = Roster(source)
    roster.connections["a"] = A

    assert roster.config.servers == {}
    assert roster.changes().new == {"a": A}


def test_an_empty_dictionary_of_the_users_is_watched_too() -> None:
    mine: dict[str, Any] = {}
    roster = Roster(mine)
    mine["a"] = A

    assert roster.changes().new == {"a": A}


def test_of_a_whole_configuration_the_servers_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"a": {"command": "a"}}, "toolNamePrefix": true}')

    for source in ({"mcpServers": {"a": A}}, str(file)):
        roster = Roster(source)

        assert list(roster.connections) == ["a"]
        assert isinstance(roster.connections["a"], StdioServer)


def test_a_server_called_servers_is_a_server() -> None:
    mine = {"servers": A}

    assert Roster(mine).connections is mine


def test_a_wrong_server_is_refused_at_once() -> None:
    with pytest.raises(ConfigError):
        Roster({"a": {"comand": "x"}})
