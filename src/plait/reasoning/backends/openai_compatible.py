"""The backend for endpoints that speak OpenAI's protocol: Ollama, vLLM, llama.cpp, OpenAI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final, Literal, cast

from plait._support.clock import Clock
from plait.errors import BackendError
from plait.models.endpoints import origin_of, texts_at, with_version, writing_models
from plait.reasoning.backends.http import JsonApi, JsonReply, RetryPolicy, completion_with
from plait.reasoning.backends.port import Completion, Prompt

_REFUSALS: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Which settings an endpoint understands; all of them until it refuses one."""

    json_mode: bool = True

    temperature: bool = True

    length_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"

    def without(self, param: str | None) -> Dialect | None:
        """Return the dialect that avoids a refused setting; `None` if there is nothing to avoid.

        Endpoints that do not say which setting they refuse mostly mean the JSON mode.
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


class OpenAICompatibleCompleter:
    """Completes prompts at one endpoint; without a model name, takes the first it offers."""

    name = "openai"

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None = None,
        key: str | None = None,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._model = model
        self._where = origin_of(base_url)
        self._dialect = Dialect()
        self._api = JsonApi(self.name, with_version(base_url), key=key, retry=retry, clock=clock)

    def describe(self) -> str:
        """Say which model answers, and where."""
        return f"{self._model or 'the first model'} at {self._where}"

    async def open(self) -> None:
        """Find out which model to ask, where none was named.

        Raises:
            BackendError: The endpoint cannot be reached, or has no model that writes.
        """
        if self._model is not None:
            return
        answer = await self._api.get("/models")
        models = writing_models(texts_at(answer.body.get("data"), "id"))
        if not models:
            raise BackendError(
                f"{self.name} has no model at {self._where}", backend=self.name, status=200
            )
        self._model = models[0]

    async def complete(self, prompt: Prompt) -> Completion:
        """Ask the model; a setting that the endpoint refuses is left out from then on."""
        await self.open()
        dialect: Dialect | None = self._dialect
        while True:
            body = chat_body(prompt, self._model or "", dialect)
            answer = await self._api.post("/chat/completions", body, allowed=_REFUSALS)
            if answer.status not in _REFUSALS:
                self._dialect = dialect
                return self._completion(answer)
            dialect = dialect.without(_refused_param(answer.body))
            if dialect is None or chat_body(prompt, self._model or "", dialect) == body:
                raise self._api.unusable(answer)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()

    def _completion(self, answer: JsonReply) -> Completion:
        completion = completion_from_chat(answer.body)
        if completion is None:
            raise self._api.unusable(answer)
        return completion


def chat_body(prompt: Prompt, model: str, dialect: Dialect) -> dict[str, Any]:
    """Return the request for a prompt, with the settings that the endpoint understands."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [
            {"role": "system", "content": prompt.system},
            {"role": "user", "content": prompt.user},
        ],
        "stream": False,
        dialect.length_key: prompt.max_tokens,
    }
    if dialect.temperature:
        body["temperature"] = prompt.temperature
    if dialect.json_mode and prompt.json:
        body["response_format"] = {"type": "json_object"}
    return body


def completion_from_chat(body: Mapping[str, Any]) -> Completion | None:
    """Read a chat completion; `None` if it holds none. A refusal to speak is an empty text."""
    match body.get("choices"):
        case [{"message": {"content": content}}, *_]:
            text = _text_of(cast("object", content))
        case _:
            return None
    return None if text is None else completion_with(text, body)


def _text_of(content: object) -> str | None:
    match content:
        case str():
            return content
        case None:
            return ""
        case list():
            return "".join(texts_at(cast("list[object]", content), "text"))
        case _:
            return None


def _refused_param(body: Mapping[str, Any]) -> str | None:
    match body:
        case {"error": {"param": str() as param}}:
            return param
        case _:
            return None
