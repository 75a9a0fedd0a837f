"""One message of a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from plait.traces.messages.content import (
    Content,
    TextContent,
    ThinkingContent,
    ToolResultContent,
    ToolUseContent,
    content_from_dict,
    content_to_dict,
)


class Role(StrEnum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Message:
    """A message with its content blocks."""

    role: Role
    content: list[Content]
    usage_metadata: Mapping[str, Any] | None = None
    """The usage of the model for this message, if the provider reported it."""

    @classmethod
    def system(cls, text: str) -> Self:
        """Create a system message."""
        return cls(Role.SYSTEM, [TextContent(text)])

    @classmethod
    def user(cls, text: str) -> Self:
        """Create a user message."""
        return cls(Role.USER, [TextContent(text)])

    @classmethod
    def assistant(cls, text: str = "", tool_calls: Sequence[ToolUseContent] | None = None) -> Self:
        """Create a message of the model; an empty text creates no block."""
        texts: list[Content] = [TextContent(text)] if text else []
        return cls(Role.ASSISTANT, [*texts, *(tool_calls or ())])

    @classmethod
    def tool_result(cls, tool_use_id: str, content: str, is_error: bool = False) -> Self:
        """Create a message with the result of a tool."""
        return cls(Role.TOOL, [ToolResultContent(tool_use_id, content, is_error)])

    @property
    def text(self) -> str:
        """The text blocks, joined by line breaks."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))

    @property
    def tool_calls(self) -> list[ToolUseContent]:
        """The tool calls in the message."""
        return [block for block in self.content if isinstance(block, ToolUseContent)]

    @property
    def tool_results(self) -> list[ToolResultContent]:
        """The tool results in the message."""
        return [block for block in self.content if isinstance(block, ToolResultContent)]

    @property
    def thinking(self) -> str:
        """The thinking blocks, joined by line breaks."""
        return "\n".join(
            block.thinking for block in self.content if isinstance(block, ThinkingContent)
        )

    def to_dict(self, block_index: int = 0) -> dict[str, Any]:
        """Convert the message to JSON; `block_index` is its index in a list of messages."""
        data: dict[str, Any] = {
            "role": self.role.value,
            **content_to_dict(self.content, block_index),
        }
        if self.usage_metadata is not None:
            data["usage_metadata"] = dict(self.usage_metadata)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Convert the result of `to_dict` to a message.

        Raises:
            ValueError: It is not a message.
        """
        usage = data.get("usage_metadata")
        return cls(
            Role(data.get("role")), content_from_dict(data), None if usage is None else dict(usage)
        )
