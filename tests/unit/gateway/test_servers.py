"""Entries of servers, and the `ToolingManifest.json` that holds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.errors import ManifestError
from plait.gateway import GatewayServer
from plait.gateway.manifest import (
    FILE,
    add_entries,
    entries_of,
    find_manifest,
    manifest_places,
    read_manifest,
    remove_entries,
    servers_from,
)


def url_for(name: str) -> str:
    return f"https://gateway.example/agents/servers/{name}"


def test_an_entry_is_read_whole_and_its_secrets_are_not_shown() -> None:
    names = {"mcpServerName": "mcp_Mail", "mcpServerUniqueName": "mcp_Mail_contoso"}
    fields = {
        "url": "https://mail.example/mcp",
        "headers": {"X-Key": "abc"},
        "scope": "McpServers.Mail.All",
        "audience": "other",
        "publisher": "Contoso",
    }

    (server,) = servers_from([{**names, **fields, "capabilities": ["send"]}], url_for)

    assert server == GatewayServer(
        mcp_server_name="mcp_Mail",
        mcp_server_unique_name="mcp_Mail_contoso",
        tools=("send",),
        **fields,  # pyright: ignore[reportArgumentType]  # as in the entry
    )
    assert "abc" not in repr(server)
    assert server.to_dict()["headers"] == ["X-Key"]


def test_one_name_serves_for_the_other_and_words_that_mean_nothing_are_nothing() -> None:
    first = {"mcpServerName": "a", "audience": "Default", "scope": "null"}
    found = servers_from([first, {"mcpServerUniqueName": "b"}], url_for)

    names = [(one.mcp_server_name, one.mcp_server_unique_name) for one in found]
    assert names == [("a", "a"), ("b", "b")]
    assert (found[0].url, found[0].audience, found[0].scope) == (url_for("a"), None, None)


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
    other = {"mcpServerUniqueName": "mail_2", "url": "https://two.example"}
    found = servers_from([{"mcpServerName": "mail"}, {"mcpServerName": "mail", **other}], url_for)

    assert [one.mcp_server_name for one in found] == ["mail", "mail_2"]


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ([1], [1]),
        ({"mcpServers": [1]}, [1]),
        ({"servers": []}, None),
        ("text", None),
        ({"mcpServers": {}}, None),
    ],
)
def test_a_list_and_an_object_with_a_list_are_the_same(document: object, found: object) -> None:
    assert entries_of(document) == found


ENTRIES: Any = st.lists(
    st.dictionaries(
        st.sampled_from(["mcpServerName", "mcpServerUniqueName", "url", "scope", "headers"]),
        st.one_of(
            st.none(), st.integers(), st.sampled_from(["a", "b", "", "http://a", "https://b"])
        ),
    )
    | st.integers()
)


@given(ENTRIES)
def test_every_entry_is_a_server_or_left_out_and_no_name_comes_twice(given: list[object]) -> None:
    found = servers_from(given, url_for)

    assert len(found) + len(found.skipped) == len(given)
    assert len({one.mcp_server_name for one in found}) == len(found)
    assert len({one.url for one in found}) == len(found)


def test_the_file_is_searched_here_then_above_then_beside_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    inner = tmp_path / "project"
    inner.mkdir()
    monkeypatch.chdir(inner)
    monkeypatch.setattr("sys.argv", [""])
    program = tmp_path / "bin" / "run.py"

    places = manifest_places(inner, str(program))

    assert places == [inner / FILE, tmp_path / FILE, program.parent / FILE]
    assert len(read_manifest(None, url_for)) == 0
    assert FILE in caplog.text
    for place in (tmp_path / FILE, inner / FILE):  # the nearest is taken
        place.write_text("{}")
        assert find_manifest() == place


def test_a_file_may_have_comments_and_a_mark_at_its_start(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_text('\ufeff{"mcpServers": [ // ours\n {"mcpServerName": "mail"}, ]}', "utf-8")

    found = read_manifest(path, url_for)

    assert [(one.mcp_server_name, one.url) for one in found] == [("mail", url_for("mail"))]


def test_a_file_without_a_list_has_no_servers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_text('{"servers": []}')

    assert len(read_manifest(tmp_path / FILE, url_for)) == 0
    assert "no list mcpServers" in caplog.text


def test_a_file_that_cannot_be_read_is_an_error_that_says_where(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"mcpServers": [\n{"mcpServerName": }]}')

    with pytest.raises(ManifestError, match=rf"^Failed to read MCP servers from {FILE}: .*line 2"):
        read_manifest(tmp_path / FILE, url_for)
    with pytest.raises(ManifestError, match="there is no"):
        read_manifest(tmp_path / "other.json", url_for)


def test_entries_are_added_replaced_and_removed(tmp_path: Path) -> None:
    path = tmp_path / FILE
    mail = {"mcpServerName": "mail"}

    assert add_entries(path, [{**mail, "scope": "a"}]) == ["mail"]
    assert add_entries(path, [{**mail, "url": "https://x"}, {"mcpServerName": "b"}]) == ["b"]
    assert json.loads(path.read_text())["mcpServers"] == [
        {**mail, "scope": "a", "url": "https://x"},
        {"mcpServerName": "b"},
    ]
    assert remove_entries(path, ["mail", "nobody"]) == ["mail"]
    assert json.loads(path.read_text()) == {"mcpServers": [{"mcpServerName": "b"}]}
    assert [one.name for one in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '{"version": 3, "mcpServers": ["odd"]}',
            {"version": 3, "mcpServers": ["odd", {"mcpServerName": "mail"}]},
        ),
        ("[]", None),
    ],
    ids=["what else is in the file stays", "what is no object is not written over"],
)
def test_a_file_of_others_is_changed_only_where_it_must(
    tmp_path: Path, before: str, after: object
) -> None:
    path = tmp_path / FILE
    path.write_text(before)

    if after is None:
        with pytest.raises(ManifestError):
            add_entries(path, [{"mcpServerName": "mail"}])
        assert path.read_text() == before
    else:
        add_entries(path, [{"mcpServerName": "mail"}])
        assert json.loads(path.read_text()) == after
