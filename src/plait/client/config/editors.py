"""Finding the servers that other programs on this machine have configured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from plait.client.config.document import read_json_file
from plait.client.config.problems import Location, Problems
from plait.client.config.raw_value import as_list, as_mapping

if TYPE_CHECKING:
    from plait.errors import Problem

RawServer = dict[str, object]
"""A server as it was written, its variables not replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorConfig:
    """The servers that one file of another program holds."""

    editor: str
    """The display name of the program."""
    path: Path
    servers: dict[str, RawServer] = field(default_factory=dict[str, RawServer], repr=False)
    inputs: tuple[RawServer, ...] = field(default=(), repr=False)
    """Values to prompt for, as VS Code writes them."""
    problems: tuple[Problem, ...] = ()
    """Why the file could not be read."""


def discover_editor_configs(
    home: Path, cwd: Path, environ: Mapping[str, str]
) -> list[EditorConfig]:
    """Find every file of a known program that holds servers, or that is broken.

    Nothing is expanded, started or raised; files without servers are left out.
    """
    configs = [
        _read(editor, path, cwd)
        for editor, path in _candidates(home, cwd, environ)
        if path.is_file()
    ]
    return [config for config in configs if config.servers or config.problems]


def _candidates(home: Path, cwd: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    applications = _application_folders(home, environ)
    for folder in applications:
        yield "Claude Desktop", folder / "Claude" / "claude_desktop_config.json"
    yield "Claude Code", home / ".claude.json"
    yield "Claude Code", cwd / ".mcp.json"
    yield "Cursor", home / ".cursor" / "mcp.json"
    yield "Cursor", cwd / ".cursor" / "mcp.json"
    for folder in applications:
        for product in ("Code", "Code - Insiders"):
            yield "VS Code", folder / product / "User" / "mcp.json"
            yield "VS Code", folder / product / "User" / "settings.json"
    yield "VS Code", cwd / ".vscode" / "mcp.json"
    yield "VS Code", cwd / ".vscode" / "settings.json"


def _application_folders(home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of application settings on macOS, Linux and Windows."""
    return (
        home / "Library" / "Application Support",
        Path(environ.get("XDG_CONFIG_HOME") or home / ".config"),
        Path(environ.get("APPDATA") or home / "AppData" / "Roaming"),
    )


def _read(editor: str, path: Path, cwd: Path) -> EditorConfig:
    problems = Problems()
    entries = read_json_file(path, Location(problems, file=str(path))) or {}
    settings = as_mapping(entries.get("mcp")) or {}
    inputs = as_list(entries.get("inputs") or settings.get("inputs")) or ()
    lists = (
        entries.get("mcpServers"),
        None if path.name == "settings.json" else entries.get("servers"),
        settings.get("servers"),
        *_project_lists(entries, cwd),
    )
    return EditorConfig(
        editor=editor,
        path=path,
        servers={
            name: _raw(entry)
            for listed in lists
            for name, entry in (as_mapping(listed) or {}).items()
            if isinstance(name, str) and as_mapping(entry) is not None
        },
        inputs=tuple(_raw(entry) for entry in inputs if as_mapping(entry) is not None),
        problems=tuple(problems.errors),
    )


def _project_lists(entries: Mapping[str, object], cwd: Path) -> Iterator[object]:
    """Yield the servers that Claude Code has for the current folder, or one above it."""
    for folder, project in (as_mapping(entries.get("projects")) or {}).items():
        if isinstance(folder, str) and cwd.is_relative_to(folder):
            yield (as_mapping(project) or {}).get("mcpServers")


def _raw(value: object) -> RawServer:
    return {str(key): entry for key, entry in (as_mapping(value) or {}).items()}
