"""A stand-in for an endpoint that speaks OpenAI's protocol, with the discovery of Ollama."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from plait.models.scripts import Say
from plait.testing.llm.brain import heard_by_openai, think
from plait.testing.llm.events import EventStream
from plait.testing.llm.openai_checks import fault_of
from plait.testing.llm.openai_stream import DONE, chunks, completion, event_of
from plait.testing.llm.server import Asked, ProviderServer
from plait.testing.llm.turns import Refuse, Script, Turn


class OpenAIServer(ProviderServer):
    """Chat completions, also with tools and as streams, and lists of models.

    `refuses` are settings that it answers with 400, such as `response_format`; with `names_param`
    false it does not say which one it was. `strict`, it refuses conversations in which a call of a
    tool has no answer. `max_model_len` is the length of the context that the models tell.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        key: str | None = None,
        models: Sequence[str] = ("test-model",),
        refuses: Collection[str] = (),
        names_param: bool = True,
        strict: bool = True,
        max_model_len: int | None = None,
        port: int = 0,
    ) -> None:
        super().__init__(script, key=key, port=port)
        self._models = tuple(models)
        self._refuses = frozenset(refuses)
        self._names_param = names_param
        self._strict = strict
        self._max_model_len = max_model_len

    @property
    def base_url(self) -> str:
        """The URL for clients, with the version."""
        return f"{self.url}/v1"

    def answer(self, asked: Asked) -> Response | Turn:
        """Complete a chat, or list models."""
        match asked.method, asked.path:
            case "POST", "/v1/chat/completions":
                return self._complete(asked)
            case "GET", "/v1/models":
                return JSONResponse({"object": "list", "data": self._listed()})
            case "GET", "/api/version":
                return JSONResponse({"version": "0.0.0"})
            case "GET", "/api/tags":
                return JSONResponse({"models": [{"name": one} for one in self._models]})
            case _:
                return Refuse(status=404, message=f"{asked.path} not found")

    def said(self, say: Say, usage: Mapping[str, int], asked: Asked) -> Response:
        """Wrap what the model says."""
        body = asked.body
        if not body.get("stream"):
            return JSONResponse(completion(say, usage, body["model"]))
        options: Mapping[str, Any] = body.get("stream_options") or {}
        with_usage = options.get("include_usage") is True
        said = chunks(say, usage, body["model"], with_usage=with_usage)
        return EventStream([*map(event_of, said), DONE])

    def unscripted(self, body: Mapping[str, Any]) -> Turn:
        """Do the calls that the user writes down, or repeat the text."""
        return think(heard_by_openai(body))

    def refusal(self, refuse: Refuse) -> Mapping[str, Any]:
        """Wrap a refusal as OpenAI does."""
        error = {
            "message": refuse.message,
            "type": "invalid_request_error",
            "param": refuse.param,
            "code": None,
        }
        return {"error": error}

    def _complete(self, asked: Asked) -> Turn:
        body = asked.body
        for needed in ("model", "messages"):
            if needed not in body:
                return Refuse(status=400, message=f"missing: {needed}", param=needed)
        if body["model"] not in self._models:
            return Refuse(status=404, message=f"the model {body['model']} does not exist")
        for refused in sorted(self._refuses & set(body)):
            param = refused if self._names_param else None
            return Refuse(status=400, message="unsupported parameter", param=param)
        fault = fault_of(body) if self._strict else None
        return fault or self.next_turn(asked)

    def _listed(self) -> list[dict[str, Any]]:
        length = {} if self._max_model_len is None else {"max_model_len": self._max_model_len}
        return [{"id": one, "object": "model", **length} for one in self._models]
