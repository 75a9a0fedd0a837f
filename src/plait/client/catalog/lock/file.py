"""The lockfile on disk: readable JSON with minimal diffs."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Literal, NoReturn, NotRequired

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from plait._support.files import write_atomically
from plait._support.sanitize import escaped
from plait.client.catalog.lock.entries import Identity, LockedServer, LockedTool, Lockfile
from plait.client.config.jsonc import JsonSyntaxError, decode_text, parse_jsonc
from plait.errors import ConfigError, Problem

LOCKFILE_NAME = "plait.lock.json"
_VERSION = 1


class _ToolEntry(TypedDict):
    hash: str
    title: NotRequired[str | None]
    description: NotRequired[str | list[str]]
    input_schema: NotRequired[dict[str, Any]]
    output_schema: NotRequired[dict[str, Any] | None]
    annotations: NotRequired[dict[str, Any]]


class _ServerEntry(TypedDict):
    identity: Identity
    tools: dict[str, _ToolEntry]


class _Document(TypedDict):
    version: Literal[1]
    servers: dict[str, _ServerEntry]


@cache
def _document() -> TypeAdapter[_Document]:
    """Return what reads and checks a lockfile; most clients have none."""
    return TypeAdapter(_Document)


def read_lockfile(path: Path) -> Lockfile:
    """Read a lockfile.

    Raises:
        ConfigError: There is none, or it is broken; the error names the line where it can.
    """
    try:
        text = decode_text(path.read_bytes())
    except FileNotFoundError:
        _reject(path, "lockfile_missing", "there is no lockfile", "write it: plait lock")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        _reject(path, "lockfile_unreadable", f"the lockfile cannot be read: {reason}")
    try:
        document = parse_jsonc(text)
    except JsonSyntaxError as error:
        where = f"{path}:{error.line}:{error.column}"
        _reject(where, "lockfile_broken", f"not valid JSON, {error.reason}", _again(path))
    return _lockfile_from(document.value, text, path)


def text_from_lockfile(lockfile: Lockfile) -> str:
    """Write a lockfile as text; the same content gives the same text."""
    servers = {
        name: {
            "identity": asdict(server.identity),
            "tools": {tool: _tool_entry(server.tools[tool]) for tool in sorted(server.tools)},
        }
        for name, server in sorted(lockfile.servers.items())
    }
    value = {"version": _VERSION, "servers": servers}
    # A reviewer must see invisible characters.
    return escaped(json.dumps(value, indent=2, ensure_ascii=False)) + "\n"


def write_lockfile(lockfile: Lockfile, path: Path) -> None:
    """Replace the file in one step.

    Raises:
        ConfigError: It cannot be written; the file before is still there.
    """
    mode = None if path.exists() else 0o644
    try:
        write_atomically(path, text_from_lockfile(lockfile), mode=mode)
    except OSError as error:
        _reject(path, "lockfile_unwritable", f"cannot be written: {error.strerror}")


def _tool_entry(tool: LockedTool) -> dict[str, Any]:
    content = tool.content
    if "\n" in tool.description:
        # One entry per line, so that a diff shows single lines.
        content["description"] = tool.description.split("\n")
    return {"hash": tool.hash, **content}


def _lockfile_from(value: object, text: str, path: Path) -> Lockfile:
    try:
        document = _document().validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        names = [str(step) for step in first["loc"] if not str(step).endswith("]")]
        message = f"{'.'.join(names) or 'the lockfile'}: {first['msg'].lower()}"
        if names == ["version"]:
            message = f"not a lockfile of version {_VERSION}, which this version of plait reads"
        _raise_broken(text, path, names[-1] if names else "", message)
    servers: dict[str, LockedServer] = {}
    for server, entry in document["servers"].items():
        tools = {name: _tool_from(name, tool) for name, tool in entry["tools"].items()}
        for name, tool in tools.items():
            if entry["tools"][name]["hash"] != tool.hash:
                message = f"{server}/{name} does not match its hash"
                _raise_broken(text, path, entry["tools"][name]["hash"], message)
        servers[server] = LockedServer(identity=entry["identity"], tools=tools)
    return Lockfile(servers)


def _tool_from(name: str, entry: _ToolEntry) -> LockedTool:
    description = entry.get("description", "")
    return LockedTool(
        name=name,
        title=entry.get("title"),
        description=description if isinstance(description, str) else "\n".join(description),
        input_schema=entry.get("input_schema", {}),
        output_schema=entry.get("output_schema"),
        annotations=entry.get("annotations", {}),
    )


def _raise_broken(text: str, path: Path, word: str, message: str) -> NoReturn:
    """Raise an error that names the first line with the word."""
    lines = enumerate(text.split("\n"), 1)
    number = next((number for number, line in lines if f'"{word}"' in line), 1)
    _reject(f"{path}:{number}", "lockfile_broken", message, _again(path))


def _again(path: Path) -> str:
    return f"restore it from version control, or delete it and run: plait lock --file {path}"


def _reject(where: Path | str, code: str, message: str, suggestion: str | None = None) -> NoReturn:
    problem = Problem(file=str(where), path="", code=code, message=message, suggestion=suggestion)
    raise ConfigError.from_problems([problem]) from None
