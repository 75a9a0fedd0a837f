"""An mcp.json is made without losing or exposing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plait.cli.commands.init import (
    STARTER,
    merge_servers,
    to_mcp_json,
    with_lifted_secrets,
)
from plait.client.config.read import read_config
from plait.client.config.servers import StdioServer

servers = st.dictionaries(
    st.sampled_from(["a", "b", "a-2", "a/b", "a-b", " "]),
    st.fixed_dictionaries({"command": st.sampled_from(["x", "y"])}),
)


def test_the_starter_can_be_read_and_speaks_for_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(to_mcp_json(STARTER))

    config = read_config(path, environ={})

    assert config.warnings == ()
    files, time = config.servers.values()
    assert isinstance(files, StdioServer)
    assert files.args[-1] == str(tmp_path)
    assert isinstance(time, StdioServer)


def test_a_taken_name_is_changed_and_the_same_server_is_not_added_twice() -> None:
    existing: dict[str, dict[str, Any]] = {"files": {"command": "a"}, "time": {"command": "t"}}
    found: dict[str, dict[str, Any]] = {
        "files": {"command": "b"},
        "time": {"command": "t"},
        "git": {"command": "g"},
        "team/wiki": {"command": "w"},
    }

    servers, renamed = merge_servers(existing, found, label="cursor")

    assert servers == {
        "files": {"command": "a"},
        "time": {"command": "t"},
        "files-cursor": {"command": "b"},
        "git": {"command": "g"},
        "team-wiki": {"command": "w"},
    }
    assert renamed == {"files": "files-cursor", "team/wiki": "team-wiki"}


@given(servers, servers)
def test_a_merge_keeps_what_was_there_and_loses_nothing(
    existing: dict[str, dict[str, Any]], found: dict[str, dict[str, Any]]
) -> None:
    merged, _ = merge_servers(existing, found)

    assert merged.items() >= existing.items()
    assert len(existing) <= len(merged) <= len(existing) + len(found)
    assert all(server in merged.values() for server in found.values())
    assert all("/" not in name and name.strip() for name in merged.keys() - existing.keys())


def test_the_text_is_pretty_and_keeps_variables_and_inputs() -> None:
    text = to_mcp_json({"é": {"url": "https://${HOST}/"}}, inputs=[{"id": "key"}])

    assert text == (
        '{\n  "mcpServers": {\n    "é": {\n      "url": "https://${HOST}/"\n    }\n  },\n'
        '  "inputs": [\n    {\n      "id": "key"\n    }\n  ]\n}\n'
    )


def test_literal_secrets_are_lifted_into_variables() -> None:
    lifted, notes = with_lifted_secrets(
        {
            "gh": {"command": "a", "env": {"GITHUB_TOKEN": "one", "MODE": "fast", "N": 1}},
            "gh2": {"command": "a", "env": {"GITHUB_TOKEN": "two", "API_KEY": "${KEY}"}},
            "gh3": {"command": "a", "env": {"GITHUB_TOKEN": "one"}},
            "web-1": {
                "url": "https://example.com",
                "headers": {"Authorization": "Bearer three", "X-API-Key": "four", "Accept": "*"},
            },
        }
    )

    assert lifted == {
        "gh": {"command": "a", "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "MODE": "fast", "N": 1}},
        "gh2": {
            "command": "a",
            "env": {"GITHUB_TOKEN": "${GH2_GITHUB_TOKEN}", "API_KEY": "${KEY}"},
        },
        "gh3": {"command": "a", "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}},
        "web-1": {
            "url": "https://example.com",
            "headers": {
                "Authorization": "Bearer ${WEB_1_AUTHORIZATION}",
                "X-API-Key": "${WEB_1_X_API_KEY}",
                "Accept": "*",
            },
        },
    }
    assert notes == [
        "gh: env.GITHUB_TOKEN is now ${GITHUB_TOKEN}",
        "gh2: env.GITHUB_TOKEN is now ${GH2_GITHUB_TOKEN}",
        "gh3: env.GITHUB_TOKEN is now ${GITHUB_TOKEN}",
        "web-1: headers.Authorization is now ${WEB_1_AUTHORIZATION}",
        "web-1: headers.X-API-Key is now ${WEB_1_X_API_KEY}",
    ]
