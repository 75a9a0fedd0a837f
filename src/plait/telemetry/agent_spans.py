"""OpenTelemetry spans and metrics of agents: their runs, and their requests to models."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from plait.telemetry.spans import OpenSpan, captures_content, measured, record, span
from plait.traces.messages.message import Message, UsageMetadata

AGENT_METRIC = "gen_ai.invoke_agent.duration"


@contextmanager
def agent_span(
    name: str | None, provider: str | None, model: str | None, messages: Iterable[Message]
) -> Generator[dict[str, Any]]:
    """Record a run of an agent; what is put in the yielded dict is added."""
    title, attributes = _agent_attributes(name, provider, model, messages)
    with span(title, attributes) as details, measured(AGENT_METRIC, details):
        yield details


def open_agent_span(name: str | None, messages: Iterable[Message]) -> OpenSpan:
    """Begin the span of a run whose end is reported later, with `AGENT_METRIC`."""
    return OpenSpan(*_agent_attributes(name, None, None, messages))


def _agent_attributes(
    name: str | None, provider: str | None, model: str | None, messages: Iterable[Message]
) -> tuple[str, dict[str, Any]]:
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": name,
        "gen_ai.provider.name": provider_name(provider),
        "gen_ai.request.model": model,
    }
    if captures_content():
        attributes["gen_ai.input.messages"] = _json_of(messages)
    return f"invoke_agent {name}" if name else "invoke_agent", _known(attributes)


def agent_outcome(
    usage: UsageMetadata, stop_reason: str | None, session_id: str | None, messages: list[Message]
) -> dict[str, Any]:
    """Return the attributes of a run that has ended."""
    outcome = {**_usage(usage), "gen_ai.conversation.id": session_id}
    if stop_reason is not None:
        outcome["gen_ai.response.finish_reasons"] = [stop_reason]
    if captures_content():
        outcome["gen_ai.output.messages"] = _json_of(messages)
    return _known(outcome)


def chat_span(
    provider: str | None, model: str | None, began: float | None = None, **settings: float | None
) -> AbstractContextManager[dict[str, Any]]:
    """Record a request to a model; `settings` are request parameters, such as `temperature`.

    With `began`, a monotonic time, the span is one of a request that was already answered.
    """
    attributes = _known(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider_name(provider),
            "gen_ai.request.model": model,
            **{f"gen_ai.request.{name}": value for name, value in settings.items()},
        }
    )
    ago = None if began is None else time.monotonic() - began
    return span(f"chat {model}" if model else "chat", attributes, client=True, seconds_ago=ago)


def describe_answer(
    details: dict[str, Any] | None,
    *,
    response_id: str | None,
    model: str | None,
    stop_reason: str | None,
    usage: UsageMetadata | None,
) -> None:
    """Add an answer to the `details` of its `chat_span`, if there is one, and count its tokens."""
    if details is None:
        return
    answer = {"gen_ai.response.id": response_id, "gen_ai.response.model": model}
    details.update(_known(answer), **({} if usage is None else _usage(usage)))
    if stop_reason is not None:
        details["gen_ai.response.finish_reasons"] = [stop_reason]
    if usage is not None:
        kept = {name: details[name] for name in _TOKEN_ATTRIBUTES if name in details}
        for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            record("gen_ai.client.token.usage", count, {**kept, "gen_ai.token.type": kind})


_TOKEN_ATTRIBUTES = (
    *("gen_ai.operation.name", "gen_ai.provider.name"),
    *("gen_ai.request.model", "gen_ai.response.model"),
)

_PROVIDER_NAMES: Mapping[str, str] = {
    "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "azure_openai": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "mistralai": "mistral_ai",
    "xai": "x_ai",
}
"""The names of the conventions, where those of LangChain differ."""


def provider_name(provider: str | None) -> str | None:
    """Return the name of a provider in the conventions."""
    return provider if provider is None else _PROVIDER_NAMES.get(provider, provider)


def _usage(usage: UsageMetadata) -> dict[str, Any]:
    return _known(
        {
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_creation_tokens,
        }
    )


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _json_of(messages: Iterable[Message]) -> str:
    """Write messages by the schema of the conventions, with their texts, calls and results."""
    return json.dumps([_message_data(message) for message in messages], ensure_ascii=False)


def _message_data(message: Message) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if message.text:
        parts.append({"type": "text", "content": message.text})
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.input}
        for call in message.tool_calls
    ]
    parts += [
        {"type": "tool_call_response", "id": result.tool_use_id, "response": result.content}
        for result in message.tool_results
    ]
    return {"role": message.role.value, "parts": parts}
