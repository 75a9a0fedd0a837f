"""Entries of servers: what is read, what is filled in, and what is left out by name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.gateway import GatewayServer
from plait.gateway.manifest import entries_of, servers_from


def url_for(name: str) -> str:
    return f"https://gateway.example/agents/servers/{name}"


def test_an_entry_is_read_whole() -> None:
    (server,) = servers_from(
        [
            {
                "mcpServerName": "mcp_MailTools",
                "mcpServerUniqueName": "mcp_MailTools_contoso",
                "url": "https://mail.example/mcp",
                "headers": {"X-Key": "abc"},
                "scope": "McpServers.Mail.All",
                "audience": "other",
                "publisher": "Contoso",
                "capabilities": ["send"],
            }
        ],
        url_for,
    )

    assert server == GatewayServer(
        mcp_server_name="mcp_MailTools",
        mcp_server_unique_name="mcp_MailTools_contoso",
        url="https://mail.example/mcp",
        headers={"X-Key": "abc"},
        scope="McpServers.Mail.All",
        audience="other",
        publisher="Contoso",
        tools=("send",),
    )
    assert "abc" not in repr(server)
    assert server.to_dict()["headers"] == ["X-Key"]


def test_one_name_serves_for_the_other_and_an_address_is_made() -> None:
    found = servers_from([{"mcpServerName": "a"}, {"mcpServerUniqueName": "b"}], url_for)

    assert [(one.mcp_server_name, one.mcp_server_unique_name) for one in found] == [
        ("a", "a"),
        ("b", "b"),
    ]
    assert found[0].url == url_for("a")


def test_words_that_mean_nothing_are_taken_for_nothing() -> None:
    (server,) = servers_from(
        [{"mcpServerName": "a", "audience": "Default", "scope": "null"}], url_for
    )

    assert (server.audience, server.scope) == (None, None)


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("text", "entry 2"),
        ({}, "entry 2"),
        ({"mcpServerName": " "}, "entry 2"),
        ({"mcpServerName": 7}, "entry 2"),
        ({"mcpServerName": "bad", "url": 7}, "bad"),
        ({"mcpServerName": "bad", "url": "ftp://x"}, "bad"),
        ({"mcpServerName": "bad", "url": "http://["}, "bad"),
        ({"mcpServerName": "bad", "headers": []}, "bad"),
        ({"mcpServerName": "bad", "headers": {"a": 1}}, "bad"),
        ({"mcpServerName": "bad", "headers": {"X-Key": "ü"}}, "bad"),
        ({"mcpServerName": "bad", "headers": {"X Key": "a"}}, "bad"),
        ({"mcpServerName": "bad", "headers": {"X-Key": "a\nb: c"}}, "bad"),
        ({"mcpServerName": "bad", "scope": {}}, "bad"),
        ({"mcpServerName": "good"}, "good"),
        ({"mcpServerName": "same address", "url": url_for("good")}, "same address"),
    ],
)
def test_a_bad_entry_is_left_out_by_name(entry: object, name: str) -> None:
    found = servers_from([{"mcpServerName": "good"}, entry, {"mcpServerName": "last"}], url_for)

    assert [one.mcp_server_name for one in found] == ["good", "last"]
    assert [one.name for one in found.skipped] == [name]


def test_of_two_with_one_name_the_second_takes_its_unique_name() -> None:
    second = {
        "mcpServerName": "mail",
        "mcpServerUniqueName": "mail_2",
        "url": "https://two.example",
    }
    found = servers_from([{"mcpServerName": "mail"}, second], url_for)

    assert [one.mcp_server_name for one in found] == ["mail", "mail_2"]


def test_a_list_and_an_object_with_a_list_are_the_same() -> None:
    assert entries_of([1]) == entries_of({"mcpServers": [1]}) == [1]
    assert entries_of({"servers": []}) is None
    assert entries_of("text") is None
    assert entries_of({"mcpServers": {}}) is None


entries: Any = st.lists(
    st.dictionaries(
        st.sampled_from(["mcpServerName", "mcpServerUniqueName", "url", "scope", "headers"]),
        st.one_of(
            st.none(), st.integers(), st.sampled_from(["a", "b", "", "http://a", "https://b"])
        ),
    )
    | st.integers()
)


@given(entries)
def test_every_entry_is_a_server_or_left_out_and_no_name_comes_twice(given: list[object]) -> None:
    found = servers_from(given, url_for)

    assert len(found) + len(found.skipped) == len(given)
    names = [one.mcp_server_name for one in found]
    assert len(set(names)) == len(names)
    assert len({one.url for one in found}) == len(found)
