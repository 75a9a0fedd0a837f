"""Messages of plait and of LangChain, and the state that a stopped graph left."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from plait.traces.messages.from_langchain import message_from_any
from plait.traces.messages.message import Message, Role, TextContent, ThinkingContent, UsageMetadata
from plait.traces.raw import DEFAULT_FORMAT, TraceFormatConfig, messages_to_raw_trace

logger = logging.getLogger("plait.agents.engines")

_CACHE_WRITES = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
"""LangChain's names for tokens written to Anthropic's cache with a known lifetime."""


def messages_from_langchain(messages: Iterable[BaseMessage]) -> list[Message]:
    """Convert messages of LangChain; the status of tool messages is kept.

    Raises:
        ValueError: A message has an unknown type.
    """
    return [message_from_any(message) for message in messages]


def messages_to_langchain(messages: Iterable[Message]) -> list[BaseMessage]:
    """Convert messages for LangChain; a message with two tool results becomes two.

    Thinking is kept only with its signature: providers reject it without.
    """
    names: dict[str, str] = {}
    converted: list[BaseMessage] = []
    for message in messages:
        match message.role:
            case Role.SYSTEM:
                converted.append(SystemMessage(message.text))
            case Role.USER:
                images: list[str | dict[str, Any]] = [
                    {"type": "image", "base64": image.data, "mime_type": image.mime_type}
                    for image in message.images
                ]
                text = {"type": "text", "text": message.text}
                converted.append(HumanMessage([text, *images] if images else message.text))
            case Role.ASSISTANT:
                names.update((call.id, call.name) for call in message.tool_calls)
                blocks: list[Any] = []
                for block in message.content:
                    match block:
                        case TextContent(text):
                            blocks.append({"type": "text", "text": text})
                        case ThinkingContent(thinking, str() as signature):
                            thought = {"type": "thinking", "thinking": thinking}
                            blocks.append({**thought, "signature": signature})
                        case _:
                            pass
                is_text = not blocks or [block["type"] for block in blocks] == ["text"]
                calls = [
                    ToolCall(name=call.name, args=call.input, id=call.id, type="tool_call")
                    for call in message.tool_calls
                ]
                content = message.text if is_text else blocks
                converted.append(AIMessage(content, tool_calls=calls))
            case Role.TOOL:
                converted += [
                    ToolMessage(
                        content=result.content,
                        tool_call_id=result.tool_use_id,
                        name=names.get(result.tool_use_id),
                        status="error" if result.is_error else "success",
                    )
                    for result in message.tool_results
                ]
    return converted


def usage_from_langchain(message: AIMessage) -> UsageMetadata | None:
    """Return the usage of an answer as the provider counts it; `None` if it reports none."""
    usage = message.usage_metadata
    if usage is None:
        return None
    details = cast("Mapping[str, int | None]", usage.get("input_token_details") or {})
    read = details.get("cache_read")
    written = sum(details.get(name) or 0 for name in _CACHE_WRITES) or details.get("cache_creation")
    input_tokens = usage["input_tokens"]
    if message.response_metadata.get("model_provider") == "anthropic":
        # LangChain adds the cached tokens, which Anthropic counts separately.
        input_tokens -= (read or 0) + (written or 0)
    return UsageMetadata(
        input_tokens=input_tokens,
        output_tokens=usage["output_tokens"],
        total_tokens=input_tokens + usage["output_tokens"],
        cache_read_tokens=read,
        cache_creation_tokens=written,
        model=model_name_of(message),
    )


def model_name_of(message: AIMessage) -> str | None:
    """Return the model that answered, as the provider names it."""
    metadata = message.response_metadata
    return metadata.get("model_name") or metadata.get("model")


def extract_partial_agent_state(
    error: BaseException,
    agent: Any,
    config: Mapping[str, Any] | None,
    input_messages: Sequence[BaseMessage],
) -> dict[str, Any]:
    """Return the state of a stopped graph, with its `messages`.

    It is taken from `error.state`, the checkpointer, or `error.messages`; else it holds only the
    input messages.
    """
    state = _state_of(getattr(error, "state", None))
    if state is None and agent is not None and config is not None:
        try:
            state = _state_of(agent.get_state(config).values)
        except Exception as missing:  # noqa: BLE001  # boundary: any checkpointer, or none
            logger.debug("the graph has no state: %r", missing)
    if state is None:
        state = _state_of({"messages": getattr(error, "messages", None)})
    if state is None:
        logger.warning("the messages before %s are not known", type(error).__name__)
        state = {"messages": list(input_messages)}
    return state


def harmonize_agent_response(response: object, config: TraceFormatConfig = DEFAULT_FORMAT) -> str:
    """Write the response of a graph as a raw trace: a state with `messages`, messages, or one."""
    content = response
    if isinstance(response, Mapping):
        state = cast("Mapping[str, object]", response)
        content = state.get("messages", state)
    is_list = isinstance(content, list | tuple)
    messages = cast("Sequence[object]", content) if is_list else [content]
    return messages_to_raw_trace(map(message_from_any, messages), config)


def _state_of(values: object) -> dict[str, Any] | None:
    if isinstance(values, list):
        values = {"messages": cast("list[object]", values)}
    if not isinstance(values, Mapping):
        return None
    state = dict(cast("Mapping[str, Any]", values))
    return state if state.get("messages") else None
