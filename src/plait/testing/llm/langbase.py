"""A stand-in for Langbase: pipes are made, listed and run; a script says what their models say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from starlette.responses import JSONResponse, Response

from plait.models.scripts import Say
from plait.testing.llm.openai_stream import completion
from plait.testing.llm.server import Asked, ProviderServer
from plait.testing.llm.turns import Refuse, Script, Turn

_MODEL = "openai:gpt-4o-mini"


class LangbaseServer(ProviderServer):
    """The parts of Langbase's API that deal with pipes.

    `shape` is where model and usage stand in an answer: under `raw`, or beside the completion.
    With `refuse_pipes` every pipe that exists is refused when it is made again.
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
        """The pipes by name, with the settings they were made with."""

    def answer(self, asked: Asked) -> Response | Turn:
        """Run a pipe, or make, list or change pipes."""
        match asked.method, asked.path:
            case "POST", "/v1/pipes/run":
                return self._run(asked)
            case "POST", "/v1/pipes":
                return self._create(asked.body)
            case "GET", "/v1/pipes":
                return JSONResponse(list(self.pipes.values()))
            case _:
                return Refuse(status=404, message=f"{asked.path} not found")

    def said(self, say: Say, usage: Mapping[str, int], asked: Asked) -> Response:
        """Wrap what the model of a pipe says."""
        model = str(self.pipes[asked.body["name"]].get("model", _MODEL)).partition(":")[2]
        facts = completion(say, usage, model)
        if self._shape == "flat":
            body = {"completion": say.text, "threadId": "thread-1", **facts}
        else:
            body = {"success": True, "completion": say.text, "raw": facts}
        return JSONResponse(body, headers={"lb-thread-id": "thread-1"})

    def refusal(self, refuse: Refuse) -> Mapping[str, Any]:
        """Wrap a refusal as Langbase does."""
        error = {"code": "ERROR", "status": refuse.status, "message": refuse.message}
        return {"success": False, "error": error}

    def _run(self, asked: Asked) -> Turn:
        name = asked.body.get("name")
        if name not in self.pipes:
            return Refuse(status=404, message=f"pipe {name} not found")
        if not isinstance(asked.body.get("messages"), list):
            return Refuse(status=400, message="messages: required")
        if asked.body.get("stream", self.pipes[name].get("stream", True)):
            return Refuse(status=400, message="streams are not played here")
        return self.next_turn(asked)

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
