"""A stand-in for an OpenAI-compatible endpoint, with the discovery API of Ollama."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from plait.models.scripts import Say
from plait.testing.llm.default_replies import conversation_from_openai, default_reply
from plait.testing.llm.events import EventStream
from plait.testing.llm.openai_checks import fault_of
from plait.testing.llm.openai_stream import DONE, chunks, completion, encode_event
from plait.testing.llm.server import ApiRequest, ProviderServer
from plait.testing.llm.turns import Refuse, Script, Turn


class OpenAIServer(ProviderServer):
    """Chat completions, also with tools and as streams, and lists of models.

    `refuses` are parameters that it answers with 400, such as `response_format`; with
    `names_param=False` the error does not name the parameter. With `strict` it refuses
    conversations in which a tool call has no result. `max_model_len` is the context length in the
    list of models.
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

    def answer(self, request: ApiRequest) -> Response | Turn:
        """Complete a chat, or list models."""
        match request.method, request.path:
            case "POST", "/v1/chat/completions":
                return self._complete(request)
            case "GET", "/v1/models":
                return JSONResponse({"object": "list", "data": self._listed()})
            case "GET", "/api/version":
                return JSONResponse({"version": "0.0.0"})
            case "GET", "/api/tags":
                return JSONResponse({"models": [{"name": name} for name in self._models]})
            case _:
                return Refuse(status=404, message=f"{request.path} not found")

    def response_for(self, say: Say, usage: Mapping[str, int], request: ApiRequest) -> Response:
        """Encode a turn of the model."""
        body = request.body
        if not body.get("stream"):
            return JSONResponse(completion(say, usage, body["model"]))
        options: Mapping[str, Any] = body.get("stream_options") or {}
        with_usage = options.get("include_usage") is True
        events = chunks(say, usage, body["model"], with_usage=with_usage)
        return EventStream([*map(encode_event, events), DONE])

    def default_turn(self, body: Mapping[str, Any]) -> Turn:
        """Make the tool calls that the user text lists, or repeat the text."""
        return default_reply(conversation_from_openai(body))

    def refusal(self, refuse: Refuse) -> Mapping[str, Any]:
        """Encode a refusal as OpenAI does."""
        error = {
            "message": refuse.message,
            "type": "invalid_request_error",
            "param": refuse.param,
            "code": None,
        }
        return {"error": error}

    def _complete(self, request: ApiRequest) -> Turn:
        body = request.body
        for needed in ("model", "messages"):
            if needed not in body:
                return Refuse(status=400, message=f"missing: {needed}", param=needed)
        if body["model"] not in self._models:
            return Refuse(status=404, message=f"the model {body['model']} does not exist")
        for refused in sorted(self._refuses & set(body)):
            param = refused if self._names_param else None
            return Refuse(status=400, message="unsupported parameter", param=param)
        fault = fault_of(body) if self._strict else None
        return fault or self.next_turn(request)

    def _listed(self) -> list[dict[str, Any]]:
        length = {} if self._max_model_len is None else {"max_model_len": self._max_model_len}
        return [{"id": one, "object": "model", **length} for one in self._models]
