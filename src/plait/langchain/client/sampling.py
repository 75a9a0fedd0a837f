"""Chat models that answer servers: what a server asks as messages, and the answer as MCP."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import mcp_types as types
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableBinding
from langchain_core.runnables.config import var_child_runnable_config

from plait.client.calls.content import json_text
from plait.client.calls.sampling import Sampler, Sampling, SamplingRequest, SamplingResult
from plait.errors import ConfigError
from plait.langchain.tools.blocks import Block, standard_block, text_block
from plait.langchain.tools.mcp_blocks import mcp_content_from

_LONGEST = ("max_tokens", "max_output_tokens", "max_completion_tokens", "num_predict")
"""What classes of chat models call the longest answer."""

_STOPPED: Mapping[str, str] = {
    "end_turn": "endTurn",
    "stop": "endTurn",
    "length": "maxTokens",
    "max_tokens": "maxTokens",
    "stop_sequence": "stopSequence",
    "tool_calls": "toolUse",
    "tool_use": "toolUse",
}
"""Why an answer ended, in the words of providers and in those of MCP."""


def sampling_from(given: object) -> Sampling | None:
    """Read the option of the client: a chat model, its name, a function, or all the settings.

    Raises:
        ConfigError: There is no such model, or a setting makes no sense.
    """
    sampling = Sampling.of(given)
    return None if sampling is None else replace(sampling, model=_sampler(sampling.model))


def _sampler(model: object) -> Sampler:
    if isinstance(model, str):
        return _ChatModelSampler(_named_model(model))
    if isinstance(model, BaseChatModel | RunnableBinding):
        return _ChatModelSampler(cast("Runnable[Any, Any]", model))
    if callable(model):
        return _translated(model)
    raise ConfigError(
        "sampling takes a chat model, a name such as 'provider:model', or a function of a server "
        f"and its request; found {type(model).__name__}"
    )


def _named_model(name: str) -> BaseChatModel:
    try:
        return init_chat_model(name)
    except Exception as error:
        kind = type(error).__name__
        raise ConfigError(f"sampling: cannot make the model {name!r}: {kind}: {error}") from error


def _translated(function: Callable[..., Any]) -> Sampler:
    """Let a function answer with a message of LangChain's, too."""

    async def sample(server: str, asked: SamplingRequest) -> SamplingResult | str:
        said = function(server, asked)
        answer: Any = await said if inspect.isawaitable(said) else said
        return result_from(answer, asked) if isinstance(answer, AIMessage) else answer

    return sample


class _ChatModelSampler:
    """Asks a chat model, out of sight of the run in which a server asks for it."""

    def __init__(self, model: Runnable[Any, Any]) -> None:
        self._model = model

    async def __call__(self, server: str, asked: SamplingRequest) -> SamplingResult:
        """Ask the model."""
        del server
        model, extra = _limited(self._model, asked)
        if asked.tools and _tool_mode(asked) != "none":
            model = _with_tools(model, asked)
        if asked.stop_sequences:
            extra["stop"] = asked.stop_sequences
        # The callbacks of the run would trace and stream what is none of its business.
        token = var_child_runnable_config.set(None)
        try:
            said = await model.ainvoke(messages_from(asked), **extra)
        finally:
            var_child_runnable_config.reset(token)
        return result_from(said, asked)


def _limited(
    model: Runnable[Any, Any], asked: SamplingRequest
) -> tuple[Runnable[Any, Any], dict[str, Any]]:
    """Return the model with the limits of a request, and those that it takes with each call."""
    if isinstance(model, RunnableBinding):
        inner, extra = _limited(model.bound, asked)
        return model.model_copy(update={"bound": inner}), extra
    known = type(model).model_fields if isinstance(model, BaseChatModel) else {}
    changes: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    longest = next((name for name in _LONGEST if name in known), None)
    if longest is None:
        extra["max_tokens"] = asked.max_tokens
    else:
        own: object = getattr(model, longest)
        limits = [limit for limit in (own, asked.max_tokens) if isinstance(limit, int)]
        changes[longest] = min(limit for limit in limits if limit > 0)
    if asked.temperature is not None:
        (changes if "temperature" in known else extra)["temperature"] = asked.temperature
    if changes and isinstance(model, BaseChatModel):
        return model.model_copy(update=changes), extra
    return model, extra


