"""Messages of a conversation, alone and in lists, and the usage of the model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Self, cast

from plait._support.sanitize import well_formed_data


class ContentType(StrEnum):
    """The kinds of blocks."""

    TEXT = "text"
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"
    THINKING = "thinking"
    IMAGE = "image"


@dataclass(frozen=True, slots=True)
class TextContent:
    """A text."""

    text: str
    type: ClassVar[ContentType] = ContentType.TEXT


@dataclass(frozen=True, slots=True)
class ToolUseContent:
    """A tool call that a model requests."""

    id: str
    """The id that links the result to the call."""
    name: str
    input: dict[str, Any] = field(default_factory=dict[str, Any])
    type: ClassVar[ContentType] = ContentType.TOOL_USE


@dataclass(frozen=True, slots=True)
class ToolResultContent:
    """The result of a tool, as text."""

    tool_use_id: str
    content: str
    is_error: bool = False
    type: ClassVar[ContentType] = ContentType.TOOL_RESULT


@dataclass(frozen=True, slots=True)
class ThinkingContent:
    """The thinking of a model before its answer."""

    thinking: str
    signature: str | None = None
    """The signature of the provider, which it requires to accept the thinking again."""
    type: ClassVar[ContentType] = ContentType.THINKING


@dataclass(frozen=True, slots=True)
class ImageContent:
    """An image in a message of the user."""

    data: str = field(repr=False)
    """The bytes, in base64."""
    mime_type: str
    type: ClassVar[ContentType] = ContentType.IMAGE


Content = TextContent | ToolUseContent | ToolResultContent | ThinkingContent | ImageContent
"""Any block."""


def content_to_dict(content: Sequence[Content], block_index: int = 0) -> dict[str, Any]:
    """Convert the blocks of a message to JSON."""
    results = [block for block in content if isinstance(block, ToolResultContent)]
    texts = [block.text for block in content if isinstance(block, TextContent)]
    calls = [block for block in content if isinstance(block, ToolUseContent)]
    thinking = [block for block in content if isinstance(block, ThinkingContent)]
    data: dict[str, Any] = {
        "content": results[0].content if results else "\n".join(texts),
        "block_index": block_index,
    }
    if calls:
        data["tool_calls"] = [_fields_of(call) for call in calls]
    if results:
        result = results[0]
        data["tool_result"] = {"tool_use_id": result.tool_use_id, "is_error": result.is_error}
    if thinking:
        data["thinking"] = _fields_of(thinking[0])
    if content_from_dict(data) != list(content):
        data["blocks"] = [{"type": block.type.value, **_fields_of(block)} for block in content]
    return data


def content_from_dict(data: Mapping[str, Any]) -> list[Content]:
    """Convert JSON to the blocks of a message."""
    try:
        if (blocks := data.get("blocks")) is not None:
            kinds = [(_BLOCKS[ContentType(block.get("type"))], block) for block in blocks]
            return [
                kind(**{one.name: block[one.name] for one in fields(kind) if one.name in block})
                for kind, block in kinds
            ]
        return _from_flat(data)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not the content of a message: {error!r}") from error


def _from_flat(data: Mapping[str, Any]) -> list[Content]:
    blocks: list[Content] = []
    if (thinking := data.get("thinking")) is not None:
        blocks.append(ThinkingContent(thinking["thinking"], thinking.get("signature")))
    text = data.get("content") or ""
    if not isinstance(text, str):
        raise TypeError("the content of a message must be a text")
    result = data.get("tool_result")
    # With a result, the text is that of the result.
    if text and result is None:
        blocks.append(TextContent(text))
    blocks.extend(
        ToolUseContent(call["id"], call["name"], dict(call.get("input") or {}))
        for call in data.get("tool_calls") or ()
    )
    if result is not None:
        failed = bool(result.get("is_error", False))
        blocks.append(ToolResultContent(result["tool_use_id"], text, failed))
    return blocks


def well_formed_block(block: Content) -> Content:
    """Return a block with texts that can be encoded; lone surrogates are replaced."""
    values = {field.name: getattr(block, field.name) for field in fields(block)}
    changed = well_formed_data(values)
    return block if changed == values else replace(block, **changed)


_BLOCKS: Mapping[ContentType, type[Content]] = {
    kind.type: kind
    for kind in (TextContent, ToolUseContent, ToolResultContent, ThinkingContent, ImageContent)
}


def _fields_of(block: Content) -> dict[str, Any]:
    values = {field.name: getattr(block, field.name) for field in fields(block)}
    return {name: copy(value) for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class UsageMetadata:
    """Tokens and cost of a turn or a run, as the provider reported them."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cost_usd: float | None = None
    cache_read_tokens: int | None = None
    """Input tokens from the cache of the provider; `None` if it does not report them."""
    cache_creation_tokens: int | None = None
    """Input tokens written to the cache of the provider."""
    model: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON: the three counts, and the other fields that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Convert the result of `to_dict` to a usage."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: data[name] for name in names if name in data})

    def __add__(self, other: UsageMetadata) -> UsageMetadata:
        """Add two usages; the model is the last one that is known."""
        sums: dict[str, Any] = {}
        for one in fields(self):
            first, second = getattr(self, one.name), getattr(other, one.name)
            if one.name == "model":
                continue
            # `None` is unknown, and adds nothing.
            known = second if first is None else first
            sums[one.name] = known if first is None or second is None else first + second
        return UsageMetadata(**sums, model=other.model or self.model)


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
    usage_metadata: Mapping[str, Any] | None = field(default=None, compare=False)
    """The usage of the model for this message, if the provider reported it."""

    @classmethod
    def system(cls, text: str) -> Self:
        """Create a system message."""
        return cls(Role.SYSTEM, [TextContent(text)])

    @classmethod
    def user(cls, text: str, images: Sequence[ImageContent] = ()) -> Self:
        """Create a user message, with images after the text."""
        return cls(Role.USER, [TextContent(text), *images])

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
    def images(self) -> list[ImageContent]:
        """The images in the message."""
        return [block for block in self.content if isinstance(block, ImageContent)]

    @property
    def thinking(self) -> str:
        """The thinking blocks, joined by line breaks."""
        return "\n".join(
            block.thinking for block in self.content if isinstance(block, ThinkingContent)
        )

    def well_formed(self) -> Message:
        """Return the message with texts that can be encoded; lone surrogates are replaced."""
        blocks = [well_formed_block(block) for block in self.content]
        return self if blocks == self.content else replace(self, content=blocks)

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


