"""A LangChain chat model that plays a script: for tests, and to try things without a provider."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr
from typing_extensions import override

from plait.models.scripts import Say, ScriptPlayer, read_script

Turn: TypeAlias = "str | Say | AIMessage | Sequence[ToolCall] | BaseException | Answer"
"""What the model does in one turn: return a text or a message, call tools, or raise."""

Answer: TypeAlias = Callable[[list[BaseMessage]], Turn]
"""Computes a turn from the messages so far."""

_ids = itertools.count(1)


def tool_call(name: str, /, **arguments: Any) -> ToolCall:
    """Make a tool call with a unique id, for a turn of a `ScriptedChatModel`."""
    return ToolCall(name=name, args=arguments, id=f"call_{next(_ids)}", type="tool_call")


def scripted_model(path: str | PathLike[str]) -> ScriptedChatModel:
    """Make a model that plays the script in a JSON file."""
    return ScriptedChatModel(read_script(path))


class ScriptedChatModel(BaseChatModel):
    """A chat model that plays a script and records its requests.

    `turns` holds one turn per request: a text, a `Say`, an `AIMessage`, a list of tool calls (see
    `tool_call`), an exception to raise, or a function from the messages so far to any of these.
    A single function in place of the list answers every request. After the last turn, a request
    raises a `RuntimeError`.

    Messages without usage get an estimate: four bytes of UTF-8 are a token.
    """

    turns: Any
    """The script."""
    model_name: str = "scripted"
    provider: str = "scripted"
    """The provider to report in the LangSmith parameters: `"openai"`, `"anthropic"`, ..."""
    seen: list[list[BaseMessage]] = Field(default_factory=list[list[BaseMessage]])
    """The messages of each request."""
    bound: list[list[str]] = Field(default_factory=list[list[str]])
    """The names of the tools of each `bind_tools`."""
    bound_tools: list[dict[str, dict[str, Any]]] = Field(
        default_factory=list[dict[str, dict[str, Any]]]
    )
    """The same tools by name, as `{"name", "description", "parameters"}`."""
    _player: ScriptPlayer[list[BaseMessage], Turn] = PrivateAttr()

    def __init__(self, turns: Sequence[Turn] | Answer, **options: Any) -> None:
        options["turns"] = turns if callable(turns) else list(turns)
        super().__init__(**options)
        self._player = ScriptPlayer(self.turns)

    @property
    @override
    def _llm_type(self) -> str:
        return "scripted"

    @override
    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop, **kwargs)
        params["ls_provider"] = self.provider
        params["ls_model_name"] = self.model_name
        return params

    @override
    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Record the tools, and return the model with them."""
        formatted = [convert_to_openai_tool(tool) for tool in tools]
        described = [cast("dict[str, Any]", tool.get("function", tool)) for tool in formatted]
        named = {tool.get("name", tool.get("type", "")): tool for tool in described}
        self.bound.append(list(named))
        self.bound_tools.append(named)
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=formatted, **kwargs)

    @override
    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        message, delay = self._next(messages)
        time.sleep(delay)
        return ChatResult(generations=[ChatGeneration(message=message)])

    @override
    async def _agenerate(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> ChatResult:
        message, delay = self._next(messages)
        await asyncio.sleep(delay)
        return ChatResult(generations=[ChatGeneration(message=message)])

    @override
    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        message, delay = self._next(messages)
        time.sleep(delay)
        for chunk in _chunks(message):
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    @override
    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        message, delay = self._next(messages)
        await asyncio.sleep(delay)
        for chunk in _chunks(message):
            if run_manager is not None:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def _next(self, messages: Sequence[BaseMessage]) -> tuple[AIMessage, float]:
        """Return the message of the next turn, and its delay in seconds."""
        self.seen.append(list(messages))
        message, delay = _message(self._player.next(list(messages)), messages)
        if message.usage_metadata is None:
            message.usage_metadata = _usage(messages, message)
        message.response_metadata.setdefault("model_name", self.model_name)
        return message, delay


def _message(turn: Turn, messages: Sequence[BaseMessage]) -> tuple[AIMessage, float]:
    """Make the message of a turn, and its delay, or raise its exception."""
    if isinstance(turn, BaseException):
        raise turn
    if isinstance(turn, str):
        return AIMessage(turn), 0.0
    if isinstance(turn, Say):
        content: str | list[str | dict[str, Any]] = turn.text
        if turn.thinking:
            text = [{"type": "text", "text": turn.text}] if turn.text else []
            content = [{"type": "reasoning", "reasoning": turn.thinking}, *text]
        calls = [tool_call(call.name, **call.arguments) for call in turn.calls]
        for call, scripted in zip(calls, turn.calls, strict=True):
            call["id"] = scripted.id or call["id"]
        message = AIMessage(content, tool_calls=calls)
        if turn.stop is not None:
            message.response_metadata["finish_reason"] = turn.stop
        if turn.usage is not None:
            message.usage_metadata = _usage(messages, message, turn.usage)
        return message, turn.delay
    if isinstance(turn, AIMessage):
        # The caller sets an id on the message; the next run of the script needs its own.
        return turn.model_copy(deep=True), 0.0
    if callable(turn):
        return _message(turn(list(messages)), messages)
    return AIMessage("", tool_calls=list(turn)), 0.0


def _usage(
    messages: Sequence[BaseMessage], reply: AIMessage, scripted: Mapping[str, int] | None = None
) -> UsageMetadata:
    """Return the counts of a script, and estimates for those that it does not set."""
    counts = scripted or {}
    read = counts.get("input_tokens", sum(map(_tokens, messages)))
    written = counts.get("output_tokens", _tokens(reply))
    usage = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
    names = ("cache_read", "cache_creation")
    details = {name: counts[f"{name}_tokens"] for name in names if f"{name}_tokens" in counts}
    if details:
        usage["input_token_details"] = cast("InputTokenDetails", details)
    return usage


def _tokens(message: BaseMessage) -> int:
    calls = cast("Sequence[ToolCall]", getattr(message, "tool_calls", ()))
    called = [{"name": call["name"], "args": call["args"]} for call in calls]
    text = message.content if isinstance(message.content, str) else _json(message.content)
    size = len(text.encode()) + (len(_json(called).encode()) if called else 0)
    return -(-size // 4)


def _chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    """Split a message into chunks, as a provider streams it."""
    content = message.content
    pieces = re.findall(r"\s*\S+|\s+", content) if isinstance(content, str) else [content]
    for piece in pieces:
        yield _chunk(content=piece)
    calls: list[Mapping[str, Any]] = [*message.tool_calls, *message.invalid_tool_calls]
    for index, call in enumerate(calls):
        # Its name and id, then its arguments as JSON.
        text = call["args"] if isinstance(call["args"], str) else _json(call["args"])
        start = tool_call_chunk(name=call["name"], args="", id=call["id"], index=index)
        for part in (start, tool_call_chunk(args=text, index=index)):
            yield _chunk(tool_call_chunks=[part])
    yield _chunk(
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
        additional_kwargs=message.additional_kwargs,
        chunk_position="last",
    )


def _chunk(*, content: Any = "", **fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(content=content, **fields))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
