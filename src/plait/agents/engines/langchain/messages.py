"""Messages of plait as LangChain's, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from plait.traces.messages.content import TextContent, ThinkingContent
from plait.traces.messages.from_langchain import message_from_any
from plait.traces.messages.message import Message, Role
from plait.traces.messages.usage import UsageMetadata

_MADE_FOR = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
"""Where LangChain puts what was written to Anthropic's cache, if it is known for how long."""


def messages_from_langchain(messages: Iterable[BaseMessage]) -> list[Message]:
    """Translate messages of LangChain; the status of tool messages is kept.

    Raises:
        ValueError: A message is of a kind that plait does not have.
    """
    return [message_from_any(message) for message in messages]


def messages_to_langchain(messages: Iterable[Message]) -> list[BaseMessage]:
    """Translate messages for LangChain; a message with two results of tools becomes two.

    What a model thought goes back only with the seal of its provider: none takes it without.
    """
    names: dict[str, str] = {}
    made: list[BaseMessage] = []
    for message in messages:
        match message.role:
            case Role.SYSTEM:
                made.append(SystemMessage(message.text))
            case Role.USER:
                made.append(HumanMessage(message.text))
            case Role.ASSISTANT:
                names.update((call.id, call.name) for call in message.tool_calls)
                made.append(_said(message))
            case Role.TOOL:
                made += _results(message, names)
    return made


def usage_from_langchain(message: AIMessage) -> UsageMetadata | None:
    """Read what an answer needed, as the provider counts; `None` if it did not say."""
    told = message.usage_metadata
    if told is None:
        return None
    details = cast("Mapping[str, int | None]", told.get("input_token_details") or {})
    read = details.get("cache_read")
    made = sum(details.get(name) or 0 for name in _MADE_FOR) or details.get("cache_creation")
    given = told["input_tokens"]
    if message.response_metadata.get("model_provider") == "anthropic":
        # LangChain adds what Anthropic counts apart.
        given -= (read or 0) + (made or 0)
    written = told["output_tokens"]
    return UsageMetadata(
        input_tokens=given,
        output_tokens=written,
        total_tokens=given + written,
        cache_read_tokens=read,
        cache_creation_tokens=made,
        model=model_name_of(message),
    )


def model_name_of(message: AIMessage) -> str | None:
    """Return the model that answered, as the provider names it."""
    told = message.response_metadata
    return told.get("model_name") or told.get("model")


def _said(message: Message) -> AIMessage:
    blocks: list[dict[str, Any]] = []
    for block in message.content:
        match block:
            case TextContent(text):
                blocks.append({"type": "text", "text": text})
            case ThinkingContent(thinking, str() as signature):
                blocks.append({"type": "thinking", "thinking": thinking, "signature": signature})
            case _:
                pass
    is_text = not blocks or [block["type"] for block in blocks] == ["text"]
    content = message.text if is_text else blocks
    calls = [
        ToolCall(name=call.name, args=call.input, id=call.id, type="tool_call")
        for call in message.tool_calls
    ]
    return AIMessage(cast("str | list[str | dict[str, Any]]", content), tool_calls=calls)


def _results(message: Message, names: Mapping[str, str]) -> list[ToolMessage]:
    return [
        ToolMessage(
            content=result.content,
            tool_call_id=result.tool_use_id,
            name=names.get(result.tool_use_id),
            status="error" if result.is_error else "success",
        )
        for result in message.tool_results
    ]
