"""Records the parts of answers while a chat model streams them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, TypeVar
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessageChunk, BaseMessage
from typing_extensions import override

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
