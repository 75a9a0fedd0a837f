"""The servers of other programs are found, wherever those keep them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plait.cli.commands.init import discover_editor_configs


def write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


SERVERS = {"files": {"command": "npx", "env": {"TOKEN": "${TOKEN}"}}}


@pytest.mark.parametrize(
    ("editor", "place", "value"),
    [
        (
            "Claude Desktop",
            "home/Library/Application Support/Claude/claude_desktop_config.json",
            {"mcpServers": SERVERS, "scale": 1},
        ),
        (
            "Claude Desktop",
            "home/.config/Claude/claude_desktop_config.json",
            {"mcpServers": SERVERS},
        ),
        (
            "Claude Desktop",
            "roaming/Claude/claude_desktop_config.json",
            {"mcpServers": SERVERS},
        ),
        ("Claude Code", "home/.claude.json", {"mcpServers": SERVERS, "numStartups": 9}),
        ("Claude Code", "work/.mcp.json", {"mcpServers": SERVERS}),
        ("Cursor", "home/.cursor/mcp.json", {"mcpServers": SERVERS}),
        ("Cursor", "work/.cursor/mcp.json", {"mcpServers": SERVERS}),
        ("VS Code", "work/.vscode/mcp.json", {"servers": SERVERS}),
        ("VS Code", "work/.vscode/settings.json", {"mcp": {"servers": SERVERS}}),
        ("VS Code", "home/.config/Code/User/mcp.json", {"servers": SERVERS}),
        (
            "VS Code",
            "home/Library/Application Support/Code/User/settings.json",
            {"mcp": {"servers": SERVERS}, "servers": {"not": {"ours": 1}}},
        ),
        ("VS Code", "roaming/Code - Insiders/User/mcp.json", {"servers": SERVERS}),
    ],
)
def test_a_file_is_found_where_its_program_keeps_it(
    tmp_path: Path, editor: str, place: str, value: object
) -> None:
    path = write(tmp_path / place, value)

    (found,) = discover_editor_configs(
        tmp_path / "home", tmp_path / "work", {"APPDATA": str(tmp_path / "roaming")}
    )

    assert (found.editor, found.path, found.problems) == (editor, path, ())
    assert found.servers == SERVERS


def test_claude_code_keeps_servers_per_project(tmp_path: Path) -> None:
    home, cwd = tmp_path / "home", tmp_path / "work"
    write(
        home / ".claude.json",
        {
            "mcpServers": {"everywhere": {"command": "a"}},
            "projects": {
                str(cwd): {"mcpServers": {"here": {"command": "b"}}},
                str(tmp_path / "other"): {"mcpServers": {"there": {"command": "c"}}},
                "broken": None,
            },
        },
    )

    (found,) = discover_editor_configs(home, cwd / "sub", {})

    assert list(found.servers) == ["everywhere", "here"]


def test_inputs_come_along(tmp_path: Path) -> None:
    inputs = [{"id": "key", "type": "promptString", "password": True}]
    write(tmp_path / ".vscode" / "mcp.json", {"servers": SERVERS, "inputs": inputs})

    (found,) = discover_editor_configs(tmp_path / "home", tmp_path, {})

    assert found.inputs == ({"id": "key", "type": "promptString", "password": True},)


def test_a_broken_file_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    broken = write(tmp_path / ".cursor" / "mcp.json", '{"mcpServers": {')
    odd = write(tmp_path / ".vscode" / "mcp.json", [])
    write(tmp_path / ".vscode" / "settings.json", {"editor.fontSize": 12})
    write(tmp_path / ".mcp.json", {"mcpServers": {**SERVERS, "odd": 7}})

    found = discover_editor_configs(tmp_path / "home", tmp_path, {})

    assert [(config.path, len(config.servers)) for config in found] == [
        (tmp_path / ".mcp.json", 1),
        (broken, 0),
        (odd, 0),
    ]
    assert [problem.code for config in found for problem in config.problems] == [
        "json_syntax",
        "wrong_type",
    ]


def test_a_machine_without_any_of_them_has_none(tmp_path: Path) -> None:
    assert discover_editor_configs(tmp_path, tmp_path, {}) == []


def test_what_was_found_is_not_shown(tmp_path: Path) -> None:
    write(tmp_path / ".mcp.json", {"mcpServers": {"a": {"env": {"TOKEN": "CANARY"}}}})

    assert "CANARY" not in repr(discover_editor_configs(tmp_path / "home", tmp_path, {}))
