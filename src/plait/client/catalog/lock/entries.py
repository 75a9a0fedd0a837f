"""What is locked about tools and servers, and the lockfile: readable JSON with minimal diffs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, NoReturn, NotRequired, Self, cast

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from plait._support.files import write_atomically
from plait._support.sanitize import escaped
from plait.client.catalog.lock.identity import Identity
from plait.client.catalog.tool import Tool
from plait.client.config.document import JsonSyntaxError, decode_text, parse_jsonc
from plait.errors import ConfigError, Problem
from plait.models.schemas.json_schema import NAMED_SCHEMAS, is_list, is_mapping

LOCKFILE_NAME = "plait.lock.json"
_VERSION = 1

_UNORDERED = frozenset({"required", "type"})
"""Keywords of a schema whose list is a set."""
_DATA = frozenset({"default", "examples", "enum", "const"})
"""Keywords of a schema whose value is data, in which a key means nothing special."""


def canonical(value: Any) -> Any:
    """Return the value as plain data with sorted keys and numbers in one form."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if is_mapping(value):
        return {str(key): canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [canonical(one) for one in cast("list[Any]", value)]
    return value


def canonical_schema(schema: Any) -> Any:
    """Return a schema in one form; lists that are sets are sorted too."""
    if isinstance(schema, list | tuple):
        return [canonical_schema(one) for one in cast("list[Any]", schema)]
    if not is_mapping(schema):
        return canonical(schema)
    made: dict[str, Any] = {}
    for key in sorted(schema):
        value = schema[key]
        if key in _DATA:
            made[key] = canonical(value)
        elif key in NAMED_SCHEMAS and is_mapping(value):
            made[key] = {name: canonical_schema(value[name]) for name in sorted(value)}
        elif key in _UNORDERED and is_list(value) and all(isinstance(one, str) for one in value):
            made[key] = sorted(value)
        else:
            made[key] = canonical_schema(value)
    return made


def text_of(value: Any) -> str:
    """Write a canonical value as one line of JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any) -> str:
    """Return the hash of a value that is in canonical form."""
    return f"sha256:{hashlib.sha256(text_of(value).encode('utf-8', 'surrogatepass')).hexdigest()}"


Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedTool:
    """Everything about a tool that a model reads or a client relies on, in canonical form."""

    name: str
    """What the server calls it."""
    title: str | None = None
    description: str = ""
    input_schema: Json = field(default_factory=dict[str, Any])
    output_schema: Json | None = None
    annotations: Json = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, tool: Tool) -> Self:
        """Create an entry from a tool as its server lists it."""
        output = None if tool.output_schema is None else canonical_schema(tool.output_schema)
        return cls(
            name=tool.wire_name,
            title=tool.title,
            description=tool.description,
            input_schema=canonical_schema(tool.wire_schema),
            output_schema=output,
            annotations=canonical(tool.annotations),
        )

    @property
    def content(self) -> dict[str, Any]:
        """Everything but the name."""
        parts = {item.name: getattr(self, item.name) for item in fields(self)[1:]}
        return {name: part for name, part in parts.items() if part not in (None, "")}

    @property
    def hash(self) -> str:
        """The hash of name and content."""
        return digest({"name": self.name, **self.content})


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedServer:
    """A server and its tools."""

    identity: Identity
    tools: Mapping[str, LockedTool]
    """By the server's name for each."""

    @classmethod
    def of(cls, identity: Identity, tools: Iterable[Tool]) -> Self:
        """Create an entry from listed tools; of duplicates, the first counts."""
        locked: dict[str, LockedTool] = {}
        for tool in tools:
            locked.setdefault(tool.wire_name, LockedTool.of(tool))
        return cls(identity=identity, tools=locked)


@dataclass(frozen=True, slots=True)
class Lockfile:
    """The locked servers, by name."""

    servers: Mapping[str, LockedServer]


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
    return TypeAdapter(_Document)  # most clients need none


def read_lockfile(path: Path) -> Lockfile:
    """Read a lockfile."""
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
    if document.repeated_keys:
        # Which of them counts differs between readers: a reviewer may have read the other.
        name = document.repeated_keys[0]
        _raise_broken(text, path, name, f"the key {name!r} is there twice")
    return _lockfile_from(document.value, text, path)


def text_from_lockfile(lockfile: Lockfile) -> str:
    """Write a lockfile as text; the same content gives the same text."""
    servers: dict[str, Any] = {}
    for name, server in sorted(lockfile.servers.items()):
        optional = {"cwd", "env", "hidden"}
        identity = {
            key: value
            for key, value in asdict(server.identity).items()
            if value or key not in optional
        }
        tools: dict[str, Any] = {}
        for tool in sorted(server.tools):
            content = server.tools[tool].content
            if "\n" in content.get("description", ""):
                # One entry per line, so that a diff shows single lines.
                content["description"] = content["description"].split("\n")
            tools[tool] = {"hash": server.tools[tool].hash, **content}
        servers[name] = {"identity": identity, "tools": tools}
    value = {"version": _VERSION, "servers": servers}
    # A reviewer must see invisible characters.
    return escaped(json.dumps(value, indent=2, ensure_ascii=False)) + "\n"


def write_lockfile(lockfile: Lockfile, path: Path) -> None:
    """Replace the file in one step."""
    mode = None if path.exists() else 0o644
    try:
        write_atomically(path, text_from_lockfile(lockfile), mode=mode)
    except OSError as error:
        _reject(path, "lockfile_unwritable", f"cannot be written: {error.strerror}")


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
        tools: dict[str, LockedTool] = {}
        for name, listed in entry["tools"].items():
            content: dict[str, Any] = {key: part for key, part in listed.items() if key != "hash"}
            if isinstance(lines := listed.get("description"), list):
                content["description"] = "\n".join(lines)
            tools[name] = LockedTool(name=name, **content)
            if listed["hash"] != tools[name].hash:
                message = f"{server}/{name} does not match its hash"
                _raise_broken(text, path, listed["hash"], message)
        servers[server] = LockedServer(identity=entry["identity"], tools=tools)
    return Lockfile(servers)


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
