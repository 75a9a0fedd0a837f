"""The turns of a hosting library, and their chat history in the format of the gateway.

The objects of `microsoft-agents-hosting-core` satisfy the protocols.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from plait.errors import ConfigError


class Conversation(Protocol):
    """The conversation of a message."""

    @property
    def id(self) -> str | None:
        """Its id."""
        ...


class Activity(Protocol):
    """The message that is being answered."""

    @property
    def id(self) -> str | None:
        """The id of the message."""
        ...

    @property
    def text(self) -> str | None:
        """The text of the user."""
        ...

    @property
    def conversation(self) -> Conversation | None:
        """The conversation of the message."""
        ...

    @property
    def channel_id(self) -> str | None:
        """The channel, and after a colon the sub-channel."""
        ...

    def is_agentic_request(self) -> bool:
        """Say whether an agent with an identity of its own is addressed."""
        ...

    def get_agentic_instance_id(self) -> str | None:
        """Return the id of that agent."""
        ...


class TurnContext(Protocol):
    """One turn of a conversation."""

    @property
    def activity(self) -> Activity:
        """The message of the turn."""
        ...


class ExchangedToken(Protocol):
    """The result of a token exchange; the token is empty if it failed."""

    @property
    def token(self) -> str | None:
        """The token itself."""
        ...


class Authorization(Protocol):
    """Exchanges tokens for the user of a turn."""

    async def exchange_token(
        self, context: Any, scopes: list[str] | None = None, auth_handler_id: str | None = None
    ) -> ExchangedToken:
        """Return a token for these scopes."""
        ...


Redact = Callable[[str], str]
"""Removes secrets from a text, before it is stored or sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatHistoryMessage:
    """One message of a conversation."""

    id: str
    role: str
    content: str
    timestamp: datetime

    def to_wire(self) -> dict[str, str]:
        """Convert to the wire format."""
        moment = self.timestamp.astimezone(UTC).isoformat(timespec="milliseconds")
        return {
            "id": self.id,
            "role": self.role,
            "content": self.content,
            "timestamp": moment.replace("+00:00", "Z"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatHistory:
    """The chat history that is sent for one turn."""

    conversation_id: str
    message_id: str
    user_message: str
    messages: tuple[ChatHistoryMessage, ...] = ()

    def redacted(self, redact: Redact) -> ChatHistory:
        """Return a copy with all texts redacted."""
        return replace(
            self,
            user_message=redact(self.user_message),
            messages=tuple(replace(each, content=redact(each.content)) for each in self.messages),
        )

    def body(self) -> bytes:
        """Return the body of the request."""
        data = {
            "conversationId": self.conversation_id,
            "messageId": self.message_id,
            "userMessage": self.user_message,
            "chatHistory": [message.to_wire() for message in self.messages],
        }
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        # Lone surrogates cannot be encoded.
        return text.encode("utf-8", "replace")


def history_of(turn: TurnContext, messages: Iterable[ChatHistoryMessage]) -> ChatHistory:
    """Combine a turn and its messages."""
    activity = turn.activity
    required = {
        "Conversation ID": activity.conversation.id if activity.conversation else None,
        "Message ID": activity.id,
        "User message": activity.text,
    }
    for what, value in required.items():
        if not (value or "").strip():
            raise ConfigError(f"{what} is required but not found in turn context")
    conversation, message, text = map(str, required.values())
    return ChatHistory(
        conversation_id=conversation,
        message_id=message,
        user_message=text,
        messages=tuple(messages),
    )


@dataclass(frozen=True, slots=True)
class OperationError:
    """Why an operation failed."""

    exception: Exception

    @property
    def message(self) -> str:
        """The text of the exception."""
        return str(self.exception)

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OperationResult:
    """Whether an operation succeeded, and its errors."""

    succeeded: bool
    failures: tuple[OperationError, ...] = ()

    @property
    def errors(self) -> list[OperationError]:
        """A copy of the list of errors."""
        return list(self.failures)

    @staticmethod
    @functools.cache
    def success() -> OperationResult:
        """Return the shared result of success."""
        return OperationResult(succeeded=True)

    @staticmethod
    def failed(*errors: OperationError) -> OperationResult:
        """Return a failure."""
        return OperationResult(succeeded=False, failures=errors)

    def __str__(self) -> str:
        if self.succeeded:
            return "Succeeded"
        return f"Failed: {', '.join(map(str, self.failures))}" if self.failures else "Failed"

    def __repr__(self) -> str:
        return f"<OperationResult {self}>"
