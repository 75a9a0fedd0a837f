"""Failures of tools, for the model to read or as LangChain's exception."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import ToolException

from plait._support.sanitize import harmless
from plait.client.catalog.tool import Tool
from plait.errors import PlaitError, ToolFailedError
from plait.langchain.tools.content import Converted


class ToolFailedException(  # noqa: N818  # LangChain's word, for those who catch it
    ToolFailedError, ToolException
):
    """The tool ran and reported a failure; `content` and `artifact` hold what it said."""

    def __init__(
        self,
        message: str,
        *,
        server: str | None = None,
        tool: str | None = None,
        converted: Converted | None = None,
    ) -> None:
        super().__init__(message, server=server, tool=tool)
        self.content = converted.content if converted is not None else message
        self.artifact = converted.artifact if converted is not None else None


def failed(error: PlaitError, tool: Tool, *, sanitize: bool = True) -> Converted:
    """Tell the model why there is no answer."""
    artifact: dict[str, Any] = {
        "structured_content": None,
        "content": [],
        "_meta": None,
        "server": tool.server,
        "tool": tool.wire_name,
        "error": error.to_dict(),
    }
    return Converted(harmless(error.message) if sanitize else error.message, artifact)
