"""What is written down about tools and servers when they are locked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from plait.client.catalog.lock.canonical import canonical, canonical_schema, digest
from plait.client.catalog.tool import Tool

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
        """What there is of it but the name."""
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
        """The hash of all of it."""
        return digest({"name": self.name, **self.content})

    @property
    def essence(self) -> str:
        """The hash of what it does, whatever it is called.

        Titles are left out: server frameworks make them of the name.
        """
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
    """Who a server says it is, and where it was found."""

    name: str | None = None
    version: str | None = None
    transport: str
    target: str = ""
    """The command or the address, without what is secret in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedServer:
    """A server and its tools."""

    identity: Identity
    tools: Mapping[str, LockedTool]
    """By the server's name for each."""

    @classmethod
    def of(cls, identity: Identity, tools: Iterable[Tool]) -> Self:
        """Take down a server and the tools that it lists; of two with one name, the first."""
        locked: dict[str, LockedTool] = {}
        for tool in tools:
            locked.setdefault(tool.wire_name, LockedTool.of(tool))
        return cls(identity=identity, tools=locked)

    def with_tool(self, name: str, tool: LockedTool | None) -> Self:
        """Return the server with this tool instead, or without it."""
        others = {known: one for known, one in self.tools.items() if known != name}
        return replace(self, tools=others if tool is None else {**others, name: tool})


@dataclass(frozen=True, slots=True)
class Lockfile:
    """The servers that were locked, by name."""

    servers: Mapping[str, LockedServer]
