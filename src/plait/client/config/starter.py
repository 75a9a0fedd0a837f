"""Creating an mcp.json: a first one, or one from the servers of other programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from plait._support.redact import looks_secret
from plait.client.config.document import read_json_file
from plait.client.config.raw_value import Location, Problems, as_list, as_mapping

if TYPE_CHECKING:
    from plait.errors import Problem

RawServer = dict[str, object]
"""A server as it was written, its variables not replaced."""

_SCHEME = re.compile(r"(?:bearer|basic|token)\s+", re.IGNORECASE)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedServers:
    """The result of adding servers to others."""

    servers: dict[str, RawServer] = field(repr=False)
    added: tuple[str, ...] = ()
    """The new names, in order."""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """New names of added servers whose name was taken or not allowed, by old name."""
    skipped: tuple[str, ...] = ()
    """Servers that were already there, identically."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiftedSecret:
    """A literal secret that was replaced by a variable."""

    server: str
    path: str
    """Where it was, such as `env.GITHUB_TOKEN`."""
    variable: str
    """The environment variable that must now hold it."""


def starter_config() -> dict[str, object]:
    """Return a first configuration: the files beside it, and the time."""
    return {
        "mcpServers": {
            "files": {
                "command": "npx",
                "args": ["-y", "@modelcontextprotocol/server-filesystem", "${workspaceFolder}"],
            },
            "time": {"command": "uvx", "args": ["mcp-server-time"]},
        }
    }


def merge_servers(
    existing: Mapping[str, RawServer], new: Mapping[str, RawServer], *, label: str = ""
) -> MergedServers:
    """Add servers to others without ever replacing one.

    A server whose name is taken gets a new name, with `label` if there is one (`files-cursor`),
    else with a number.
    """
    servers = dict(existing)
    added: list[str] = []
    renamed: dict[str, str] = {}
    skipped: list[str] = []
    for name, server in new.items():
        allowed = name.replace("/", "-").strip() or "server"
        if servers.get(allowed) == server:
            skipped.append(name)
            continue
        free = _free_name(allowed, label, servers)
        servers[free] = server
        added.append(free)
        if free != name:
            renamed[name] = free
    return MergedServers(
        servers=servers, added=tuple(added), renamed=renamed, skipped=tuple(skipped)
    )


def to_mcp_json(
    servers: Mapping[str, RawServer], *, inputs: Sequence[Mapping[str, object]] = ()
) -> str:
    """Write servers as the text of an mcp.json; write it with mode 0600 if it holds secrets."""
    document: dict[str, object] = {"mcpServers": dict(servers)}
    if inputs:
        document["inputs"] = list(inputs)
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def lift_secrets(
    servers: Mapping[str, RawServer],
) -> tuple[dict[str, RawServer], tuple[LiftedSecret, ...]]:
    """Replace literal secrets in `env` and `headers` by variables, and list those to set.

    The same secret under the same name shares one variable; values with variables stay.
    """
    lifted: dict[str, RawServer] = {name: dict(server) for name, server in servers.items()}
    notes: list[LiftedSecret] = []
    values: dict[str, str] = {}
    for name, server in lifted.items():
        for part in ("env", "headers"):
            entries = as_mapping(server.get(part))
            if entries is None:
                continue
            texts: dict[str, object] = {str(key): value for key, value in entries.items()}
            server[part] = texts
            for key, value in texts.items():
                if isinstance(value, str) and value and "${" not in value and looks_secret(key):
                    scheme = _SCHEME.match(value)
                    prefix = scheme[0] if scheme else ""
                    variable = _variable_for(value.removeprefix(prefix), name, part, key, values)
                    notes.append(LiftedSecret(server=name, path=f"{part}.{key}", variable=variable))
                    texts[key] = f"{prefix}${{{variable}}}"
    return lifted, tuple(notes)


def _variable_for(secret: str, server: str, part: str, key: str, values: dict[str, str]) -> str:
    """Choose a variable that is free, or already has this value."""
    own = _variable_name(f"{server}_{key}")
    preferred = [_variable_name(key)] if part == "env" else []
    names = chain(preferred, [own], (f"{own}_{number}" for number in count(2)))
    return next(name for name in names if values.setdefault(name, secret) == secret)


def _free_name(name: str, label: str, taken: Mapping[str, object]) -> str:
    if name not in taken:
        return name
    base = f"{name}-{label}" if label else name
    if base not in taken:
        return base
    numbered = (f"{base}-{number}" for number in count(2))
    return next(name for name in numbered if name not in taken)


def _variable_name(text: str) -> str:
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").upper()
    return name if name[:1].isalpha() else f"MCP_{name}"
