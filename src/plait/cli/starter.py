"""Creating an mcp.json: a first one, or one from the servers of other programs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
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

_CODE_FOLDERS = ("Code", "Code - Insiders")
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
    # Where applications keep their settings on macOS, Linux and Windows.
    applications = (
        home / "Library" / "Application Support",
        Path(environ.get("XDG_CONFIG_HOME") or home / ".config"),
        Path(environ.get("APPDATA") or home / "AppData" / "Roaming"),
    )
    users_of_code = [one / name / "User" for one in applications for name in _CODE_FOLDERS]
    names = ("mcp.json", "settings.json")
    paths = {
        "Claude Desktop": [one / "Claude" / "claude_desktop_config.json" for one in applications],
        "Claude Code": [home / ".claude.json", cwd / ".mcp.json"],
        "Cursor": [home / ".cursor" / "mcp.json", cwd / ".cursor" / "mcp.json"],
        "VS Code": [one / name for one in (*users_of_code, cwd / ".vscode") for name in names],
    }
    configs = [
        _read_editor_config(editor, path, cwd)
        for editor, candidates in paths.items()
        for path in candidates
        if path.is_file()
    ]
    return [config for config in configs if config.servers or config.problems]


def _read_editor_config(editor: str, path: Path, cwd: Path) -> EditorConfig:
    problems = Problems()
    entries = read_json_file(path, Location(problems, file=str(path))) or {}
    settings = as_mapping(entries.get("mcp")) or {}
    inputs = as_list(entries.get("inputs") or settings.get("inputs")) or ()
    lists = [entries.get("mcpServers")]
    lists += [] if path.name == "settings.json" else [entries.get("servers")]
    lists.append(settings.get("servers"))
    # Claude Code has servers for the current folder, or one above it.
    for folder, project in (as_mapping(entries.get("projects")) or {}).items():
        if isinstance(folder, str) and cwd.is_relative_to(folder):
            lists.append((as_mapping(project) or {}).get("mcpServers"))
    return EditorConfig(
        editor=editor,
        path=path,
        servers={
            name: _with_text_keys(entry)
            for listed in lists
            for name, entry in (as_mapping(listed) or {}).items()
            if isinstance(name, str) and as_mapping(entry) is not None
        },
        inputs=tuple(_with_text_keys(entry) for entry in inputs if as_mapping(entry) is not None),
        problems=tuple(problems.errors),
    )


def _with_text_keys(value: object) -> RawServer:
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
        base = f"{allowed}-{label}" if label and allowed in servers else allowed
        numbered = (f"{base}-{number}" for number in count(2))
        free = next(one for one in chain([base], numbered) if one not in servers)
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
            if as_mapping(server.get(part)) is None:
                continue
            texts = server[part] = _with_text_keys(server[part])
            for key, value in texts.items():
                if not (isinstance(value, str) and value) or "${" in value or not looks_secret(key):
                    continue
                scheme = _SCHEME.match(value)
                prefix = scheme[0] if scheme else ""
                secret, own = value.removeprefix(prefix), _variable_name(f"{name}_{key}")
                preferred = [_variable_name(key)] if part == "env" else []
                names = chain(preferred, [own], (f"{own}_{number}" for number in count(2)))
                # The first that is free, or has this value already.
                variable = next(one for one in names if values.setdefault(one, secret) == secret)
                notes.append(LiftedSecret(server=name, path=f"{part}.{key}", variable=variable))
                texts[key] = f"{prefix}${{{variable}}}"
    return lifted, tuple(notes)


def _variable_name(text: str) -> str:
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").upper()
    return name if name[:1].isalpha() else f"MCP_{name}"
