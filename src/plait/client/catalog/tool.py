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
"""Stands for a `wire_schema` that was not given; it is known by its identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool, and where it comes from."""

    server: str
    wire_name: str
    """What the server calls it."""

    name: str
    """What this client calls it: legal for every model provider, and unique."""

    title: str | None = None
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What callers see: the listed schema, unless an override changes it."""

    wire_schema: Mapping[str, Any] = field(default_factory=lambda: _SAME, repr=False)
    """What the server listed, and checks arguments against; by default the `input_schema`."""

    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The server's hints, in snake_case; those it did not give are absent."""

    meta: Mapping[str, Any] | None = None
    icons: tuple[Mapping[str, Any], ...] = ()
    mirrors_arguments: bool = False
    """Whether some of its arguments must be sent as HTTP headers too (`x-mcp-header`)."""

    override: ToolOverride | None = None
    """What was changed about the tool, and how its arguments are completed."""

    def __post_init__(self) -> None:
        if self.wire_schema is _SAME:
            object.__setattr__(self, "wire_schema", self.input_schema)

    @property
    def full_name(self) -> str:
        """The name that tells it from the tools of other servers: `server/tool`."""
        return f"{self.server}/{self.wire_name}"

    def is_called(self, pattern: str) -> bool:
        """Return whether a name or a glob means this tool.

        Only one with a slash is compared with `server/tool` too: `f*` does not mean every tool
        of a server called `files`.
        """
        if pattern in {self.wire_name, self.full_name} or fnmatchcase(self.wire_name, pattern):
            return True
        return "/" in pattern and fnmatchcase(self.full_name, pattern)

    @property
    def read_only(self) -> bool:
        """Whether the server says that it changes nothing."""
        return self.annotations.get("read_only_hint") is True

    @property
    def destructive(self) -> bool:
        """Whether it may destroy something: it does, unless the server says otherwise."""
        return not self.read_only and self.annotations.get("destructive_hint") is not False

    @property
    def open_world(self) -> bool:
        """Whether it may reach beyond a closed system: it does, unless the server denies it."""
        return self.annotations.get("open_world_hint") is not False

    @property
    def idempotent(self) -> bool:
        """Whether the server says that calling it twice does no more than calling it once."""
        return self.read_only or self.annotations.get("idempotent_hint") is True

    def has_trait(self, trait: Trait) -> bool:
        """Return whether a trait holds, by the hints that were given and those that were not."""
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
        """Translate a listed tool; its public name is still its own."""
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
        """Describe the tool as plain data."""
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
