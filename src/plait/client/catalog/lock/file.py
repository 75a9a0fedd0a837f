"""The lockfile on disk: JSON that people read, and that changes only where something changed."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

from plait._support.sanitize import escaped
from plait.client.catalog.lock.entries import Identity, LockedServer, LockedTool, Lockfile
from plait.client.config.jsonc import JsonSyntaxError, decode_text, parse_jsonc
from plait.errors import ConfigError, Problem

LOCKFILE_NAME = "plait.lock.json"

_VERSION = 1


def read_lockfile(path: Path) -> Lockfile:
    """Read a lockfile.

    Raises:
        ConfigError: There is none, or it is broken; the error names the line where it can.
    """
    try:
        text = decode_text(path.read_bytes())
    except FileNotFoundError:
        _refuse(path, "lockfile_missing", "there is no lockfile", "write it: plait lock")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        _refuse(path, "lockfile_unreadable", f"the lockfile cannot be read: {reason}")
    return lockfile_from_text(text, path)


def lockfile_from_text(text: str, path: Path) -> Lockfile:
    """Read a lockfile from its text; the path is for errors.

    Raises:
        ConfigError: It is broken.
    """
    try:
        document = parse_jsonc(text)
    except JsonSyntaxError as error:
        where = f"{path}:{error.line}:{error.column}"
        _refuse(where, "lockfile_broken", f"not valid JSON, {error.reason}", _again(path))
    return _Reading(text, path).lockfile(document.value)


def text_from_lockfile(lockfile: Lockfile) -> str:
    """Write a lockfile as text; the same content gives the same text."""
    servers = {name: _server_entry(lockfile.servers[name]) for name in sorted(lockfile.servers)}
    value = {"version": _VERSION, "servers": servers}
    # Whoever reviews the file must see what a description hides.
    return escaped(json.dumps(value, indent=2, ensure_ascii=False)) + "\n"


def write_lockfile(lockfile: Lockfile, path: Path) -> None:
    """Replace the file in one step.

    Raises:
        ConfigError: It cannot be written; the file before is still there.
    """
    text = text_from_lockfile(lockfile)
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        _refuse(path, "lockfile_unwritable", f"cannot be written: {error.strerror}")
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(_mode_of(path))
        draft.replace(path)
    except OSError as error:
        _refuse(path, "lockfile_unwritable", f"cannot be written: {error.strerror}")
    finally:
        draft.unlink(missing_ok=True)


def _mode_of(path: Path) -> int:
    """Return the rights of the file, or those that a new one usually has."""
    with contextlib.suppress(OSError):
        return path.stat().st_mode & 0o777
    return 0o644


def _server_entry(server: LockedServer) -> dict[str, Any]:
    identity = server.identity
    about = {
        "name": identity.name,
        "version": identity.version,
        "transport": identity.transport,
        "target": identity.target,
    }
    tools = {name: _tool_entry(server.tools[name]) for name in sorted(server.tools)}
    return {"identity": about, "tools": tools}


def _tool_entry(tool: LockedTool) -> dict[str, Any]:
    content = tool.content
    if "\n" in tool.description:
        # A line for each line: then a change of one is a change of one here, too.
        content["description"] = tool.description.split("\n")
    return {"hash": tool.hash, **content}


class _Reading:
    """Checks the parts of one lockfile."""

    def __init__(self, text: str, path: Path) -> None:
        self._text = text
        self._path = path

    def lockfile(self, value: object) -> Lockfile:
        whole = self._object(value, "the lockfile")
        if whole.get("version") != _VERSION:
            known = f"this version of plait knows version {_VERSION}"
            self._broken("version", f"not a lockfile that can be read: {known}")
        servers = self._object(whole.get("servers"), "servers")
        return Lockfile({name: self._server(name, one) for name, one in servers.items()})

    def _server(self, name: str, value: object) -> LockedServer:
        entry = self._object(value, name)
        about = self._object(entry.get("identity"), f"{name}.identity")
        tools = self._object(entry.get("tools"), f"{name}.tools")
        identity = Identity(
            name=self._text_or_none(about.get("name"), f"{name}.identity.name"),
            version=self._text_or_none(about.get("version"), f"{name}.identity.version"),
            transport=self._text_or_none(about.get("transport"), f"{name}.identity") or "",
            target=self._text_or_none(about.get("target"), f"{name}.identity") or "",
        )
        locked = {tool: self._tool(f"{name}/{tool}", tool, one) for tool, one in tools.items()}
        return LockedServer(identity=identity, tools=locked)

    def _tool(self, where: str, name: str, value: object) -> LockedTool:
        entry = self._object(value, where)
        description = entry.get("description") or ""
        if isinstance(description, list):
            description = "\n".join(str(line) for line in cast("list[object]", description))
        output = entry.get("output_schema")
        tool = LockedTool(
            name=name,
            title=self._text_or_none(entry.get("title"), f"{where}.title"),
            description=self._text_or_none(description, f"{where}.description") or "",
            input_schema=self._object(entry.get("input_schema", {}), f"{where}.input_schema"),
            output_schema=None if output is None else self._object(output, where),
            annotations=self._object(entry.get("annotations", {}), f"{where}.annotations"),
        )
        if entry.get("hash") != tool.hash:
            self._broken(str(entry.get("hash")), f"{where} does not fit its hash")
        return tool

    def _object(self, value: object, where: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            self._broken(where.rpartition("/")[2], f"{where}: an object is expected here")
        return dict(cast("Mapping[str, Any]", value))

    def _text_or_none(self, value: object, where: str) -> str | None:
        if value is not None and not isinstance(value, str):
            self._broken(where, f"{where}: a string is expected here")
        return value

    def _broken(self, word: str, message: str) -> NoReturn:
        line = next(
            (
                number
                for number, line in enumerate(self._text.split("\n"), 1)
                if f'"{word}"' in line
            ),
            1,
        )
        _refuse(f"{self._path}:{line}", "lockfile_broken", message, _again(self._path))


def _again(path: Path) -> str:
    return f"take it from version control, or delete it and write it anew: plait lock --file {path}"


def _refuse(where: Path | str, code: str, message: str, suggestion: str | None = None) -> NoReturn:
    problem = Problem(file=str(where), path="", code=code, message=message, suggestion=suggestion)
    raise ConfigError.from_problems([problem]) from None
