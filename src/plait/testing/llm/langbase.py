"""A stand-in for Langbase: creates, lists and runs pipes whose models play a script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from starlette.responses import JSONResponse, Response

from plait.models.scripts import Say
from plait.testing.llm.model_server import ApiRequest, ProviderServer
from plait.testing.llm.openai import completion
from plait.testing.llm.turns import Refuse, Script, Turn

_MODEL = "openai:gpt-4o-mini"


class LangbaseServer(ProviderServer):
    """The parts of Langbase's API that deal with pipes.

    `shape` is where model and usage are in an answer: under `raw`, or next to the completion.
    With `refuse_pipes` creating an existing pipe again is refused.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        key: str | None = None,
        shape: Literal["nested", "flat"] = "nested",
        refuse_pipes: bool = False,
    ) -> None:
        super().__init__(script, key=key)
        self._shape = shape
        self._refuse_pipes = refuse_pipes
        self.pipes: dict[str, Mapping[str, Any]] = {}
        """The pipes by name, with their settings."""

    def answer(self, request: ApiRequest) -> Response | Turn:
        """Run, create, list or change pipes."""
        match request.method, request.path:
            case "POST", "/v1/pipes/run":
                name = request.body.get("name")
                if name not in self.pipes:
                    return Refuse(status=404, message=f"pipe {name} not found")
                if not isinstance(request.body.get("messages"), list):
                    return Refuse(status=400, message="messages: required")
                if request.body.get("stream", self.pipes[name].get("stream", True)):
                    return Refuse(status=400, message="streams are not played here")
                return self.next_turn(request)
            case "POST", "/v1/pipes":
                return self._create(request.body)
            case "GET", "/v1/pipes":
                return JSONResponse(list(self.pipes.values()))
            case _:
                return Refuse(status=404, message=f"{request.path} not found")

    def response_for(self, say: Say, usage: Mapping[str, int], request: ApiRequest) -> Response:
        """Encode a turn of the model of a pipe."""
        model = str(self.pipes[request.body["name"]].get("model", _MODEL)).partition(":")[2]
        facts = completion(say, usage, model)
        if self._shape == "flat":
            body = {"completion": say.text, "threadId": "thread-1", **facts}
        else:
            body = {"success": True, "completion": say.text, "raw": facts}
        return JSONResponse(body, headers={"lb-thread-id": "thread-1"})

    def refusal(self, refuse: Refuse) -> Mapping[str, Any]:
        """Encode a refusal as Langbase does."""
        error = {"code": "ERROR", "status": refuse.status, "message": refuse.message}
        return {"success": False, "error": error}

    def _create(self, body: Mapping[str, Any]) -> Response | Turn:
        name = body.get("name")
        if not isinstance(name, str):
            return Refuse(status=400, message="name: required")
        exists = name in self.pipes
        if exists and (self._refuse_pipes or not body.get("upsert")):
            return Refuse(status=409, message=f"pipe {name} already exists")
        self.pipes[name] = dict(body)
        made = {
            "name": name,
            "description": body.get("description", ""),
            "status": body.get("status", "public"),
            "owner_login": "test",
            "url": f"{self.url}/test/{name}",
            "type": "chat",
            "api_key": "pipe_key_of_the_stand_in",
        }
        return JSONResponse(made, 200 if exists else 201)
