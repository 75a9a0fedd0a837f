"""OpenAI's chat model with what LangChain drops or rejects in the answers of endpoints."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, Final, Self, cast

import httpx2
import openai
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from typing_extensions import override

from plait._support.mappings import entries_of
from plait.models.endpoints import repaired_arguments

REASONING: Final = "reasoning_content"
"""The additional keyword of a message that holds the reasoning, also in other packages."""

_FIELDS: Final = (REASONING, "reasoning")
"""The names of the field: of DeepSeek, Qwen and llama.cpp, and of OpenRouter."""


_REFUSAL: Final = "refusal"

_STALLED_SECONDS: Final = 120.0
"""How long a stream may send nothing, as in LangChain."""


class EndpointChatModel(ChatOpenAI):
    """A chat model of OpenAI, or at an endpoint that speaks one of its protocols."""

    def __init__(self, **settings: Any) -> None:
        """Repair the streams of the Responses API; `sdk_client` repairs complete answers."""
        # LangChain's guard loses a cancellation that comes with a chunk: `asyncio.wait_for` does,
        # before Python 3.12.
        settings.setdefault("stream_chunk_timeout", None)
        super().__init__(**settings)
        client = self.root_async_client
        vars(client)["responses"] = _Responses(client.responses)

    @override
    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        """Stream an answer, unless it stalls."""
        answer = cast("AsyncGenerator[ChatGenerationChunk]", super()._astream(*args, **kwargs))  # pyright: ignore[reportUnknownMemberType]
        async with contextlib.aclosing(answer) as chunks:
            while True:
                try:
                    async with asyncio.timeout(_STALLED_SECONDS):
                        chunk = await anext(chunks)
                except StopAsyncIteration:
                    return
                yield chunk

    @override
    def _create_chat_result(
        self,
        response: Any,  # a dict, or an object of the SDK
        generation_info: dict[str, Any] | None = None,
    ) -> ChatResult:
        result = super()._create_chat_result(response, generation_info)  # pyright: ignore[reportUnknownMemberType]
        data: object = response
        if not isinstance(response, dict):
            data = response.model_dump(warnings=False)
        choices = cast("list[Any]", entries_of(data).get("choices") or [])
        for generation, choice in zip(result.generations, choices, strict=False):
            _keep(generation.message, entries_of(choice).get("message"))
        return result

    @override
    def _convert_chunk_to_generation_chunk(
        self,
        chunk: dict[str, Any],
        default_chunk_class: type,
        base_generation_info: dict[str, Any] | None,
    ) -> ChatGenerationChunk | None:
        converted = super()._convert_chunk_to_generation_chunk(  # pyright: ignore[reportUnknownMemberType]
            chunk, default_chunk_class, base_generation_info
        )
        choices = cast("list[Any]", chunk.get("choices") or [])
        if converted is not None and choices:
            _keep(converted.message, entries_of(choices[0]).get("delta"))
        return converted


def _keep(message: object, source: object) -> None:
    """Keep the reasoning and the refusal of an answer, or of a part of it."""
    fields: Mapping[str, Any] = entries_of(source)
    texts = (fields.get(name) for name in _FIELDS)
    reasoning = next((text for text in texts if isinstance(text, str) and text), None)
    if not isinstance(message, AIMessage):
        return
    if reasoning is not None:
        message.additional_kwargs[REASONING] = reasoning
    if refusal := fields.get(_REFUSAL):
        message.additional_kwargs[_REFUSAL] = refusal


class _Responses:
    """The Responses API of a client, whose streams are repaired."""

    def __init__(self, api: Any) -> None:
        self._api = api

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def create(self, **request: Any) -> Any:
        """Create a response, or a stream of its events."""
        reply = await self._api.create(**request)
        return _RepairedStream(reply) if request.get("stream") else reply


class _RepairedStream:
    """A stream whose last event has calls with objects as arguments, and whose errors are errors.

    LangChain rejects other arguments, and reports errors without their kind.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stream.close()

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for event in self._stream:
            if event.type in ("error", "response.failed"):
                raise self._error(event if event.type == "error" else event.response.error)
            if event.type in ("response.completed", "response.incomplete"):
                for item in event.response.output:
                    if item.type == "function_call":
                        item.arguments = repaired_arguments(item.arguments)
            yield event

    def _error(self, fault: Any) -> openai.APIError:
        code, message = getattr(fault, "code", None), getattr(fault, "message", None)
        request: httpx2.Request = self._stream.response.request
        text = message or "the response failed"
        return openai.APIError(text, request, body={"code": code, "message": text})
