"""A tool of a server, as a plain value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import mcp_types as types
from mcp.shared.inbound import x_mcp_header_map


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
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The server's hints, in snake_case; those it did not give are absent."""

    meta: Mapping[str, Any] | None = None
    icons: tuple[Mapping[str, Any], ...] = ()
    mirrors_arguments: bool = False
    """Whether some of its arguments must be sent as HTTP headers too (`x-mcp-header`)."""

    @property
    def idempotent(self) -> bool:
        """Whether the server says that calling it twice does no more than calling it once."""
        hints = self.annotations
        return hints.get("read_only_hint") is True or hints.get("idempotent_hint") is True

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
