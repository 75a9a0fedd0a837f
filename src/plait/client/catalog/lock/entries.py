"""What is written down about tools and servers when they are locked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePath
from typing import Any, Self, cast

from plait._support.redact import Redactor
from plait.client.catalog.schemas.values import is_list, is_mapping
from plait.client.catalog.tool import Tool
from plait.client.config.secrets import secret_values
from plait.client.config.servers import InProcessServer, RemoteOptions, ServerConfig
from plait.client.config.urls import public_url

_UNORDERED = frozenset({"required", "type"})
"""Keywords of a schema whose list is a set."""
_DATA = frozenset({"default", "examples", "enum", "const"})
"""Keywords of a schema whose value is data, in which a key means nothing special."""
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose keys are names, and whose values are schemas."""


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
    return {key: _keyword(key, schema[key]) for key in sorted(schema)}


def _keyword(key: str, value: Any) -> Any:
    if key in _DATA:
        return canonical(value)
    if key in _NAMED and is_mapping(value):
        return {name: canonical_schema(value[name]) for name in sorted(value)}
    if key in _UNORDERED and are_texts(value):
        return sorted(value)
    return canonical_schema(value)


def are_texts(value: Any) -> bool:
    """Return whether a value is a list of strings."""
    return is_list(value) and all(isinstance(one, str) for one in value)


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

    @property
    def essence(self) -> str:
        """The hash of the content without names and titles, which frameworks derive from names."""
        essence: dict[str, Any] = {"description": self.description}
        for name in ("input_schema", "output_schema", "annotations"):
            part: Json | None = getattr(self, name)
            essence[name] = part and {key: one for key, one in part.items() if key != "title"}
        return digest(essence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The name and version that a server declares, and its address."""

    name: str | None = None
    version: str | None = None
    transport: str
    target: str = ""
    """The command or the URL, without secrets."""


def identity_of(server: ServerConfig, declared: Mapping[str, str] | None, folder: Path) -> Identity:
    """Describe the identity of a server; paths are relative to the folder, or to the home.

    `declared` is the name and the version that the server reports.
    """
    about = declared or {}
    return Identity(
        name=about.get("name"),
        version=about.get("version"),
        transport=server.transport,
        target=_target(server, folder.resolve()),
    )


def _target(server: ServerConfig, folder: Path) -> str:
    if isinstance(server, RemoteOptions):
        return public_url(server.url)
    if isinstance(server, InProcessServer):
        return ""
    program = PurePath(server.command).name
    words = [program, *(_portable(argument, folder) for argument in server.args)]
    return Redactor(secret_values(server))(" ".join(words))


def _portable(argument: str, folder: Path) -> str:
    for place, short in ((folder, "."), (Path.home(), "~")):
        whole = str(place)
        if argument == whole or argument.startswith(f"{whole}/"):
            return short + argument.removeprefix(whole)
    return argument


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

    def with_tool(self, name: str, tool: LockedTool | None) -> Self:
        """Return the server with this tool replaced, or removed."""
        others = {known: one for known, one in self.tools.items() if known != name}
        return replace(self, tools=others if tool is None else {**others, name: tool})


@dataclass(frozen=True, slots=True)
class Lockfile:
    """The locked servers, by name."""

    servers: Mapping[str, LockedServer]
