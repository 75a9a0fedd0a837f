"""Sampling with chat models: MCP requests as LangChain messages, and the reply as MCP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableBinding

from plait._support import mcp_types as types
from plait._support.gather import resolve
from plait.client.calls.outcome import json_text
from plait.client.calls.sampling import Sampler, Sampling, SamplingRequest, SamplingResult
from plait.errors import ConfigError
from plait.langchain.tools.blocks import Block, mcp_content_from, standard_block, text_block
from plait.langchain.tools.graph_run import as_run_config

_TOKEN_LIMITS = ("max_tokens", "max_output_tokens", "max_completion_tokens", "num_predict")
"""The names that chat models have for the limit of output tokens."""

_STOP_REASONS: Mapping[str, str] = {
    "end_turn": "endTurn",
    "stop": "endTurn",
    "length": "maxTokens",
    "max_tokens": "maxTokens",
    "stop_sequence": "stopSequence",
    "tool_calls": "toolUse",
    "tool_use": "toolUse",
}
"""Stop reasons of providers and those of MCP."""


def sampling_from(option: object) -> Sampling | None:
    """Read the `sampling` option: a chat model, its name, a function, or all settings."""
    sampling = Sampling.of(option)
    return None if sampling is None else replace(sampling, model=_sampler(sampling.model))


def _sampler(model: object) -> Sampler:
    if isinstance(model, str):
        from langchain.chat_models import init_chat_model  # noqa: PLC0415  # slow to import

        try:
            return _ChatModelSampler(init_chat_model(model))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise ConfigError(f"sampling: cannot make the model {model!r}: {reason}") from error
    if isinstance(model, BaseChatModel | RunnableBinding):
        return _ChatModelSampler(cast("Runnable[Any, Any]", model))
    if callable(model):

        async def sample(server: str, request: SamplingRequest) -> SamplingResult | str:
            reply: Any = await resolve(model(server, request))
            return result_from(reply, request) if isinstance(reply, AIMessage) else reply

        return sample
    raise ConfigError(
        "sampling takes a chat model, a name such as 'provider:model', or a function of a server "
        f"and its request; found {type(model).__name__}"
    )


class _ChatModelSampler:
    """Calls a chat model, outside of the run in which the server asks for it."""

    def __init__(self, model: Runnable[Any, Any]) -> None:
        self._model = model

    async def __call__(self, server: str, request: SamplingRequest) -> SamplingResult:
        del server
        model, extra = _limited_model(self._model, request)
        mode = (request.tool_choice and request.tool_choice.mode) or "auto"
        if request.tools and mode != "none":
            tools = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description or "",
                        "parameters": tool.input_schema,
                    },
                }
                for tool in request.tools
            ]
            options = {"tool_choice": "any"} if mode == "required" else {}
            model = cast("Any", model).bind_tools(tools, **options)
        if request.stop_sequences:
            extra["stop"] = request.stop_sequences
        # The callbacks of the run must not trace or stream this call.
        with as_run_config(None):
            reply = await model.ainvoke(messages_from(request), **extra)
        return result_from(reply, request)


def _limited_model(
    model: Runnable[Any, Any], request: SamplingRequest
) -> tuple[Runnable[Any, Any], dict[str, Any]]:
    """Return the model with the limits of a request, and those to pass with the call."""
    if isinstance(model, RunnableBinding):
        inner, extra = _limited_model(model.bound, request)
        return model.model_copy(update={"bound": inner}), extra
    known = type(model).model_fields if isinstance(model, BaseChatModel) else {}
    changes: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    limit_name = next((name for name in _TOKEN_LIMITS if name in known), None)
    if limit_name is None:
        extra["max_tokens"] = request.max_tokens
    else:
        own: object = getattr(model, limit_name)
        limits = [limit for limit in (own, request.max_tokens) if isinstance(limit, int)]
        changes[limit_name] = min(limit for limit in limits if limit > 0)
    if request.temperature is not None:
        (changes if "temperature" in known else extra)["temperature"] = request.temperature
    if changes and isinstance(model, BaseChatModel):
        return model.model_copy(update=changes), extra
    return model, extra


def messages_from(request: SamplingRequest) -> list[BaseMessage]:
    """Translate the conversation of a request."""
    messages: list[BaseMessage] = []
    if request.system_prompt:
        messages.append(SystemMessage(request.system_prompt))
    for message in request.messages:
        blocks: list[Block] = []
        calls: list[dict[str, Any]] = []
        for part in message.content_as_list:
            if isinstance(part, types.ToolResultContent):
                results = [_block(block) for block in part.content]
                if not results and part.structured_content is not None:
                    results = [text_block(json_text(part.structured_content))]
                messages.append(
                    ToolMessage(
                        _content(results),
                        tool_call_id=part.tool_use_id,
                        status="error" if part.is_error else "success",
                    )
                )
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


def _block(part: types.ContentBlock) -> Block:
    return standard_block(part.model_copy(update={"annotations": None, "meta": None}))


def _content(blocks: Sequence[Block]) -> Any:
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return list(blocks)


def result_from(message: AIMessage, request: SamplingRequest) -> SamplingResult:
    """Translate the reply of a model; content that MCP has no type for is left out."""
    facts: dict[str, Any] = dict(message.response_metadata)
    reason = facts.get("stop_reason") or facts.get("finish_reason") or facts.get("done_reason")
    if message.tool_calls:
        reason = "tool_calls"
    reply: dict[str, Any] = {
        "role": "assistant",
        "model": str(facts.get("model_name") or facts.get("model") or "unknown"),
        "stop_reason": reason and _STOP_REASONS.get(str(reason).lower(), str(reason)),
    }
    text = types.TextContent(text=str(message.text))
    media = [
        block
        for block in mcp_content_from(cast("Any", message.content_blocks))
        if isinstance(block, types.ImageContent | types.AudioContent)
    ]
    content = [text, *media] if text.text or not media else list(media)
    if not request.tools:
        return types.CreateMessageResult(content=content[0], **reply)
    calls = [
        types.ToolUseContent(name=call["name"], id=call["id"] or call["name"], input=call["args"])
        for call in message.tool_calls
    ]
    blocks = [block for block in content if not isinstance(block, types.TextContent) or block.text]
    return types.CreateMessageResultWithTools(content=[*blocks, *calls] or content[0], **reply)
