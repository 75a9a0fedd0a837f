"""Converts LangChain messages to chat history."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal, TypeVar, cast

from langchain_core.messages import (
    BaseMessage,
    ChatMessage,
    MessageLikeRepresentation,
    convert_to_messages,
)

from plait.errors import ConfigError
from plait.gateway.history import ChatHistoryMessage

logger = logging.getLogger("plait.gateway")

T = TypeVar("T")

Roles = Literal["all", "strict"]
"""Whether messages of tools and functions keep their roles, or get that of the assistant."""

LimitFrom = Literal["end", "start"]
"""Which messages a limit keeps: the newest, or the oldest."""

_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "function",
}

_TOOL_ROLES = frozenset({"tool", "function"})


def limited(messages: Sequence[T], limit: int | None, limit_from: LimitFrom) -> Sequence[T]:
    """Keep at most `limit` messages; a negative limit is ignored."""
    if limit is None or limit < 0:
        return messages
    return messages[:limit] if limit_from == "start" else messages[max(0, len(messages) - limit) :]


def history_from_messages(
    messages: Sequence[MessageLikeRepresentation], now: datetime, *, roles: Roles = "all"
) -> list[ChatHistoryMessage]:
    """Convert messages; those without text, or that cannot be read, are left out."""
    history: list[ChatHistoryMessage] = []
    for place, item in enumerate(messages):
        message = _message_from(item, place)
        try:
            content = text_of(message)
            role = role_of(message, roles)
            identity = message.id or str(uuid.uuid4())
        except Exception as error:  # noqa: BLE001  # boundary: messages may be of any class
            logger.warning("message %d cannot be read: %s", place + 1, type(error).__name__)
            continue
        if not content.strip():
            logger.debug("message %d (%s) has no text", place + 1, role)
            continue
        history.append(ChatHistoryMessage(id=identity, role=role, content=content, timestamp=now))
    return history


def _message_from(item: MessageLikeRepresentation, place: int) -> BaseMessage:
    """Return a message from a dict, a tuple or a text, as LangChain reads them."""
    if isinstance(item, BaseMessage):
        return item
    try:
        (message,) = convert_to_messages([item])
    except Exception as error:
        kind = type(item).__name__
        raise ConfigError(f"message {place + 1} is a {kind} that is no message") from error
    return message


def role_of(message: BaseMessage, roles: Roles = "all") -> str:
    """Return the role of a message."""
    kind = message.type.removesuffix("MessageChunk").lower()
    role = _ROLES.get(kind, "user")
    if isinstance(message, ChatMessage) or kind == "chat":
        role = str(getattr(message, "role", "") or "user")
    return "assistant" if roles == "strict" and role in _TOOL_ROLES else role


def text_of(message: BaseMessage) -> str:
    """Return the text of a message: its `text`, its content, or its parts joined."""
    text = str(message.text)
    if text.strip():
        return text
    content: object = message.content
    if isinstance(content, str):
        return content
    return " ".join(_part_texts(cast("Sequence[object]", content)))


def _part_texts(parts: Sequence[object]) -> Iterator[str]:
    for part in parts:
        text = cast("Mapping[str, object]", part).get("text") if isinstance(part, Mapping) else part
        if isinstance(text, str) and text:
            yield text