def messages_to_dicts(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Convert messages to JSON values, each with its index in the list."""
    return [message.to_dict(index) for index, message in enumerate(messages)]


def messages_to_json(messages: Iterable[Message], *, indent: int | None = None) -> str:
    """Write messages as a JSON list."""
    return json.dumps(messages_to_dicts(messages), ensure_ascii=False, indent=indent)


def messages_from_json(text: str | bytes) -> list[Message]:
    """Read messages from a JSON list.

    Raises:
        ValueError: It is not JSON, or not a list of messages.
    """
    data: object = json.loads(text)
    if not isinstance(data, list):
        raise ValueError("messages must be a JSON list")  # noqa: TRY004  # invalid text
    return [Message.from_dict(item) for item in cast("list[dict[str, Any]]", data)]


def to_prompt_string(messages: Sequence[Message]) -> str:
    """Join the user messages with empty lines."""
    return "\n\n".join(_texts(messages, Role.USER))


def extract_system_prompt(messages: Sequence[Message]) -> str | None:
    """Join the system messages with empty lines; `None` without any."""
    return "\n\n".join(_texts(messages, Role.SYSTEM)) or None


def answered(messages: Iterable[Message]) -> list[Message]:
    """Return a conversation to continue: without calls that have no result.

    Providers reject such calls, which a run that was stopped may leave.
    """
    kept = list(messages)
    results = {result.tool_use_id for message in kept for result in message.tool_results}
    continued: list[Message] = []
    for message in kept:
        if all(call.id in results for call in message.tool_calls):
            continued.append(message)
            continue
        blocks = [
            block
            for block in message.content
            if not isinstance(block, ToolUseContent) or block.id in results
        ]
        if any(isinstance(block, TextContent | ToolUseContent) for block in blocks):
            continued.append(replace(message, content=blocks))
    return continued


def without_prompts(messages: Iterable[Message]) -> list[Message]:
    """Remove user and system messages."""
    return [message for message in messages if message.role in (Role.ASSISTANT, Role.TOOL)]


def _texts(messages: Sequence[Message], role: Role) -> list[str]:
    return [message.text for message in messages if message.role is role and message.text]
