"""One message of a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from plait.traces.messages.codec import content_from_dict, content_to_dict
from plait.traces.messages.content import (
    Content,
    TextContent,
    ThinkingContent,
    ToolResultContent,
    ToolUseContent,
)


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Message:
    """What one speaker said at one time."""

    role: Role

    content: list[Content]

    usage_metadata: Mapping[str, Any] | None = None
    """The tokens that the model needed for this message, where the provider said."""

    @classmethod
    def system(cls, text: str) -> Self:
        """Make a message that sets the rules."""
        return cls(Role.SYSTEM, [TextContent(text)])

    @classmethod
    def user(cls, text: str) -> Self:
        """Make a message of the user."""
        return cls(Role.USER, [TextContent(text)])

    @classmethod
    def assistant(cls, text: str = "", tool_calls: Sequence[ToolUseContent] | None = None) -> Self:
        """Make a message of the model; an empty text leaves no block."""
        said: list[Content] = [TextContent(text)] if text else []
        return cls(Role.ASSISTANT, [*said, *(tool_calls or ())])

    @classmethod
    def tool_result(cls, tool_use_id: str, content: str, is_error: bool = False) -> Self:
        """Make a message with the answer of a tool."""
        return cls(Role.TOOL, [ToolResultContent(tool_use_id, content, is_error)])

    @property
    def text(self) -> str:
        """The text blocks, a line break between them."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))

    @property
    def tool_calls(self) -> list[ToolUseContent]:
        """The calls that the message asks for."""
        return [block for block in self.content if isinstance(block, ToolUseContent)]

    @property
    def tool_results(self) -> list[ToolResultContent]:
        """The answers of tools in it."""
        return [block for block in self.content if isinstance(block, ToolResultContent)]

    @property
    def thinking(self) -> str:
        """What was thought, a line break between blocks."""
        return "\n".join(
            block.thinking for block in self.content if isinstance(block, ThinkingContent)
        )

    def to_dict(self, block_index: int = 0) -> dict[str, Any]:
        """Describe the message as plain data; `block_index` is its place in a list of messages."""
        told: dict[str, Any] = {
            "role": self.role.value,
            **content_to_dict(self.content, block_index),
        }
        if self.usage_metadata is not None:
            told["usage_metadata"] = dict(self.usage_metadata)
        return told

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote.

        Raises:
            ValueError: It is not a message.
        """
        usage = data.get("usage_metadata")
        return cls(
            Role(data.get("role")), content_from_dict(data), None if usage is None else dict(usage)
        )
