"""The blocks that a message is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar


class ContentType(StrEnum):
    """The kinds of blocks."""

    TEXT = "text"
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"
    THINKING = "thinking"


@dataclass(frozen=True, slots=True)
class TextContent:
    """Something that was said."""

    text: str

    type: ClassVar[ContentType] = ContentType.TEXT


@dataclass(frozen=True, slots=True)
class ToolUseContent:
    """A model's wish to have a tool called."""

    id: str
    """By which the result is known to belong to it."""

    name: str

    input: dict[str, Any] = field(default_factory=dict[str, Any])

    type: ClassVar[ContentType] = ContentType.TOOL_USE


@dataclass(frozen=True, slots=True)
class ToolResultContent:
    """What a tool answered, as text."""

    tool_use_id: str

    content: str

    is_error: bool = False

    type: ClassVar[ContentType] = ContentType.TOOL_RESULT


@dataclass(frozen=True, slots=True)
class ThinkingContent:
    """What a model thought before it spoke."""

    thinking: str

    signature: str | None = None
    """The provider's seal on it, without which it cannot be sent back."""

    type: ClassVar[ContentType] = ContentType.THINKING


Content = TextContent | ToolUseContent | ToolResultContent | ThinkingContent
"""Any block."""
