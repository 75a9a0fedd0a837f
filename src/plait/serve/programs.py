"""The files in which other programs list MCP servers: theirs out of them, and plait into them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

from plait.errors import ConfigError

Row = dict[str, Any]

ENTRY: Final = "plait"
"""The name of the one server that a program has afterwards."""
_BACKUP: Final = ".before-plait"
_TABLE = re.compile(r"^\s*\[+\s*(?P<name>[^\]]+?)\s*\]+\s*(?:#.*)?$")


@dataclass(frozen=True, slots=True)
class Program:
    """A program with a file of servers, and how that file is written."""

    title: str
    path: tuple[str, ...]
    """Below the home of the user."""
    format: Literal["json", "toml"]
    key: str
    """Where the servers are in it."""

    def file(self, home: Path, environ: Mapping[str, str]) -> Path:
        """Return the file of the user."""
        if self.format == "toml" and (folder := environ.get("CODEX_HOME")):
            return Path(folder) / self.path[-1]
        return home.joinpath(*self.path)


PROGRAMS: Final[Mapping[str, Program]] = {
    "claude-code": Program("Claude Code", (".claude.json",), "json", "mcpServers"),
    "codex": Program("Codex", (".codex", "config.toml"), "toml", "mcp_servers"),
    "cursor": Program("Cursor", (".cursor", "mcp.json"), "json", "mcpServers"),
}


def backup_of(file: Path) -> Path:
    """Return where the file is kept as it was."""
    return file.with_name(file.name + _BACKUP)


def servers_in(program: Program, text: str, file: Path) -> dict[str, Row]:
    """Return the servers of a program, as an mcp.json has them, without that of plait.

    Raises:
        ConfigError: The file cannot be read.
    """
    listed: object = _document(program, text, file).get(program.key) or {}
    if not isinstance(listed, dict):
        raise ConfigError(f"{file}: {program.key} is no table of servers")
    servers = cast("dict[str, Row]", listed)
    return {
        name: _from_codex(entry) if program.format == "toml" else dict(entry)
        for name, entry in servers.items()
        if name != ENTRY
    }


def with_plait(program: Program, text: str, file: Path, command: Sequence[str]) -> str:
    """Return the text of a program's file with plait in place of its servers."""
    entry = {"command": command[0], "args": [*command[1:]]}
    if program.format == "json":
        document = _document(program, text, file)
        return _json({**document, program.key: {ENTRY: entry}})
    kept = _without_tables(program, text)
    rest = _document(program, text, file)
    rest.pop(program.key, None)
    if _document(program, kept, file) != rest:
        raise ConfigError(
            f"{file}: the servers are written in a way that cannot be taken out; write each as a "
            f"table [{program.key}.NAME]"
        )
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in entry.items()]
    table = "\n".join([f"[{program.key}.{ENTRY}]", *lines]) + "\n"
    return f"{kept.rstrip()}\n\n{table}" if kept.strip() else table


def projects_in(program: Program, text: str, file: Path) -> list[str]:
    """Return the projects that have servers of their own in a program's file."""
    listed: object = _document(program, text, file).get("projects")
    projects = cast("dict[str, object]", listed) if isinstance(listed, dict) else {}
    return [
        name
        for name, one in projects.items()
        if isinstance(one, dict) and cast("Row", one).get(program.key)
    ]


def restored(program: Program, text: str, before: str, file: Path) -> str:
    """Return the text of a program's file with its own servers again.

    It is the text before, unless the program has changed its file meanwhile.
    """
    listed: Row = _document(program, text, file).get(program.key) or {}
    match listed.get(ENTRY):
        case {"command": str(command), "args": [*words]} if text == with_plait(
            program, before, file, [command, *words]
        ):
            return before
        case _:
            pass
    if program.format == "json":
        document, old = _document(program, text, file), _document(program, before, file)
        if program.key in old:
            return _json({**document, program.key: old[program.key]})
        document.pop(program.key, None)
        return _json(document)
    kept = _without_tables(program, text)
    own = _tables(program, before)
    return f"{kept.rstrip()}\n\n{own}" if kept.strip() and own else kept or own


def _document(program: Program, text: str, file: Path) -> Row:
    text = text.removeprefix("\ufeff")
    try:
        if program.format == "toml":
            return tomllib.loads(text)
        document: object = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{file} does not hold an object")
    return cast("Row", document)


def _json(document: Row) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _split(program: Program, text: str) -> tuple[str, str]:
    """Return the lines of a TOML text without the tables of servers, and those tables."""
    others, tables, inside = list[str](), list[str](), False
    for line in text.splitlines(keepends=True):
        if (found := _TABLE.match(line)) is not None:
            was_inside = inside
            inside = found["name"] == program.key or found["name"].startswith(f"{program.key}.")
            if was_inside and not inside:  # comments before a table belong to it
                start = len(tables)
                while start and tables[start - 1].lstrip().startswith("#"):
                    start -= 1
                others += tables[start:]
                del tables[start:]
        (tables if inside else others).append(line)
    return "".join(others), "".join(tables)


def _without_tables(program: Program, text: str) -> str:
    return _split(program, text)[0]


def _tables(program: Program, text: str) -> str:
    return _split(program, text)[1]


_SAME: Final = ("command", "args", "env", "cwd", "url")


def _from_codex(entry: Mapping[str, Any]) -> Row:
    """Return a server of Codex as an mcp.json has it."""
    server: Row = {key: entry[key] for key in _SAME if key in entry}
    headers: dict[str, str] = dict(entry.get("http_headers") or {})
    variables: dict[str, str] = entry.get("env_http_headers") or {}
    headers |= {name: f"${{{variable}}}" for name, variable in variables.items()}
    if token := entry.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    if headers:
        server["headers"] = headers
    for key, ours in (("startup_timeout_sec", "connect_timeout"), ("tool_timeout_sec", "timeout")):
        if key in entry:
            server[ours] = entry[key]
    for key, ours in (("enabled_tools", "include"), ("disabled_tools", "exclude")):
        if key in entry:
            server[ours] = entry[key]
    if entry.get("enabled") is False:
        server["disabled"] = True
    return server
