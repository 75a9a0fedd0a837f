"""A stand-in for Anthropic's Messages API, with tools, streams and threads of messages."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from starlette.responses import JSONResponse, Response

from plait.models.scripts import Say
from plait.testing.llm.model_server import (
    ApiRequest,
    EscapedJSON,
    EventStream,
    ProviderServer,
    content_blocks,
    conversation_from_anthropic,
    default_reply,
    offered_name,
    pieces,
    tokens_read,
    words,
)
from plait.testing.llm.turns import Refuse, Script, Turn

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
"""What a thread keeps from its first request."""

_BETA: Final = "message-threads-"

_ANY_MODEL: Final = ("claude-test",)


class AnthropicServer(ProviderServer):
    """Messages, also with tools and as streams; counts of tokens, and a list of models.

    A scripted call of `tool` becomes `mcp__server__tool` where the request lists that name, so one
    script works for every engine. Only requests with tools consume a list script; others get the
    default turn, since Claude's CLI sends requests of its own in between. With
    `only_with_tools=False` all requests consume it.

    `threads` is how requests that leave the history to the server are treated: supported, refused
    as Anthropic does, or rejected as an unknown field, as other endpoints do. With `strict` it
    refuses conversations that Anthropic refuses. Without `models` it accepts every model.
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
        self._only_with_tools = only_with_tools
        super().__init__(script, key=key, port=port)
        self._threads = threads
        self._strict = strict
        self._models = tuple(models)
        self._stored: dict[str, Mapping[str, Any]] = {}

    def answer(self, request: ApiRequest) -> Response | Turn:
        """Write a message, count tokens, or list models."""
        match request.method, request.path:
            case "HEAD", "/" | "/api/hello":
                return Response()
            case _, path if path.startswith("/v1/") and not request.headers.get(
                "anthropic-version"
            ):
                return Refuse(status=400, message="anthropic-version: header is required")
            case "POST", "/v1/messages":
                refuse = self._missing(request.body)
                if refuse is None and self._strict:
                    fault = next(_faults(request.body), None)
                    refuse = None if fault is None else Refuse(status=400, message=fault)
                return refuse or self.next_turn(request)
            case "POST", "/v1/messages/count_tokens":
                counted = {"input_tokens": tokens_read(request.body)}
                return self._missing(request.body) or JSONResponse(counted)
            case "GET", "/v1/models":
                names = self._models or _ANY_MODEL
                common = {"type": "model", "created_at": "2026-01-01T00:00:00Z"}
                listed = [{**common, "id": name, "display_name": name} for name in names]
                ends = {"first_id": names[0], "last_id": names[-1]}
                return JSONResponse({"data": listed, "has_more": False, **ends})
            case _:
                return Refuse(status=404, message=f"{request.path} not found")

    def next_turn(self, request: ApiRequest) -> Turn:
        """Return the next turn of the script, or the default turn for requests without tools."""
        if self._player.is_function or not self._only_with_tools or request.body.get("tools"):
            return super().next_turn(request)
        return self.default_turn(request.body)

    def response_for(self, say: Say, usage: Mapping[str, int], request: ApiRequest) -> Response:
        """Encode a turn of the model."""
        body = request.body
        tools = [str(tool.get("name")) for tool in body.get("tools") or ()]
        calls = (
            replace(call, name=offered_name(call.name, tools) or call.name) for call in say.calls
        )
        whole = _message_of(replace(say, calls=tuple(calls)), usage, body["model"])
        if body.get("thread"):
            reply = {"role": "assistant", "content": whole["content"]}
            self._stored[whole["id"]] = {**body, "messages": [*body["messages"], reply]}
        if body.get("stream"):
            return EventStream(
                f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
                for event in _events(whole, say)
            )
        return EscapedJSON(whole)

    def refusal(self, refuse: Refuse) -> Mapping[str, Any]:
        """Encode a refusal as Anthropic does."""
        otherwise = "api_error" if refuse.status >= 500 else "invalid_request_error"
        error: dict[str, Any] = {
            "type": _ERRORS.get(refuse.status, otherwise),
            "message": refuse.message,
        }
        if refuse.details is not None:
            error["details"] = refuse.details
        return {"type": "error", "error": error}

    def stream_error(self, kind: str) -> str:
        """Encode an error in the middle of a stream as Anthropic does."""
        error = {"type": "error", "error": {"type": kind, "message": "failed while it answered"}}
        return f"event: error\ndata: {json.dumps(error)}\n\n"

    def default_turn(self, body: Mapping[str, Any]) -> Turn:
        """Make the tool calls that the user text lists, or repeat the text."""
        return default_reply(conversation_from_anthropic(body))

    def credentials_from(self, request: ApiRequest) -> str | None:
        """Return the key, which may be in Anthropic's own header."""
        return request.headers.get("x-api-key") or super().credentials_from(request)

    def resolve(self, request: ApiRequest) -> ApiRequest | Refuse:
        """Prepend the stored messages of a thread to those of the request."""
        thread: Mapping[str, Any] | None = request.body.get("thread")
        if thread is None:
            return request
        has_beta = _BETA in request.headers.get("anthropic-beta", "")
        if self._threads == "unknown" or not has_beta:
            return Refuse(status=400, message="thread: Extra inputs are not permitted")
        if self._threads == "refuse":
            code = {"error_code": "thread_unsupported_request", "unsupported": ["endpoint"]}
            return Refuse(status=400, message="thread: not supported here", details=code)
        if thread.get("type") != "continue":
            return request
        before = self._stored.get(str(thread.get("previous_message_id")))
        if before is None:
            code = {"error_code": "thread_not_found"}
            return Refuse(status=404, message="thread not found", details=code)
        kept = {name: before[name] for name in _KEPT if name in before}
        messages = [*before["messages"], *request.body.get("messages", ())]
        return replace(request, body={**request.body, **kept, "messages": messages})

    def headers(self) -> Mapping[str, str]:
        """Return the request id header."""
        return {"request-id": f"req_{uuid.uuid4().hex[:24]}"}

    def _missing(self, body: Mapping[str, Any]) -> Refuse | None:
        for needed in ("model", "messages"):
            if needed not in body:
                return Refuse(status=400, message=f"{needed}: Field required")
        if self._models and body["model"] not in self._models:
            return Refuse(status=404, message=f"model: {body['model']}")
        return None


