"""Chat history as the gateway takes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from plait.gateway.port import TurnContext
from plait.gateway.turns import words_of

Redact = Callable[[str], str]
"""Takes out of a text what must not leave; it is asked before anything is stored or sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatHistoryMessage:
    """One message of a conversation."""

    id: str
    role: str
    content: str
    timestamp: datetime

    def to_wire(self) -> dict[str, str]:
        """Return the message as it is sent."""
        moment = self.timestamp.astimezone(UTC).isoformat(timespec="milliseconds")
        return {
            "id": self.id,
            "role": self.role,
            "content": self.content,
            "timestamp": moment.replace("+00:00", "Z"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatHistory:
    """What is sent about one turn."""

    conversation_id: str
    message_id: str
    user_message: str
    messages: tuple[ChatHistoryMessage, ...] = ()

    def redacted(self, redact: Redact) -> ChatHistory:
        """Return the same without what must not leave."""
        return replace(
            self,
            user_message=redact(self.user_message),
            messages=tuple(replace(one, content=redact(one.content)) for one in self.messages),
        )

    def body(self) -> bytes:
        """Return what is sent, byte for byte."""
        told = {
            "conversationId": self.conversation_id,
            "messageId": self.message_id,
            "userMessage": self.user_message,
            "chatHistory": [message.to_wire() for message in self.messages],
        }
        text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
        # A lone surrogate is legal in a text of Python, and in no JSON.
        return text.encode("utf-8", "replace")


def history_of(turn: TurnContext | None, messages: Iterable[ChatHistoryMessage]) -> ChatHistory:
    """Put together what is sent about a turn.

    Raises:
        ConfigError: The turn does not say what it must.
    """
    conversation, message, text = words_of(turn)
    return ChatHistory(
        conversation_id=conversation,
        message_id=message,
        user_message=text,
        messages=tuple(messages),
    )
