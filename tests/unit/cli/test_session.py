"""The part of a configuration that a command works with."""

from __future__ import annotations

from plait.cli.session import narrowed, with_servers
from plait.client.config.read import read_config

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


def test_a_person_gets_whole_results() -> None:
    config = read_config(
        {"mcpServers": {"a": {"command": "a", "result_budget": 500}}, "result_budget": 1000}
    )

    only = narrowed(config, (), heal=True)

    assert only.options == {}
    assert only.servers["a"].result_budget is None


def test_an_agent_gets_servers_and_options_as_they_are() -> None:
    config = read_config(
        {
            "mcpServers": {"a": {"command": "a", "result_budget": 500}, "b": {"command": "b"}},
            "result_budget": 1000,
        }
    )

    only = with_servers(config, ["a"])

    assert only.servers == {"a": config.servers["a"]}
    assert only.options == config.options
    assert with_servers(config, ()) is config
