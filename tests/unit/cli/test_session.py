"""The part of a configuration that a command works with."""

from __future__ import annotations

from plait.cli.session import narrowed
from plait.config.read import read_config

CONFIG = read_config(
    {
        "mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}, "c": {"command": "c"}},
        "fallbacks": {"a": "b"},
    }
)


def test_a_backup_that_is_left_out_is_no_backup() -> None:
    only = narrowed(CONFIG, ["a"], heal=True)

    assert list(only.servers) == ["a"]
    assert only.options["fallbacks"] == {}


def test_a_backup_that_is_kept_stays_one() -> None:
    for servers in ((), ("a", "b")):
        assert narrowed(CONFIG, servers, heal=True).options["fallbacks"] == {"a": "b"}
