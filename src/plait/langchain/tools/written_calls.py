"""Whether a model wrote the arguments of a call completely, as far as LangChain shows it.

LangChain completes the JSON of streamed arguments that were cut, and ignores what stands behind it:
the first half of a command becomes a command.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AIMessageChunk, ToolCall, ToolCallChunk
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.outputs import LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs, var_child_runnable_config
from typing_extensions import override

from plait._support.mappings import entries_of
from plait.langchain.tools.graph_run import as_run_config
from plait.models.call_arguments import INVALID, arguments_from, fault_of
from plait.models.stop_reasons import cuts_calls, not_made


class CallTexts(BaseCallbackHandler):
    """Keeps the calls of streamed answers as the model wrote them; the messages do not show it."""

    run_inline = True

    def __init__(self) -> None:
        self._runs: dict[UUID, list[AIMessageChunk]] = {}
        """The chunks with calls of each answer that is being streamed."""
        self._answers: dict[str, Sequence[ToolCallChunk]] = {}
        """The calls of each answer, by the id of its message."""

    @contextmanager
    def reading(self) -> Generator[None]:
        """Read the answers of models that are called in the block."""
        own: RunnableConfig = {"callbacks": [self]}
        with as_run_config(merge_configs(var_child_runnable_config.get(), own)):
            yield

    @override
    def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        chunk: Any = None,
        run_id: UUID,
        **kwargs: Any,
    ) -> None:
        message = getattr(chunk, "message", None)
        if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
            self._runs.setdefault(run_id, []).append(message)

    @override
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        # Joined as LangChain does it, which keeps the texts of the arguments.
        calls = add_ai_message_chunks(
            AIMessageChunk(content=""), *self._runs.pop(run_id, ())
        ).tool_call_chunks
        for generation in (one for each in response.generations for one in each):
            message = getattr(generation, "message", None)
            if isinstance(message, AIMessage) and message.id:
                self._answers[message.id] = calls

    def as_written(self, message: AIMessage) -> AIMessage:
        """Return an answer; if a call in it is not JSON, with the calls that the model wrote."""
        calls = [
            ToolCall(
                name=call["name"] or "",
                args=arguments_from(call["args"] or ""),
                id=call["id"],
                type="tool_call",
            )
            for call in self._answers.get(message.id or "", ())
        ]
        if not any(fault_of(call["args"]) for call in calls):
            return message
        return message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": []})


def fault_of_call(arguments: Mapping[str, Any], runtime: object | None) -> str | None:
    """Return the error text for a call that must not be made; `None` if nothing shows a fault.

    The runtime of a graph has the message of the call.
    """
    if runtime is None or INVALID in arguments:
        return fault_of(arguments)
    call_id: str | None = getattr(runtime, "tool_call_id", None)
    message = call_id and _message_with_call(getattr(runtime, "state", None), call_id)
    if not call_id or not message:
        return None
    stop = stop_reason_of(message)
    if cuts_calls(stop):
        return not_made(stop)
    faults = (fault_of(arguments_from(text)) for text in _texts_of(message, call_id))
    return next(filter(None, faults), None)


def _message_with_call(state: Any, call_id: str) -> AIMessage | None:
    """Return the newest message in the state of a graph that has a call."""
    messages: object = state
    if not isinstance(state, list):
        messages = entries_of(state).get("messages") or getattr(state, "messages", None)
    if not isinstance(messages, Sequence):
        return None
    for message in reversed(cast("Sequence[object]", messages)):
        if isinstance(message, AIMessage):
            return message if any(call["id"] == call_id for call in message.tool_calls) else None
    return None


def _texts_of(message: AIMessage, call_id: str) -> Iterator[str]:
    """Yield the arguments of a call as the model wrote them, where the message has kept them."""
    if isinstance(message, AIMessageChunk):
        yield from (
            part["args"] or "" for part in message.tool_call_chunks if part["id"] == call_id
        )
    # Anthropic's models, OpenAI's Responses API, and Bedrock keep them in their blocks.
    for block in map(entries_of, message.content if isinstance(message.content, list) else ()):
        if call_id in (block.get("id"), block.get("call_id")):
            texts = (block.get(name) for name in ("partial_json", "arguments", "input"))
            yield from (text for text in texts if isinstance(text, str))
    calls = message.additional_kwargs.get("tool_calls")
    for call in map(entries_of, cast("list[object]", calls) if isinstance(calls, list) else ()):
        text = entries_of(call.get("function")).get("arguments")
        if call.get("id") == call_id and isinstance(text, str):
            yield text


_STOP_REASONS = ("stop_reason", "finish_reason", "stopReason", "done_reason", "status")
"""The names of the reason to stop in the metadata of providers."""


def stop_reason_of(message: AIMessage) -> str | None:
    """Return why the model stopped, as the provider names it."""
    metadata = message.response_metadata
    blocks = message.content if isinstance(message.content, list) else []
    kinds = (entries_of(block).get("type") for block in blocks)
    if message.additional_kwargs.get("refusal") or "refusal" in kinds:
        return "refusal"  # OpenAI's models report it apart from the reason to stop
    if metadata.get("status") == "incomplete":  # OpenAI's Responses API
        details = entries_of(metadata.get("incomplete_details"))
        return str(details.get("reason") or "incomplete")
    for name in _STOP_REASONS:
        if reason := metadata.get(name):
            return str(reason)
    return None