_EMPTY: Final[Mapping[str, Mapping[str, Any]]] = {
    "thinking": {"thinking": "", "signature": ""},
    "text": {"text": ""},
    "tool_use": {"input": {}},
}
"""The fields of a block before its first delta."""

_PIECE = 9
"""Characters of arguments per event; few, so that they split at odd places."""


def _message_of(say: Say, usage: Mapping[str, int], model: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if say.thinking is not None:
        signature = signature_of(say.thinking)
        content.append({"type": "thinking", "thinking": say.thinking, "signature": signature})
    if say.text:
        content.append({"type": "text", "text": say.text})
    for call in say.calls:
        value: object = dict(call.arguments)
        if call.encoded is not None:
            try:
                value = json.loads(call.encoded)
            except ValueError:
                value = call.encoded
        content.append({"type": "tool_use", "id": call.id, "name": call.name, "input": value})
    stop = "tool_use" if say.calls else "end_turn"
    if say.stop is not None:
        stop = _STOPS.get(say.stop, say.stop)
    return {
        "id": f"msg_{uuid.uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage["input_tokens"],
            "cache_creation_input_tokens": usage["cache_creation_tokens"],
            "cache_read_input_tokens": usage["cache_read_tokens"],
            "output_tokens": usage["output_tokens"],
            "service_tier": "standard",
        },
    }


_STOPS: Final = {"length": "max_tokens", "content_filter": "refusal", "stop": "end_turn"}
"""The reasons to stop that OpenAI names differently."""


