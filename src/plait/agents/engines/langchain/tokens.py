"""Reads the parts of answers while a chat model streams them: for the trace, and to check calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall, ToolCallChunk
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs, var_child_runnable_config
from typing_extensions import override

from plait.agents.call_arguments import arguments_from, fault_of
from plait.traces.messages.content import TextContent, ThinkingContent
from plait.traces.messages.from_langchain import message_from_any
from plait.traces.recorder import Recorder

T = TypeVar("T")

_MODEL_NODE: Final = "model"
"""The node of an agent in which its model answers; summaries are written in others."""


class TokenHandler(AsyncCallbackHandler):
    """Records the parts of the agent's answers; with it, chat models stream.

    LangChain streams for a handler that has `tap_output_aiter` and `tap_output_iter`.
    """

    run_inline = True
    """In order, before the answer is complete."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._answers: dict[UUID, dict[int | str | None, tuple[str | None, str | None]]] = {}
        """The calls of each answer, by their index: id and name."""

    @override
    async def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if (metadata or {}).get("langgraph_node") == _MODEL_NODE:
            self._answers[run_id] = {}

    @override
    async def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        chunk: Any = None,
        run_id: UUID,
        **kwargs: Any,
    ) -> None:
        message = getattr(chunk, "message", None)
        calls = self._answers.get(run_id)
        if calls is None or not isinstance(message, AIMessageChunk):
            return
        for block in message_from_any(message).content:
            match block:
                case TextContent(text) if text:
                    self._recorder.delta("text", text)
                case ThinkingContent(thinking) if thinking:
                    self._recorder.delta("thinking", thinking)
                case _:
                    pass
        for part in message.tool_call_chunks:
            known = calls.get(part["index"], (None, None))
            call_id, name = part["id"] or known[0], part["name"] or known[1]
            calls[part["index"]] = (call_id, name)
            self._recorder.delta("call", part["args"] or "", call_id=call_id, name=name)

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[T]) -> AsyncIterator[T]:
        """Return the output as it is."""
        del run_id
        return output

    def tap_output_iter(self, run_id: UUID, output: Iterator[T]) -> Iterator[T]:
        """Return the output as it is."""
        del run_id
        return output


@dataclass(slots=True)
class _WrittenCall:
    index: int | str | None
    name: str = ""
    id: str | None = None
    texts: list[str] = field(default_factory=list[str])
    """The parts of the arguments."""

    def continues_with(self, part: ToolCallChunk) -> bool:
        """Check whether a part belongs to this call, as LangChain does when it joins parts."""
        is_other = self.id and part["id"] and self.id != part["id"]
        return self.index is not None and self.index == part["index"] and not is_other


class CallTexts(AsyncCallbackHandler):
    """Keeps the calls of one streamed answer as the model wrote them.

    LangChain completes the JSON of arguments that were cut, and ignores what stands behind it; the
    message of the answer does not show that.
    """

    run_inline = True

    def __init__(self) -> None:
        self._run_id: UUID | None = None
        self._calls: list[_WrittenCall] = []

    @contextmanager
    def reading(self) -> Generator[None]:
        """Read the answer of the model that is called in the block."""
        own: RunnableConfig = {"callbacks": [self]}
        token = var_child_runnable_config.set(merge_configs(var_child_runnable_config.get(), own))
        try:
            yield
        finally:
            var_child_runnable_config.reset(token)

    @override
    async def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        chunk: Any = None,
        run_id: UUID,
        **kwargs: Any,
    ) -> None:
        self._run_id = self._run_id or run_id
        message = getattr(chunk, "message", None)
        # A model may call others, whose answers are not this one.
        if not isinstance(message, AIMessageChunk) or run_id != self._run_id:
            return
        for part in message.tool_call_chunks:
            call = next((one for one in self._calls if one.continues_with(part)), None)
            if call is None:
                call = _WrittenCall(part["index"])
                self._calls.append(call)
            call.id = call.id or part["id"]
            call.name += part["name"] or ""
            call.texts.append(part["args"] or "")

    def as_written(self, message: AIMessage) -> AIMessage:
        """Return the answer with the calls that the model wrote, if one of them is not JSON."""
        calls = [
            ToolCall(name=call.name, args=arguments_from("".join(call.texts)), id=call.id)
            for call in self._calls
        ]
        if not any(fault_of(call["args"]) for call in calls):
            return message
        return message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": []})
