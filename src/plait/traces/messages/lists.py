"""Lists of messages: as JSON, and what engines that take only a text need of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from plait.traces.messages.message import Message, Role


def messages_to_dicts(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Describe messages as plain data, each with its place in the list."""
    return [message.to_dict(place) for place, message in enumerate(messages)]


def messages_from_dicts(data: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Read what `messages_to_dicts` wrote.

    Raises:
        ValueError: One of them is not a message.
    """
    return [Message.from_dict(one) for one in data]


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
        raise ValueError("messages are a JSON list")  # noqa: TRY004  # of bad text, not of a bad call
    return messages_from_dicts(cast("list[dict[str, Any]]", data))


def to_prompt_string(messages: Sequence[Message]) -> str:
    """Join what the user said, an empty line between messages."""
    return "\n\n".join(_texts(messages, Role.USER))


def extract_system_prompt(messages: Sequence[Message]) -> str | None:
    """Join what the system messages say; `None` without any."""
    return "\n\n".join(_texts(messages, Role.SYSTEM)) or None


def without_prompts(messages: Iterable[Message]) -> list[Message]:
    """Leave out what was said to the agent: messages of the user and of the system."""
    return [message for message in messages if message.role in (Role.ASSISTANT, Role.TOOL)]


def _texts(messages: Sequence[Message], role: Role) -> list[str]:
    return [message.text for message in messages if message.role is role and message.text]
