"""The tools of a run, and their results for the model."""

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
    """A tool of a run: of a server, of the toolbox itself, or of the program."""

    name: str
    """The name for the model, unique in the run."""
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    listed: Tool | None = None
    """The tool in the catalogue; `None` for a tool of the program."""
    static: StaticTool | None = None
    """The tool of the program; `None` for a tool of a server."""

    @property
    def server(self) -> str | None:
        """The server that runs it, if one does."""
        return None if self.listed is None else self.listed.server

    @property
    def wire_name(self) -> str | None:
        """The name on the server."""
        return None if self.listed is None else self.listed.wire_name

    @property
    def full_name(self) -> str:
        """The name in traces: `server/tool`, or only the name."""
        return self.name if self.listed is None else self.listed.full_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The result of a call for the model."""

    content: tuple[types.ContentBlock, ...]
    """At least one block; structured content is text if there is no other text."""
    text: str
    """The content as one text, for traces."""
    is_error: bool = False
    structured_content: Any | None = None

    @classmethod
    def of_text(cls, text: str, *, is_error: bool = False) -> ToolAnswer:
        """Create an answer from a text."""
        content = content_for_model(
            [types.TextContent(text=text)], is_error=is_error, sanitize=False
        )
        return cls(content=content, text=text_from_mcp(content), is_error=is_error)

    @classmethod
    def of_result(cls, result: ToolResult, *, sanitize: bool = True) -> ToolAnswer:
        """Convert a tool result; `sanitize` removes characters that hide text."""
        content = content_for_model(
            result.content, result.structured_content, is_error=result.is_error, sanitize=sanitize
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
    """Collect the tools of a run by name, those of the program first.

    Raises:
        ConfigError: Two tools have the same name.
    """
    tools: dict[str, RunTool] = {}
    for own in static:
        if own.name in tools:
            raise ConfigError(f"two tools of the program are called {own.name!r}")
        tools[own.name] = RunTool(
            name=own.name, description=own.description, input_schema=own.input_schema, static=own
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
