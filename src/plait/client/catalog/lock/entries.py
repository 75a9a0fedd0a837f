"""What is written down about tools and servers when they are locked."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

from plait.client.catalog.tool import Tool

_UNORDERED = frozenset({"required", "type"})
"""Keywords of a schema whose list is a set."""

_DATA = frozenset({"default", "examples", "enum", "const"})
"""Keywords of a schema whose value is data, in which a key means nothing special."""

_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose keys are names, and whose values are schemas."""


def canonical(value: Any) -> Any:
    """Return the value as plain data with sorted keys and numbers in one form."""
    match value:
        case bool() | None | str():
            return value
        case float() if math.isfinite(value) and value.is_integer():
            return int(value)
        case Mapping():
            entries = cast("Mapping[str, Any]", value)
            return {str(key): canonical(entries[key]) for key in sorted(entries)}
        case list() | tuple():
            return [canonical(one) for one in cast("list[Any]", value)]
        case _:
            return value


def canonical_schema(schema: Any) -> Any:
    """Return a schema in one form; lists that are sets are sorted too."""
    if isinstance(schema, list | tuple):
        return [canonical_schema(one) for one in cast("list[Any]", schema)]
    if not isinstance(schema, Mapping):
        return canonical(schema)
    entries = cast("Mapping[str, Any]", schema)
    return {key: _keyword(key, entries[key]) for key in sorted(entries)}


def _keyword(key: str, value: Any) -> Any:
    if key in _DATA:
        return canonical(value)
    if key in _NAMED and isinstance(value, Mapping):
        named = cast("Mapping[str, Any]", value)
        return {name: canonical_schema(named[name]) for name in sorted(named)}
    if key in _UNORDERED and _are_texts(value):
        return sorted(value)
    return canonical_schema(value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in cast("list[Any]", value))


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
        """Take down a tool as its server lists it."""
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
        parts: dict[str, Any] = {
            "title": self.title,
            "description": self.description,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "annotations": self.annotations,
        }
        return {name: part for name, part in parts.items() if part not in (None, "")}

    @property
    def hash(self) -> str:
        """The hash of name and content."""
        return digest({"name": self.name, **self.content})

    @property
    def essence(self) -> str:
        """The hash of the content without names and titles, which frameworks derive from names."""
        hints = {key: hint for key, hint in self.annotations.items() if key != "title"}
        plain = {
            "description": self.description,
            "input_schema": _untitled(self.input_schema),
            "output_schema": _untitled(self.output_schema),
            "annotations": hints,
        }
        return digest(plain)


def _untitled(schema: Json | None) -> Json | None:
    if schema is None:
        return None
    return {key: value for key, value in schema.items() if key != "title"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The name and version that a server declares, and its address."""

    name: str | None = None
    version: str | None = None
    transport: str
    target: str = ""
    """The command or the URL, without secrets."""


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
