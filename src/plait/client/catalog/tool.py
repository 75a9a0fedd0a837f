"""A tool of a server, as a plain value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, Self

import mcp_types as types
from mcp.shared.inbound import x_mcp_header_map

from plait.client.config.policy import Trait

if TYPE_CHECKING:
    from plait.client.catalog.overrides import ToolOverride

_SAME: Final[dict[str, Any]] = {}
"""Marks a missing `wire_schema`, compared by identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool, and where it comes from."""

    server: str
    wire_name: str
    """The server's name for it."""

    name: str
    """The public name: valid for every model provider, and unique."""

    title: str | None = None
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The schema for callers: the listed one, unless an override changes it."""

    wire_schema: Mapping[str, Any] = field(default_factory=lambda: _SAME, repr=False)
    """The listed schema, which the server checks arguments against; by default `input_schema`."""

    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The server's hints, in snake_case."""

    meta: Mapping[str, Any] | None = None
    icons: tuple[Mapping[str, Any], ...] = ()
    mirrors_arguments: bool = False
    """Whether some of its arguments must be sent as HTTP headers too (`x-mcp-header`)."""

    override: ToolOverride | None = None
    """The override that was applied, which completes arguments."""

    def __post_init__(self) -> None:
        if self.wire_schema is _SAME:
            object.__setattr__(self, "wire_schema", self.input_schema)

    @property
    def full_name(self) -> str:
        """The name with its server: `server/tool`."""
        return f"{self.server}/{self.wire_name}"

    def is_called(self, pattern: str) -> bool:
        """Return whether a name or a glob matches this tool.

        Only a glob with a slash is compared with `server/tool`: `f*` does not match every tool of
        a server called `files`.
        """
        if pattern in {self.wire_name, self.full_name} or fnmatchcase(self.wire_name, pattern):
            return True
        return "/" in pattern and fnmatchcase(self.full_name, pattern)

    @property
    def read_only(self) -> bool:
        """Whether the server declares that it changes nothing."""
        return self.annotations.get("read_only_hint") is True

    @property
    def destructive(self) -> bool:
        """Whether it may be destructive, which is assumed unless the server denies it."""
        return not self.read_only and self.annotations.get("destructive_hint") is not False

    @property
    def open_world(self) -> bool:
        """Whether it may reach external systems, which is assumed unless the server denies it."""
        return self.annotations.get("open_world_hint") is not False

    @property
    def idempotent(self) -> bool:
        """Whether the server declares that repeating a call has no further effect."""
        return self.read_only or self.annotations.get("idempotent_hint") is True

    def has_trait(self, trait: Trait) -> bool:
        """Return whether a trait holds, with defaults for missing hints."""
        match trait:
            case "read_only":
                return self.read_only
            case "destructive":
                return self.destructive
            case "idempotent":
                return self.idempotent
            case "open_world":
                return self.open_world

    @classmethod
    def from_mcp(cls, server: str, tool: types.Tool) -> Self:
        """Convert a listed tool; its public name is its wire name."""
        hints = tool.annotations.model_dump(exclude_none=True) if tool.annotations else {}
        return cls(
            server=server,
            wire_name=tool.name,
            name=tool.name,
            title=tool.title or hints.get("title"),
            description=tool.description or "",
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
            annotations=hints,
            meta=tool.meta,
            icons=tuple(
                icon.model_dump(by_alias=True, exclude_none=True, mode="json")
                for icon in tool.icons or ()
            ),
            mirrors_arguments=bool(x_mcp_header_map(tool.input_schema)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the tool as plain data."""
        return {
            "server": self.server,
            "name": self.name,
            "wire_name": self.wire_name,
            "title": self.title,
            "description": self.description,
            "input_schema": dict(self.input_schema),
            "output_schema": None if self.output_schema is None else dict(self.output_schema),
            "annotations": dict(self.annotations),
            "meta": None if self.meta is None else dict(self.meta),
            "icons": [dict(icon) for icon in self.icons],
        }
