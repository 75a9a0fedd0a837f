"""Moving the servers of other programs behind plait, and back."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from plait.cli import main

CLAUDE = {
    "numStartups": 3,
    "mcpServers": {
        "github": {
            "type": "stdio",
            "command": "npx",
            "args": ["-y", "github"],
            "env": {"GITHUB_TOKEN": "ghp_abcdefgh12345678"},
        },
        "docs": {"type": "http", "url": "https://docs.example/mcp"},
    },
    "projects": {"/work": {"mcpServers": {"own": {"command": "x"}}}},
}
CODEX = """\
model = "gpt"  # a comment

[mcp_servers.files]
command = "npx"
args = ["-y", "files"]
startup_timeout_sec = 30

[mcp_servers.files.env]
ROOT = "/srv"

[mcp_servers."far away"]
url = "https://far.example/mcp"
bearer_token_env_var = "FAR_TOKEN"

[profiles.quick]
model = "small"
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user who has plait nowhere yet."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.delenv("PLAIT_CONFIG", raising=False)
    return tmp_path


def _run(*arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(main, ["serve", *arguments], input=answer)


def _own(home: Path) -> dict[str, Any]:
    return json.loads((home / ".config" / "plait" / "mcp.json").read_text())["mcpServers"]


def _write(home: Path, program: str) -> Path:
    file = home / {"claude-code": ".claude.json", "cursor": ".cursor/mcp.json"}.get(
        program, ".codex/config.toml"
    )
    file.parent.mkdir(exist_ok=True)
    text = CODEX if program == "codex" else json.dumps(CLAUDE, indent=3)
    file.write_text(text)
    return file


@pytest.mark.parametrize("program", ["claude-code", "codex", "cursor"])
def test_a_program_gets_one_server_and_its_file_back_byte_for_byte(
    home: Path, program: str
) -> None:
    file = _write(home, program)
    before = file.read_bytes()

    installed = _run("install", program, "--yes")
    text = file.read_text()
    again = _run("install", program, "--yes")
    removed = _run("uninstall", program)

    assert installed.exit_code == 0, installed.output
    document = tomllib.loads(text) if program == "codex" else json.loads(text)
    servers = document["mcp_servers" if program == "codex" else "mcpServers"]
    assert list(servers) == ["plait"]
    assert servers["plait"]["args"][-3:-1] == ["serve", "--config"]
    assert "already" in again.output
    assert removed.exit_code == 0, removed.output
    assert file.read_bytes() == before
    assert sorted(path.name for path in file.parent.glob("*before-plait")) == []


def test_everything_else_in_the_file_stays(home: Path) -> None:
    claude, codex = _write(home, "claude-code"), _write(home, "codex")

    assert _run("install", "claude-code", "--yes").exit_code == 0
    assert _run("install", "codex", "--yes").exit_code == 0

    changed = json.loads(claude.read_text())
    assert {**changed, "mcpServers": None} == {**CLAUDE, "mcpServers": None}
    assert codex.read_text().startswith('model = "gpt"  # a comment\n')
    assert tomllib.loads(codex.read_text())["profiles"] == {"quick": {"model": "small"}}
    assert _own(home) == {
        **CLAUDE["mcpServers"],  # pyright: ignore[reportGeneralTypeIssues]
        "files": {
            "command": "npx",
            "args": ["-y", "files"],
            "env": {"ROOT": "/srv"},
            "connect_timeout": 30,
        },
        "far away": {
            "url": "https://far.example/mcp",
            "headers": {"Authorization": "Bearer ${FAR_TOKEN}"},
        },
    }


def test_what_the_program_changed_meanwhile_is_kept(home: Path) -> None:
    file = _write(home, "claude-code")
    _run("install", "claude-code", "--yes")
    file.write_text(json.dumps({**json.loads(file.read_text()), "numStartups": 4}))

    _run("uninstall", "claude-code")

    assert json.loads(file.read_text()) == {**CLAUDE, "numStartups": 4}


def test_the_change_is_shown_without_secrets_and_can_be_refused(home: Path) -> None:
    file = _write(home, "cursor")
    before = file.read_bytes()

    refused = _run("install", "cursor", answer="n\n")

    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (130, "stopped: not confirmed")
    assert "move github to" in refused.output
    assert '-   "mcpServers": {' in refused.output
    assert "ghp_abcdefgh12345678" not in refused.output
    assert file.read_bytes() == before
    assert not (home / ".config" / "plait" / "mcp.json").exists()


def test_a_file_that_cannot_be_read_is_left_alone(home: Path) -> None:
    file = home / ".claude.json"
    file.write_text("{broken")

    failed = _run("install", "claude-code", "--yes")

    assert failed.exit_code != 0
    assert str(file) in failed.output
    assert file.read_text() == "{broken"


@pytest.mark.parametrize("program", ["claude-code", "codex", "cursor"])
@pytest.mark.parametrize("words", [[], ["--config", "other.json"]])
def test_line_ends_a_byte_order_mark_and_another_file_do_not_matter(
    home: Path, program: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    file = _write(home, program)
    before = b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n")
    file.write_bytes(before)

    installed = _run("install", program, "--yes", *words)
    removed = _run("uninstall", program)

    assert (installed.exit_code, removed.exit_code) == (0, 0), installed.output + removed.output
    assert file.read_bytes() == before


def test_a_file_that_is_a_link_stays_one(home: Path) -> None:
    file = _write(home, "claude-code")
    kept = file.rename(home / "dotfiles.json")
    file.symlink_to(kept)

    assert _run("install", "claude-code", "--yes").exit_code == 0

    assert file.is_symlink()
    assert list(json.loads(kept.read_text())["mcpServers"]) == ["plait"]


def test_comments_on_what_follows_the_servers_stay(home: Path) -> None:
    file = _write(home, "codex")
    comment = "# My profiles,\n# with care\n[profiles.quick]"
    file.write_text(CODEX.replace("[profiles.quick]", comment))

    assert _run("install", "codex", "--yes").exit_code == 0

    assert f"\n{comment}\n" in file.read_text()


def test_servers_of_single_projects_stay_with_them(home: Path) -> None:
    projects = {"/one": {"mcpServers": {"own": {"command": "x"}}}, "/two": {"mcpServers": {}}}
    file = _write(home, "claude-code")
    file.write_text(json.dumps({**CLAUDE, "projects": projects}))

    installed = _run("install", "claude-code", "--yes")

    assert "the servers of the project /one stay in" in installed.output
    assert "/two" not in installed.output.partition("---")[0]
    assert json.loads(file.read_text())["projects"] == projects


def test_no_module_of_the_current_folder_runs_in_place_of_plait(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(home / "python"))  # no program beside it
    file = _write(home, "cursor")

    assert _run("install", "cursor", "--yes").exit_code == 0

    entry = json.loads(file.read_text())["mcpServers"]["plait"]
    assert entry["args"][:3] == ["-P", "-m", "plait"]
