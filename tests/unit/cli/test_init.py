"""`plait init` writes a configuration from nothing or from other programs, and destroys none."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from plait.cli import main
from plait.cli.commands.init import (
    STARTER,
    RawServer,
    discover_editor_configs,
    merge_servers,
    to_mcp_json,
    with_lifted_secrets,
)
from plait.client.config.read import read_config
from plait.client.config.servers import StdioServer

SECRET = {"git": {"command": "sh", "env": {"GIT_TOKEN": "hunter2hunter2"}}}
SERVERS = {"files": {"command": "npx", "env": {"TOKEN": "${TOKEN}"}}}


def write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "APPDATA", "PLAIT_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return work


def cursor(folder: Path, servers: object) -> Path:
    return write(folder.parent / "home" / ".cursor" / "mcp.json", {"mcpServers": servers})


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["init", *arguments])


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_in_an_empty_folder_it_writes_a_starter_that_can_be_read(folder: Path) -> None:
    result = run()

    config = read_config(folder / "mcp.json", environ={})
    assert result.exit_code == 0
    assert config.warnings == ()
    files, time = config.servers.values()
    assert isinstance(files, StdioServer)
    assert isinstance(time, StdioServer)
    assert files.args[-1] == str(folder)
    assert (folder / "mcp.json").read_text() == to_mcp_json(STARTER)
    assert mode_of(folder / "mcp.json") == 0o644
    assert result.stdout.splitlines() == [
        "wrote mcp.json: 2 servers (files, time)",
        "",
        "Next:",
        "  plait servers",
        "  plait tools",
    ]


def test_an_existing_file_is_replaced_only_by_force(folder: Path) -> None:
    (folder / "mcp.json").write_text("mine")

    refused = run()

    assert refused.exit_code == 4
    assert (folder / "mcp.json").read_text() == "mine"
    assert "--force replaces it" in refused.stderr
    assert run("--force").exit_code == 0
    assert [path.name for path in folder.iterdir()] == ["mcp.json"]
    assert "mcpServers" in (folder / "mcp.json").read_text()


def test_the_servers_of_an_editor_are_imported_readable_only_by_the_owner(folder: Path) -> None:
    cursor(folder, SECRET)

    result = run("--from", "cursor", "--yes")

    assert result.exit_code == 0
    assert mode_of(folder / "mcp.json") == 0o600
    written = json.loads((folder / "mcp.json").read_text())
    assert written["mcpServers"]["git"]["env"] == {"GIT_TOKEN": "hunter2hunter2"}
    assert "hunter2" not in result.output


def test_secrets_can_be_lifted_into_variables(folder: Path) -> None:
    cursor(folder, SECRET)

    result = run("--from", "all", "--yes", "--lift-secrets")

    assert "hunter2" not in (folder / "mcp.json").read_text()
    assert "note: git: env.GIT_TOKEN is now ${GIT_TOKEN}" in result.stderr


def test_two_servers_of_one_name_are_both_kept(folder: Path) -> None:
    cursor(folder, {"git": {"command": "sh"}})
    write(folder / ".mcp.json", {"mcpServers": {"git": {"command": "bash"}}})

    result = run("--from", "all", "--yes")

    written = json.loads((folder / "mcp.json").read_text())["mcpServers"]
    assert sorted(server["command"] for server in written.values()) == ["bash", "sh"]
    assert "is renamed to" in result.stderr


def test_without_a_terminal_nothing_is_imported_unasked(folder: Path) -> None:
    cursor(folder, {"git": {"command": "sh"}})

    result = run()

    assert list(read_config(folder / "mcp.json").servers) == ["files", "time"]
    assert "Cursor (~/.cursor/mcp.json): git" in result.stderr
    assert "hint: import them with --from all" in result.stderr


def test_an_editor_without_servers_is_an_error(folder: Path) -> None:
    result = run("--from", "vscode")

    assert result.exit_code == 4
    assert "found no servers of VS Code" in result.stderr
    assert not (folder / "mcp.json").exists()


def test_what_needs_attention_is_said(folder: Path) -> None:
    path = cursor(folder, {"odd": {"command": "no-such-program"}})
    broken = write(folder / ".mcp.json", "{ broken")

    result = run("--from", "all", "--yes", "--path", "deep/down/servers.json")

    assert (folder / "deep" / "down" / "servers.json").exists()
    assert f"warning: skipped: {broken}" in result.stderr
    assert "note: odd needs 'no-such-program': install it, or give its full path" in result.stderr
    assert "  plait servers --config deep/down/servers.json" in result.stdout
    assert path.exists()


NAMES = st.dictionaries(
    st.sampled_from(["a", "b", "a-2", "a/b", "a-b", " "]),
    st.fixed_dictionaries({"command": st.sampled_from(["x", "y"])}),
)


@given(NAMES, NAMES)
def test_a_merge_keeps_what_was_there_and_loses_nothing(
    existing: dict[str, dict[str, Any]], found: dict[str, dict[str, Any]]
) -> None:
    merged, _ = merge_servers(existing, found)

    assert merged.items() >= existing.items()
    assert len(existing) <= len(merged) <= len(existing) + len(found)
    assert all(server in merged.values() for server in found.values())
    assert all("/" not in name and name.strip() for name in merged.keys() - existing.keys())


def test_a_taken_name_is_changed_and_the_same_server_is_not_added_twice() -> None:
    made: list[RawServer] = [{"command": name} for name in ("f", "o", "t", "g", "w")]
    files, other, time, git, wiki = made
    found = {"files": other, "time": time, "git": git, "team/wiki": wiki}

    servers, renamed = merge_servers({"files": files, "time": time}, found, label="cursor")

    new = {"files-cursor": other, "git": git, "team-wiki": wiki}
    assert servers == {"files": files, "time": time, **new}
    assert renamed == {"files": "files-cursor", "team/wiki": "team-wiki"}


def test_the_text_is_pretty_and_keeps_variables_and_inputs() -> None:
    text = to_mcp_json({"é": {"url": "https://${HOST}/"}}, inputs=[{"id": "key"}])

    assert text == (
        '{\n  "mcpServers": {\n    "é": {\n      "url": "https://${HOST}/"\n    }\n  },\n'
        '  "inputs": [\n    {\n      "id": "key"\n    }\n  ]\n}\n'
    )


@pytest.mark.parametrize(
    ("server", "part", "literal", "lifted"),
    [
        ("a", "env", {"GITHUB_TOKEN": "one", "N": 1}, {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "N": 1}),
        ("gh2", "env", {"GITHUB_TOKEN": "two"}, {"GITHUB_TOKEN": "${GH2_GITHUB_TOKEN}"}),
        ("a", "env", {"API_KEY": "${KEY}", "MODE": "x"}, {"API_KEY": "${KEY}", "MODE": "x"}),
        (
            "web-1",
            "headers",
            {"Authorization": "Bearer three", "Accept": "*"},
            {"Authorization": "Bearer ${WEB_1_AUTHORIZATION}", "Accept": "*"},
        ),
    ],
    ids=["a variable", "another value of one name", "no secret", "a scheme stays"],
)
def test_literal_secrets_are_lifted_into_variables(
    server: str, part: str, literal: dict[str, object], lifted: dict[str, object]
) -> None:
    first: RawServer = {"command": "x", "env": {"GITHUB_TOKEN": "one"}}

    servers, notes = with_lifted_secrets({"first": first, server: {part: literal}})

    assert servers[server] == {part: lifted}
    changed = [name for name in literal if literal[name] != lifted[name]]
    variables = [str(lifted[name]).rpartition("$")[2] for name in changed]
    texts = [
        f"{server}: {part}.{name} is now ${variable}"
        for name, variable in zip(changed, variables, strict=True)
    ]
    assert notes == ["first: env.GITHUB_TOKEN is now ${GITHUB_TOKEN}", *texts]


MCP, PLAIN = {"mcpServers": SERVERS}, {"servers": SERVERS}
LIBRARY = "home/Library/Application Support"


@pytest.mark.parametrize(
    ("editor", "place", "value"),
    [
        ("Claude Desktop", f"{LIBRARY}/Claude/claude_desktop_config.json", {**MCP, "scale": 1}),
        ("Claude Desktop", "home/.config/Claude/claude_desktop_config.json", MCP),
        ("Claude Desktop", "roaming/Claude/claude_desktop_config.json", MCP),
        ("Claude Code", "home/.claude.json", {**MCP, "numStartups": 9}),
        ("Claude Code", "work/.mcp.json", MCP),
        ("Cursor", "home/.cursor/mcp.json", MCP),
        ("Cursor", "work/.cursor/mcp.json", MCP),
        ("VS Code", "work/.vscode/mcp.json", PLAIN),
        ("VS Code", "work/.vscode/settings.json", {"mcp": PLAIN}),
        ("VS Code", "home/.config/Code/User/mcp.json", PLAIN),
        ("VS Code", f"{LIBRARY}/Code/User/settings.json", {"mcp": PLAIN, "servers": {"x": {}}}),
        ("VS Code", "roaming/Code - Insiders/User/mcp.json", PLAIN),
    ],
)
def test_a_file_is_found_where_its_program_keeps_it(
    tmp_path: Path, editor: str, place: str, value: object
) -> None:
    path = write(tmp_path / place, value)
    roaming = {"APPDATA": str(tmp_path / "roaming")}

    (found,) = discover_editor_configs(tmp_path / "home", tmp_path / "work", roaming)

    assert (found.editor, found.path, found.problems) == (editor, path, ())
    assert found.servers == SERVERS


def test_claude_code_keeps_servers_per_project(tmp_path: Path) -> None:
    home, cwd = tmp_path / "home", tmp_path / "work"
    projects = {
        str(cwd): {"mcpServers": {"here": {"command": "b"}}},
        str(tmp_path / "other"): {"mcpServers": {"there": {"command": "c"}}},
        "broken": None,
    }
    everywhere = {"everywhere": {"command": "a"}}
    write(home / ".claude.json", {"mcpServers": everywhere, "projects": projects})

    (found,) = discover_editor_configs(home, cwd / "sub", {})

    assert list(found.servers) == ["everywhere", "here"]


def test_inputs_come_along_and_nothing_that_was_found_is_shown(tmp_path: Path) -> None:
    inputs = [{"id": "key", "type": "promptString", "password": True}]
    servers = {"a": {"env": {"TOKEN": "CANARY"}}}
    write(tmp_path / ".vscode" / "mcp.json", {"servers": servers, "inputs": inputs})

    (found,) = discover_editor_configs(tmp_path / "home", tmp_path, {})

    assert list(found.inputs) == inputs
    assert "CANARY" not in repr(found)


def test_a_broken_file_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    assert discover_editor_configs(tmp_path, tmp_path, {}) == []
    broken = write(tmp_path / ".cursor" / "mcp.json", '{"mcpServers": {')
    odd = write(tmp_path / ".vscode" / "mcp.json", [])
    write(tmp_path / ".vscode" / "settings.json", {"editor.fontSize": 12})
    good = write(tmp_path / ".mcp.json", {"mcpServers": {**SERVERS, "odd": 7}})

    found = discover_editor_configs(tmp_path / "home", tmp_path, {})

    listed = [(config.path, len(config.servers)) for config in found]
    assert listed == [(good, 1), (broken, 0), (odd, 0)]
    codes = [problem.code for config in found for problem in config.problems]
    assert codes == ["json_syntax", "wrong_type"]
