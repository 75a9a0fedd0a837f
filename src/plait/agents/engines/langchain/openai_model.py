"""OpenAI's chat model with the reasoning that compatible endpoints send, which LangChain drops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from typing_extensions import override

from plait._support.mappings import entries_of

REASONING: Final = "reasoning_content"
"""The additional keyword of a message that holds the reasoning, also in other packages."""

_FIELDS: Final = (REASONING, "reasoning")
"""The names of the field: of DeepSeek, Qwen and llama.cpp, and of OpenRouter."""


class EndpointChatModel(ChatOpenAI):
    """A chat model at an endpoint that speaks OpenAI's chat protocol."""

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
    fields: Mapping[str, Any] = entries_of(source)
    texts = (fields.get(name) for name in _FIELDS)
    reasoning = next((text for text in texts if isinstance(text, str) and text), None)
    if reasoning is not None and isinstance(message, AIMessage):
        message.additional_kwargs[REASONING] = reasoning