def _events(whole: Mapping[str, Any], say: Say) -> Iterator[dict[str, Any]]:
    """Yield the events of a message; the last but one has the complete usage.

    If the turn is cut, the arguments of the last call are incomplete.
    """
    arguments = [call.arguments_text for call in say.calls]
    if say.is_cut and arguments:
        arguments[-1] = arguments[-1][: len(arguments[-1]) // 2]
    texts = iter(arguments)
    usage: Mapping[str, Any] = whole["usage"]
    begun: dict[str, Any] = {"content": [], "stop_reason": None}
    first = {**usage, "output_tokens": 1}
    yield {"type": "message_start", "message": {**whole, **begun, "usage": first}}
    yield {"type": "ping"}
    for index, block in enumerate(whole["content"]):
        start = {**block, **_EMPTY[block["type"]]}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in _deltas(block, texts):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
        "usage": {name: count for name, count in usage.items() if name.endswith("_tokens")},
    }
    yield {"type": "message_stop"}


def signature_of(thinking: str) -> str:
    """Sign a thinking block, so that a changed one can be detected."""
    return base64.b64encode(hashlib.sha256(thinking.encode()).digest()).decode()


def _deltas(block: Mapping[str, Any], arguments: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Yield the parts of a block; `arguments` are the texts of the calls from it on."""
    match block["type"]:
        case "thinking":
            for word in words(block["thinking"]):
                yield {"type": "thinking_delta", "thinking": word}
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "text":
            for word in words(block["text"]):
                yield {"type": "text_delta", "text": word}
        case _:
            yield {"type": "input_json_delta", "partial_json": ""}
            for piece in pieces(next(arguments), _PIECE):
                yield {"type": "input_json_delta", "partial_json": piece}


_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")

_ROLES = ("user", "assistant", "system")


def _faults(body: Mapping[str, Any]) -> Iterator[str]:
    limit: object = body.get("max_tokens")
    if not isinstance(limit, int) or limit < 1:
        yield "max_tokens: Field required"
    messages: Sequence[Mapping[str, Any]] = body["messages"]
    for index, message in enumerate(messages):
        if message.get("role") not in _ROLES:
            yield f"messages.{index}.role: must be one of {', '.join(_ROLES)}"
    turns = [
        (index, message) for index, message in enumerate(messages) if message["role"] != "system"
    ]
    if not turns:
        yield "messages: at least one message is required"
    elif turns[0][1]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    yield from _call_faults(turns)
    tools: Sequence[Mapping[str, Any]] = body.get("tools") or ()
    yield from _tool_faults(tools)


def _call_faults(messages: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[str]:
    waiting: list[str] = []
    called: set[str] = set()
    for index, message in messages:
        results = [block["tool_use_id"] for block in content_blocks(message, "tool_result")]
        for result in results:
            if result not in waiting:
                yield (
                    f"messages.{index}.content: unexpected `tool_use_id` found in `tool_result` "
                    f"blocks: {result}"
                )
        if len(results) != len(set(results)):
            yield f"messages.{index}.content: each tool_use must have a single result"
        if missing := [call for call in waiting if call not in results]:
            yield _unanswered(missing, f"messages.{index}")
        waiting = [block["id"] for block in content_blocks(message, "tool_use")]
        for call in waiting:
            if call in called:
                yield f"messages.{index}.content: `tool_use` ids must be unique: {call}"
            called.add(call)
        for block in content_blocks(message, "thinking"):
            if block.get("signature") != signature_of(block["thinking"]):
                yield f"messages.{index}.content: Invalid `signature` in `thinking` block"
    if waiting:
        yield _unanswered(waiting, "messages")


def _unanswered(calls: Sequence[str], place: str) -> str:
    return (
        f"{place}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(calls)}"
    )


def _tool_faults(tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    seen: set[object] = set()
    for index, tool in enumerate(tools):
        name: object = tool.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"tools.{index}.name: must match ^[a-zA-Z0-9_-]{{1,128}}$, got {name!r}"
        if name in seen:
            yield f"tools: Tool names must be unique, {name!r} is not"
        seen.add(name)
        schema: Mapping[str, object] = tool.get("input_schema") or {}
        # Tools of other types run at the provider and have no schema here.
        if tool.get("type") in (None, "custom") and schema.get("type") != "object":
            yield f"tools.{index}.input_schema.type: must be 'object'"
