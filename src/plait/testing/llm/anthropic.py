"""A stand-in for Anthropic's Messages API, with tools, streams and threads of messages."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from starlette.responses import JSONResponse, Response

from plait.models.scripts import Say
from plait.testing.llm.anthropic_checks import fault_of
from plait.testing.llm.anthropic_stream import event_of, events, message
from plait.testing.llm.brain import heard_by_anthropic, offered, think
from plait.testing.llm.events import EventStream
from plait.testing.llm.server import Asked, ProviderServer
from plait.testing.llm.turns import Refuse, Script, Turn
from plait.testing.llm.usage import tokens_read

_ERRORS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}

_KEPT: Final = ("system", "tools")
"""What a thread keeps from the request that began it."""

_BETA: Final = "message-threads-"

_ANY_MODEL: Final = ("claude-test",)


class AnthropicServer(ProviderServer):
    """Messages, also with tools and as streams; counts of tokens, and a list of models.

    A call of `tool` in a script is one of `mcp__server__tool` where that is what is offered, so
    that one script is good for every engine. Only requests with tools use up a script that is a
    list, and all others get what is said without one, since Claude's CLI asks questions of its own
    in between; with `only_with_tools` false all use it up.

    `threads` says what becomes of requests that leave the history to the server: they are
    supported, refused as Anthropic does where it cannot, or an unknown field, as they are to
    endpoints of others. `strict`, it refuses conversations that Anthropic refuses. Without
    `models` it takes every model.
    """

    call_prefix = "toolu_"

    def __init__(
        self,
        script: Script | None = None,
        *,
        key: str | None = None,
        threads: Literal["support", "refuse", "unknown"] = "support",
        strict: bool = True,
        models: Sequence[str] = (),
        only_with_tools: bool = True,
        port: int = 0,
    ) -> None:
        super().__init__(script, key=key, port=port)
        self._always = callable(script) or not only_with_tools
        self._only_with_tools = only_with_tools
        self._threads = threads
        self._strict = strict
        self._models = tuple(models)
        self._stored: dict[str, Mapping[str, Any]] = {}

    def play(self, script: Script | None) -> None:
        """Begin another script, and forget what was asked so far."""
        super().play(script)
        self._always = callable(script) or not self._only_with_tools

    def answer(self, asked: Asked) -> Response | Turn:
        """Write a message, count tokens, or list models."""
        match asked.method, asked.path:
            case "HEAD", "/" | "/api/hello":
                return Response()
            case _, path if path.startswith("/v1/") and not asked.headers.get("anthropic-version"):
                return Refuse(status=400, message="anthropic-version: header is required")
            case "POST", "/v1/messages":
                fault = self._fault(asked.body) or (fault_of(asked.body) if self._strict else None)
                return fault or self.next_turn(asked)
            case "POST", "/v1/messages/count_tokens":
                counted = {"input_tokens": tokens_read(asked.body)}
                return self._fault(asked.body) or JSONResponse(counted)
            case "GET", "/v1/models":
                return JSONResponse(self._listed())
            case _:
                return Refuse(status=404, message=f"{asked.path} not found")

    def next_turn(self, asked: Asked) -> Turn:
        """Take the next turn of the script, if the request is one that it is for."""
        if self._always or asked.body.get("tools"):
            return super().next_turn(asked)
        return self.unscripted(asked.body)

    def said(self, say: Say, usage: Mapping[str, int], asked: Asked) -> Response:
        """Wrap what the model says."""
        body = asked.body
        whole = message(_as_offered(say, body), usage, body["model"])
        if body.get("thread"):
            reply = {"role": "assistant", "content": whole["content"]}
            self._stored[whole["id"]] = {**body, "messages": [*body["messages"], reply]}
        if body.get("stream"):
            return EventStream(map(event_of, events(whole)))
        return JSONResponse(whole)

    def refusal(self, refuse: Refuse) -> Mapping[str, Any]:
        """Wrap a refusal as Anthropic does."""
        otherwise = "api_error" if refuse.status >= 500 else "invalid_request_error"
        error: dict[str, Any] = {
            "type": _ERRORS.get(refuse.status, otherwise),
            "message": refuse.message,
        }
        if refuse.details is not None:
            error["details"] = refuse.details
        return {"type": "error", "error": error}

    def unscripted(self, body: Mapping[str, Any]) -> Turn:
        """Do the calls that the user writes down, or repeat the text."""
        return think(heard_by_anthropic(body))

    def credentials_of(self, asked: Asked) -> str | None:
        """Find the key, which may come in a header of Anthropic's own."""
        return asked.headers.get("x-api-key") or super().credentials_of(asked)

    def understood(self, asked: Asked) -> Asked | Refuse:
        """Put what a thread holds before what was asked."""
        thread: Mapping[str, Any] | None = asked.body.get("thread")
        if thread is None:
            return asked
        has_beta = _BETA in asked.headers.get("anthropic-beta", "")
        if self._threads == "unknown" or not has_beta:
            return Refuse(status=400, message="thread: Extra inputs are not permitted")
        if self._threads == "refuse":
            code = {"error_code": "thread_unsupported_request", "unsupported": ["endpoint"]}
            return Refuse(status=400, message="thread: not supported here", details=code)
        if thread.get("type") != "continue":
            return asked
        before = self._stored.get(str(thread.get("previous_message_id")))
        if before is None:
            code = {"error_code": "thread_not_found"}
            return Refuse(status=404, message="thread not found", details=code)
        kept = {name: before[name] for name in _KEPT if name in before}
        messages = [*before["messages"], *asked.body.get("messages", ())]
        return replace(asked, body={**asked.body, **kept, "messages": messages})

    def headers(self) -> Mapping[str, str]:
        """Make the id by which Anthropic finds a request."""
        return {"request-id": f"req_{uuid.uuid4().hex[:24]}"}

    def _fault(self, body: Mapping[str, Any]) -> Refuse | None:
        for needed in ("model", "messages"):
            if needed not in body:
                return Refuse(status=400, message=f"{needed}: Field required")
        if self._models and body["model"] not in self._models:
            return Refuse(status=404, message=f"model: {body['model']}")
        return None

    def _listed(self) -> dict[str, Any]:
        names = self._models or _ANY_MODEL
        listed = [
            {
                "type": "model",
                "id": name,
                "display_name": name,
                "created_at": "2026-01-01T00:00:00Z",
            }
            for name in names
        ]
        return {"data": listed, "has_more": False, "first_id": names[0], "last_id": names[-1]}


def _as_offered(say: Say, body: Mapping[str, Any]) -> Say:
    """Name the tools as the request does, so that one script is good for every engine."""
    tools = [str(tool.get("name")) for tool in body.get("tools") or ()]
    calls = (replace(call, name=offered(call.name, tools) or call.name) for call in say.calls)
    return replace(say, calls=tuple(calls))
