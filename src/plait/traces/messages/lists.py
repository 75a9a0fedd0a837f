"""Lists of messages: their JSON form, and their prompts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from plait.traces.messages.message import Message, Role


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


def without_prompts(messages: Iterable[Message]) -> list[Message]:
    """Remove user and system messages."""
    return [message for message in messages if message.role in (Role.ASSISTANT, Role.TOOL)]


def _texts(messages: Sequence[Message], role: Role) -> list[str]:
    return [message.text for message in messages if message.role is role and message.text]
