"""The tools of a run: what a model can ask for, and what it gets to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types

from plait.agents.port import StaticTool
from plait.client.calls.content import content_for_model
from plait.client.calls.outcome import ToolResult
from plait.client.catalog.tool import Tool
from plait.errors import ConfigError
from plait.traces.messages.from_mcp import line_from_mcp, text_from_mcp

_CLAUDE_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""The image types that Claude reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTool:
    """A tool that an agent can use: of a server, of the toolbox itself, or of the program."""

    name: str
    """What the model calls it; no other tool of the run has that name."""

    description: str = ""

    input_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])

    listed: Tool | None = None
    """The tool as the catalogue has it; `None` for one of the program."""

    static: StaticTool | None = None
    """The tool as the program gave it; `None` for one of a server."""

    @property
    def server(self) -> str | None:
        """The server that answers, if one does."""
        return None if self.listed is None else self.listed.server

    @property
    def wire_name(self) -> str | None:
        """What the server calls it."""
        return None if self.listed is None else self.listed.wire_name

    @property
    def full_name(self) -> str:
        """The name under which traces list it: `server/tool`, or the name alone."""
        return self.name if self.listed is None else self.listed.full_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """What a call came to, as the model gets it."""

    content: tuple[types.ContentBlock, ...]
    """At least one block; structured content is among them as text where there was no other."""

    text: str
    """The same as one text, as traces hold it."""

    is_error: bool = False

    structured_content: Any | None = None

    @classmethod
    def of_text(cls, text: str, *, is_error: bool = False) -> ToolAnswer:
        """Make an answer of a text."""
        content = content_for_model(
            [types.TextContent(text=text)], is_error=is_error, sanitize=False
        )
        return cls(content=content, text=text_from_mcp(content), is_error=is_error)

    @classmethod
    def of_result(cls, result: ToolResult, *, sanitize: bool = True) -> ToolAnswer:
        """Convert a tool result; `sanitize` removes characters that hide text."""
        content = content_for_model(
            result.content,
            result.structured_content,
            is_error=result.is_error,
            sanitize=sanitize,
        )
        return cls(
            content=content,
            text=text_from_mcp(content),
            is_error=result.is_error,
            structured_content=result.structured_content,
        )

    def texts_and_images(self) -> list[types.TextContent | types.ImageContent]:
        """Return the content for Claude; a line of text describes what it does not accept.

        An image is shown if Claude reads its type, and never in an error.
        """
        return [
            block
            if isinstance(block, types.TextContent)
            or (
                isinstance(block, types.ImageContent)
                and not self.is_error
                and block.mime_type in _CLAUDE_IMAGES
            )
            else types.TextContent(text=line_from_mcp(block))
            for block in self.content
        ]


def tools_of_run(static: Sequence[StaticTool], listed: Iterable[Tool]) -> dict[str, RunTool]:
    """Put the tools of a run together, by name: those of the program first.

    Raises:
        ConfigError: Two have the same name.
    """
    tools: dict[str, RunTool] = {}
    for one in static:
        if one.name in tools:
            raise ConfigError(f"two tools of the program are called {one.name!r}")
        tools[one.name] = RunTool(
            name=one.name, description=one.description, input_schema=one.input_schema, static=one
        )
    for tool in listed:
        if tool.name in tools:
            raise ConfigError(
                f"{tool.name!r} is a tool of the program and of {tool.server}: "
                "rename one, or leave one out with mcp_tool_filter",
                server=tool.server,
            )
        tools[tool.name] = RunTool(
            name=tool.name,
            description=tool.description or tool.title or f"Tool from {tool.server}",
            input_schema=tool.input_schema,
            listed=tool,
        )
    return tools
