"""A stand-in for an endpoint that speaks OpenAI's protocol, with the discovery of Ollama."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from plait.testing.llm.server import Asked, ProviderServer, tokens
from plait.testing.llm.turns import Refuse, Script, Turn


class OpenAIServer(ProviderServer):
    """Chat completions without streaming, and lists of models.

    `refuses` are settings that it answers with 400, such as `response_format`; with `names_param`
    false it does not say which one it was.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        key: str | None = None,
        models: Sequence[str] = ("test-model",),
        refuses: Collection[str] = (),
        names_param: bool = True,
    ) -> None:
        super().__init__(script, key=key)
        self._models = tuple(models)
        self._refuses = frozenset(refuses)
        self._names_param = names_param

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
                return JSONResponse(
                    {
                        "object": "list",
                        "data": [{"id": one, "object": "model"} for one in self._models],
                    }
                )
            case "GET", "/api/version":
                return JSONResponse({"version": "0.0.0"})
            case "GET", "/api/tags":
                return JSONResponse({"models": [{"name": one} for one in self._models]})
            case _:
                return Refuse(status=404, message=f"{asked.path} not found")

    def said(self, text: str, asked: Asked) -> Response:
        """Wrap what the model says."""
        spent, made = tokens(asked.body["messages"]), tokens(text)
        message = {"role": "assistant", "content": text}
        return JSONResponse(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 0,
                "model": asked.body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {
                    "prompt_tokens": spent,
                    "completion_tokens": made,
                    "total_tokens": spent + made,
                },
            }
        )

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
        if body.get("stream"):
            return Refuse(status=400, message="streams are not played here", param="stream")
        for refused in sorted(self._refuses & set(body)):
            param = refused if self._names_param else None
            return Refuse(status=400, message="unsupported parameter", param=param)
        return self.next_turn(asked)