def _with_tools(model: Runnable[Any, Any], asked: SamplingRequest) -> Runnable[Any, Any]:
    options = {"tool_choice": "any"} if _tool_mode(asked) == "required" else {}
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description or "",
                "parameters": tool.input_schema,
            },
        }
        for tool in asked.tools or ()
    ]
    return cast("Any", model).bind_tools(tools, **options)


def _tool_mode(asked: SamplingRequest) -> str:
    return (asked.tool_choice and asked.tool_choice.mode) or "auto"


def messages_from(asked: SamplingRequest) -> list[BaseMessage]:
    """Translate the conversation that a server wants to be continued."""
    messages: list[BaseMessage] = []
    if asked.system_prompt:
        messages.append(SystemMessage(asked.system_prompt))
    for message in asked.messages:
        blocks: list[Block] = []
        calls: list[dict[str, Any]] = []
        for part in message.content_as_list:
            if isinstance(part, types.ToolResultContent):
                messages.append(_tool_message(part))
            elif isinstance(part, types.ToolUseContent):
                calls.append(
                    {"name": part.name, "args": part.input, "id": part.id, "type": "tool_call"}
                )
            else:
                blocks.append(_block(part))
        if message.role == "assistant":
            messages.append(AIMessage(_content(blocks), tool_calls=calls))
        elif blocks:
            messages.append(HumanMessage(_content(blocks)))
    return messages


def _tool_message(part: types.ToolResultContent) -> ToolMessage:
    blocks = [_block(one) for one in part.content]
    if not blocks and part.structured_content is not None:
        blocks = [text_block(json_text(part.structured_content))]
    return ToolMessage(
        _content(blocks),
        tool_call_id=part.tool_use_id,
        status="error" if part.is_error else "success",
    )


def _block(part: types.ContentBlock) -> Block:
    return standard_block(part.model_copy(update={"annotations": None, "meta": None}))


def _content(blocks: Sequence[Block]) -> Any:
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return list(blocks)


def result_from(message: AIMessage, asked: SamplingRequest) -> SamplingResult:
    """Translate what a model said; what MCP has no place for, such as thoughts, is left out."""
    facts: dict[str, Any] = dict(message.response_metadata)
    model = str(facts.get("model_name") or facts.get("model") or "unknown")
    stopped = _stop_reason(message, facts)
    content = _said(message)
    if not asked.tools:
        return types.CreateMessageResult(
            role="assistant", content=content[0], model=model, stop_reason=stopped
        )
    calls = [
        types.ToolUseContent(name=call["name"], id=call["id"] or call["name"], input=call["args"])
        for call in message.tool_calls
    ]
    said = [one for one in content if not isinstance(one, types.TextContent) or one.text]
    return types.CreateMessageResultWithTools(
        role="assistant",
        content=[*said, *calls] or content[0],
        model=model,
        stop_reason=stopped,
    )


def _said(message: AIMessage) -> list[types.TextContent | types.ImageContent | types.AudioContent]:
    """Return the text, or what was made in place of it; there is always one block."""
    text = types.TextContent(text=str(message.text))
    shown = [
        block
        for block in mcp_content_from(cast("Any", message.content_blocks))
        if isinstance(block, types.ImageContent | types.AudioContent)
    ]
    return [text, *shown] if text.text or not shown else list(shown)


def _stop_reason(message: AIMessage, facts: Mapping[str, Any]) -> str | None:
    if message.tool_calls:
        return "toolUse"
    said = facts.get("stop_reason") or facts.get("finish_reason") or facts.get("done_reason")
    return None if said is None else _STOPPED.get(str(said).lower(), str(said))
