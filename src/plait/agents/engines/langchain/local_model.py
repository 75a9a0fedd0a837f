"""The chat model of a local model: tools are called by turns that are held to a JSON schema.

Small models do not call tools by themselves. Each turn is one of a union of JSON objects: a call of
one of the tools, or the answer.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool

from plait._support.http_requests import send_request
from plait.errors import AgentExecutionError, ConfigError
from plait.models.call_arguments import arguments_from
from plait.models.endpoints import provider_client
from plait.models.weights import LocalModel, models_folder, weights_named

_SECONDS: Final = 600.0
MAX_TOKENS: Final = 512
MAX_ANSWER_CHARACTERS: Final = 800
"""How many characters an answer may have, so that a model that repeats itself ends."""

_RULES: Final = """\
Use the tools to do the task. Reply with one JSON object and nothing else:
{"tool": NAME, "arguments": {...}} calls a tool; {"tool": "none", "answer": TEXT} ends the task.
Never guess a value: get it with a tool. Do not repeat a call whose result you have.
Example: for "What is 2 plus 3?" with a tool add(a, b), reply {"tool": "add", "arguments": \
{"a": 2, "b": 3}}; after "Result of add: 5", reply {"tool": "none", "answer": "5"}."""


def local_model(name: str) -> LocalChatModel:
    """Return the chat model of weights on this machine.

    Raises:
        ConfigError: The weights are not here.
    """
    weights = weights_named(name)
    folder = models_folder()
    if not weights.is_in(folder):
        raise ConfigError(f"{name} is not on this machine: plait model fetch {name}")
    return LocalChatModel(name=weights.name, path=str(weights.path_in(folder)))


@cache
def _model_process(path: str) -> LocalModel:
    """Return the process of a model; it ends with this one."""
    return LocalModel(Path(path))


class LocalChatModel(BaseChatModel):
    """A chat model over a local model."""

    name: str | None = None
    path: str

    @property
    def _llm_type(self) -> str:
        return "plait-local"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | Any],
        *,
        tool_choice: str | None = None,  # noqa: ARG002 - a turn may always be the answer
        **kwargs: Any,
    ) -> Runnable[Any, AIMessage]:
        """Offer tools to the model."""
        shapes = [convert_to_openai_tool(tool)["function"] for tool in tools]
        return cast("Runnable[Any, AIMessage]", self.bind(tools=shapes, **kwargs))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError("use the asynchronous methods")

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        **kwargs: Any,  # noqa: ARG002
    ) -> ChatResult:
        url = await _model_process(self.path).base_url()
        body = {
            "model": self.name,
            "messages": wire_messages(messages, tools),
            "temperature": 0.0,
            "max_tokens": MAX_TOKENS,
            **({"response_format": turn_format(tools)} if tools else {}),
        }
        async with provider_client(url) as client:
            reply = await send_request(
                client, "POST", f"{url}/chat/completions", json=body, timeout_seconds=_SECONDS
            )
        answer = reply.json_object() or {}
        if not reply.is_success or not answer.get("choices"):
            raise AgentExecutionError(f"the local model answered HTTP {reply.status}")
        text = answer["choices"][0]["message"].get("content") or ""
        message = message_from_turn(text, has_tools=bool(tools))
        used: Mapping[str, int] = answer.get("usage") or {}
        read, written = used.get("prompt_tokens", 0), used.get("completion_tokens", 0)
        message.usage_metadata = {
            "input_tokens": read,
            "output_tokens": written,
            "total_tokens": read + written,
        }
        # An answer that was cut off must not pass for a whole one.
        ended = answer["choices"][0].get("finish_reason")
        message.response_metadata = {"model_name": self.name, "finish_reason": ended}
        return ChatResult(generations=[ChatGeneration(message=message)])


def wire_messages(
    messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]]
) -> list[dict[str, str]]:
    """Return a conversation as plain messages: calls as the JSON that made them."""
    system = [str(message.text) for message in messages if isinstance(message, SystemMessage)]
    if tools:
        lines = [
            f"- {tool['name']}({', '.join(tool['parameters'].get('properties', {}))}): "
            f"{tool.get('description', '')}"
            for tool in tools
        ]
        system.append("\n".join([_RULES, "Tools:", *lines]))
    wire = [{"role": "system", "content": "\n".join(system)}] if system else []
    for message in messages:
        match message:
            case SystemMessage():
                continue
            case HumanMessage():
                wire.append({"role": "user", "content": message.text})
            case ToolMessage():
                text = f"Result of {message.name}: {message.text}\nAnswer, or call another tool."
                wire.append({"role": "user", "content": text})
            case AIMessage(tool_calls=[call, *_]):
                turn = {"tool": call["name"], "arguments": call["args"]}
                wire.append({"role": "assistant", "content": json.dumps(turn)})
            case _:
                turn = {"tool": "none", "answer": message.text}
                text = json.dumps(turn) if tools else message.text
                wire.append({"role": "assistant", "content": text})
    return wire


def turn_format(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the response format of a turn: a call of one of the tools, or the answer."""
    turns: list[dict[str, Any]] = []
    answer = {"type": "string", "maxLength": MAX_ANSWER_CHARACTERS}
    shapes = [
        (tool["name"], "arguments", {**tool["parameters"], "additionalProperties": False})
        for tool in tools
    ]
    for name, field, schema in (*shapes, ("none", "answer", answer)):
        turn = {
            "type": "object",
            "properties": {"tool": {"const": name}, field: schema},
            "required": ["tool", field],
            "additionalProperties": False,
        }
        turns.append(turn)
    shape = {"name": "turn", "schema": {"anyOf": turns}}
    return {"type": "json_schema", "json_schema": shape}


def message_from_turn(text: str, *, has_tools: bool) -> AIMessage:
    """Return a turn as a message; one that was cut off is the answer as it is."""
    if not has_tools:
        return AIMessage(text)
    try:
        turn: dict[str, Any] = json.loads(text)
        if turn["tool"] == "none":
            return AIMessage(str(turn["answer"]))
        call = ToolCall(
            name=turn["tool"],
            args=arguments_from(turn["arguments"]),
            id=f"call_{uuid.uuid4().hex[:12]}",
        )
    except (ValueError, KeyError, TypeError):
        return AIMessage(text)
    return AIMessage("", tool_calls=[call])
