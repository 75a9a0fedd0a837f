"""`plait init` writes a configuration and never destroys one."""

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from plait.cli import main
from plait.client.config.read import read_config


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "APPDATA", "PLAIT_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return work


def cursor(folder: Path, servers: dict[str, object]) -> Path:
    path = folder.parent / "home" / ".cursor" / "mcp.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["init", *arguments])


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_in_an_empty_folder_it_writes_a_starter_that_can_be_read(folder: Path) -> None:
    result = run()

    assert result.exit_code == 0
    assert list(read_config(folder / "mcp.json").servers) == ["files", "time"]
    assert mode_of(folder / "mcp.json") == 0o644
    assert result.stdout.splitlines() == [
        "wrote mcp.json: 2 servers (files, time)",
        "",
        "Next:",
        "  plait servers",
        "  plait tools",
    ]


def test_an_existing_file_is_left_alone(folder: Path) -> None:
    (folder / "mcp.json").write_text("mine")

    result = run()

    assert result.exit_code == 4
    assert (folder / "mcp.json").read_text() == "mine"
    assert "--force replaces it" in result.stderr


def test_force_replaces_the_file_and_leaves_nothing_else(folder: Path) -> None:
    (folder / "mcp.json").write_text("mine")

    assert run("--force").exit_code == 0
    assert [path.name for path in folder.iterdir()] == ["mcp.json"]
    assert "mcpServers" in (folder / "mcp.json").read_text()


def test_the_servers_of_an_editor_are_imported_readable_only_by_the_owner(folder: Path) -> None:
    cursor(folder, {"git": {"command": "sh", "env": {"GIT_TOKEN": "hunter2hunter2"}}})

    result = run("--from", "cursor", "--yes")

    assert result.exit_code == 0
    assert mode_of(folder / "mcp.json") == 0o600
    written = json.loads((folder / "mcp.json").read_text())
    assert written["mcpServers"]["git"]["env"] == {"GIT_TOKEN": "hunter2hunter2"}
    assert "hunter2" not in result.output


def test_secrets_can_be_lifted_into_variables(folder: Path) -> None:
    cursor(folder, {"git": {"command": "sh", "env": {"GIT_TOKEN": "hunter2hunter2"}}})

    result = run("--from", "all", "--yes", "--lift-secrets")

    assert "hunter2" not in (folder / "mcp.json").read_text()
    assert "note: git: env.GIT_TOKEN is now ${GIT_TOKEN}" in result.stderr
    assert "GIT_TOKEN is not set" in result.stderr or "GIT_TOKEN" in result.stderr


def test_two_servers_of_one_name_are_both_kept(folder: Path) -> None:
    cursor(folder, {"git": {"command": "sh"}})
    (folder / ".mcp.json").write_text('{"mcpServers": {"git": {"command": "bash"}}}')

    result = run("--from", "all", "--yes")

    written = json.loads((folder / "mcp.json").read_text())["mcpServers"]
    assert {server["command"] for server in written.values()} == {"sh", "bash"}
    assert len(written) == 2
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


def test_a_broken_file_of_an_editor_is_named_and_left_out(folder: Path) -> None:
    path = cursor(folder, {})
    path.write_text("{ broken")

    result = run("--yes")

    assert result.exit_code == 0
    assert f"warning: skipped: {path}" in result.stderr


def test_a_path_elsewhere_is_named_in_what_to_do_next(folder: Path) -> None:
    result = run("--path", "deep/down/servers.json")

    assert (folder / "deep" / "down" / "servers.json").exists()
    assert "  plait servers --config deep/down/servers.json" in result.stdout


def test_a_program_that_is_not_installed_is_pointed_out(folder: Path) -> None:
    cursor(folder, {"odd": {"command": "no-such-program"}})

    result = run("--from", "cursor", "--yes")

    assert "note: odd needs 'no-such-program': install it, or give its full path" in result.stderr
