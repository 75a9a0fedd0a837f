"""The backend for endpoints with OpenAI's protocol: Ollama, vLLM, llama.cpp, OpenAI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final, Literal

from plait._support.mappings import entries_of
from plait.errors import BackendError
from plait.models.endpoints import texts_at, with_version, writing_models
from plait.reasoning.backends.http import HttpCompleter, completion_with
from plait.reasoning.backends.port import Completion, Prompt

_REJECTED: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSettings:
    """The request settings that an endpoint supports; all of them until it rejects one."""

    json_mode: bool = True
    by_schema: bool = False
    """Whether the JSON mode is sent the schema of the reply."""
    temperature: bool = True
    length_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"

    def without(self, param: str | None) -> RequestSettings | None:
        """Return the settings without a rejected one; `None` if nothing is left to omit.

        Endpoints that do not name the rejected setting mostly mean the JSON mode.
        """
        match param:
            case "max_tokens" if self.length_key == "max_tokens":
                return replace(self, length_key="max_completion_tokens")
            case "temperature" if self.temperature:
                return replace(self, temperature=False)
            case _ if self.json_mode:
                return replace(self, json_mode=False)
            case _:
                return None


class OpenAICompatibleCompleter(HttpCompleter):
    """Completes prompts at one endpoint; without a model name, with its first model.

    `name` is what the endpoint is: `openai`, or `ollama`.
    `options` are those of `HttpCompleter`.
    """

    name = "openai"

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None = None,
        name: str = "openai",
        by_schema: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(with_version(base_url), **options)
        self.name = name
        self._model = model
        self._settings = RequestSettings(by_schema=by_schema)

    def describe(self) -> str:
        """Return the model and the endpoint."""
        return f"{self._model or 'the first model'} at {self._where}"

    async def open(self) -> None:
        """Choose the first model of the endpoint, if none is named."""
        if self._model is not None:
            return
        reply = await self._send("/models")
        models = writing_models(texts_at(reply.body.get("data"), "id"))
        if not models:
            raise BackendError(
                f"{self.name} has no model at {self._where}", backend=self.name, status=200
            )
        self._model = models[0]

    async def complete(self, prompt: Prompt) -> Completion:
        """Send the prompt; a setting that the endpoint rejects is omitted from then on."""
        await self.open()
        settings: RequestSettings | None = self._settings
        while True:
            body = chat_body(prompt, self._model or "", settings)
            reply = await self._send("/chat/completions", body, allowed=_REJECTED)
            if reply.status not in _REJECTED:
                self._settings = settings
                if (completion := completion_from_chat(reply.body)) is None:
                    raise self._unusable(reply)
                return completion
            error = entries_of(reply.body.get("error"))
            settings = settings.without(error.get("param"))
            if settings is None or chat_body(prompt, self._model or "", settings) == body:
                raise self._unusable(reply)


def chat_body(prompt: Prompt, model: str, settings: RequestSettings) -> dict[str, Any]:
    """Return the request for a prompt, with the settings that the endpoint supports."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [
            {"role": "system", "content": prompt.system},
            {"role": "user", "content": prompt.user},
        ],
        "stream": False,
        settings.length_key: prompt.max_tokens,
    }
    if settings.temperature:
        body["temperature"] = prompt.temperature
    if settings.json_mode and prompt.json:
        body["response_format"] = {"type": "json_object"}
        if settings.by_schema and prompt.schema is not None:
            shape = {"name": "reply", "schema": prompt.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
    return body


def completion_from_chat(body: Mapping[str, Any]) -> Completion | None:
    """Return the completion of a chat; `None` if there is none. A refusal is an empty text."""
    match body.get("choices"):
        case [{"message": {"content": str() as text}}, *_]:
            return completion_with(text, body)
        case [{"message": {"content": None}}, *_]:
            return completion_with("", body)
        case [{"message": {"content": [*parts]}}, *_]:
            return completion_with("".join(texts_at(parts, "text")), body)
        case _:
            return None
