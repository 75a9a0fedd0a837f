"""A stand-in for OpenAI's APIs or a compatible endpoint, with the discovery API of Ollama."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, cast

from starlette.responses import JSONResponse, Response

from plait.models.scripts import Call, Say
from plait.testing.llm.model_server import (
    ApiRequest,
    EscapedJSON,
    EventStream,
    ProviderServer,
    conversation_from_openai,
    default_reply,
    pieces,
    words,
)
from plait.testing.llm.turns import Refuse, Script, Turn

_RESPONSES_PATH: Final = "/v1/responses"

_CUT: Final = ("max_tokens", "length", "max_output_tokens")

_PIECE: Final = 7
"""Characters of arguments per event or chunk; few, so that they split at odd places."""

Item = dict[str, Any]


def chat_from_response_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """Write the body of a request as that of a chat completion."""
    sent: str | Sequence[Mapping[str, Any]] = body.get("input") or ()
    items = [{"role": "user", "content": sent}] if isinstance(sent, str) else sent
    messages: list[dict[str, Any]] = []
    for item in items:
        match item.get("type"):
            case "function_call":
                call = {"id": item["call_id"], "function": item}
                if not messages or "tool_calls" not in messages[-1]:
                    messages.append({"role": "assistant", "content": None, "tool_calls": []})
                messages[-1]["tool_calls"].append(call)
            case "function_call_output":
                reply = {"tool_call_id": item["call_id"], "content": item.get("output")}
                messages.append({"role": "tool", **reply})
            case "reasoning":
                pass
            case _:
                content: Any = item.get("content")
                if isinstance(content, list):
                    blocks = cast("list[dict[str, Any]]", content)
                    content = [{**one, "type": "text"} if "text" in one else one for one in blocks]
                messages.append({"role": item.get("role"), "content": content})
    tools = [{"type": tool["type"], "function": tool} for tool in body.get("tools") or ()]
    chat = {name: value for name, value in body.items() if name not in ("input", "tools")}
    return {**chat, "messages": messages, **({"tools": tools} if tools else {})}


def response(say: Say, usage: Mapping[str, int], model: str) -> dict[str, Any]:
    """Make a complete response."""
    reason = None
    if say.stop in _CUT:
        reason = "max_output_tokens"
    elif say.stop == "content_filter":
        reason = "content_filter"
    read, written = usage["input_tokens"], usage["output_tokens"]
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": 0,
        "model": model,
        "status": "completed" if reason is None else "incomplete",
        "incomplete_details": None if reason is None else {"reason": reason},
        "error": None,
        "output": list(_items(say)),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": usage["cache_read_tokens"]},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": read + written,
        },
    }


def _items(say: Say) -> Iterator[Item]:
    if say.thinking:
        summary = [{"type": "summary_text", "text": say.thinking}]
        yield {"type": "reasoning", "id": "rs_1", "summary": summary}
    content: Item | None = None
    if say.stop == "refusal":
        content = {"type": "refusal", "refusal": say.text}
    elif say.text or not say.calls:
        content = {"type": "output_text", "text": say.text, "annotations": []}
    if content is not None:
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        yield {**message, "content": [content]}
    for number, call in enumerate(say.calls, 1):
        arguments = call.arguments_text
        if say.stop in _CUT and number == len(say.calls):
            arguments = arguments[: len(arguments) // 2]
        yield {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": call.id,
            "name": call.name,
            "arguments": arguments,
            "status": "completed",
        }


def _put_into_namespaces(items: Sequence[Item], tools: Sequence[Mapping[str, Any]]) -> None:
    """Name the namespace of calls whose tools the request has in one, as `namespace__tool`."""
    names = [tool["function"]["name"] for tool in tools if tool["type"] == "namespace"]
    for item in items:
        for name in names:
            if item["type"] == "function_call" and item["name"].startswith(f"{name}__"):
                item |= {"namespace": name, "name": item["name"].removeprefix(f"{name}__")}


def response_events(whole: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of a response, as a stream sends them."""
    started: dict[str, Any] = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": {**started, "incomplete_details": None}}
    for index, item in enumerate(whole["output"]):
        for event in _events_of(item):
            yield {"output_index": index, "item_id": item["id"], **event}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{whole['status']}", "response": whole}


def _events_of(item: Item) -> Iterator[dict[str, Any]]:
    added = "response.output_item.added"
    match item["type"]:
        case "reasoning":
            part, place = item["summary"][0], {"summary_index": 0}
            yield {"type": added, "item": {**item, "summary": []}}
            name = "response.reasoning_summary"
            yield {"type": f"{name}_part.added", "part": {**part, "text": ""}, **place}
            for word in words(part["text"]):
                yield {"type": f"{name}_text.delta", "delta": word, **place}
            yield {"type": f"{name}_text.done", "text": part["text"], **place}
        case "message":
            part, place = item["content"][0], {"content_index": 0}
            yield {"type": added, "item": {**item, "content": [], "status": "in_progress"}}
            kind = "text" if part["type"] == "output_text" else "refusal"
            yield {"type": "response.content_part.added", "part": {**part, kind: ""}, **place}
            more: dict[str, Any] = {"logprobs": []} if kind == "text" else {}
            for word in words(part[kind]):
                yield {"type": f"response.{part['type']}.delta", "delta": word, **more, **place}
            yield {"type": f"response.{part['type']}.done", kind: part[kind], **more, **place}
            yield {"type": "response.content_part.done", "part": part, **place}
        case _:
            yield {"type": added, "item": {**item, "arguments": "", "status": "in_progress"}}
            name = "response.function_call_arguments"
            for piece in pieces(item["arguments"], _PIECE):
                yield {"type": f"{name}.delta", "delta": piece}
            yield {"type": f"{name}.done", "arguments": item["arguments"], "name": item["name"]}


class OpenAIServer(ProviderServer):
    """Chat completions and responses, also with tools and as streams, and lists of models.

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
            case "POST", "/v1/chat/completions" | "/v1/responses":
                return self._complete(request)
            case "GET", "/v1/models":
                most = {} if self._max_model_len is None else {"max_model_len": self._max_model_len}
                data = [{"id": name, "object": "model", **most} for name in self._models]
                return JSONResponse({"object": "list", "data": data})
            case "GET", "/api/version":
                return JSONResponse({"version": "0.0.0"})
            case "GET", "/api/tags":
                return JSONResponse({"models": [{"name": name} for name in self._models]})
            case _:
                return Refuse(status=404, message=f"{request.path} not found")

    def response_for(self, say: Say, usage: Mapping[str, int], request: ApiRequest) -> Response:
        """Encode a turn of the model."""
        body = request.body
        if request.path == _RESPONSES_PATH:
            whole = response(say, usage, body["model"])
            _put_into_namespaces(whole["output"], body.get("tools") or ())
            if not body.get("stream"):
                return EscapedJSON(whole)
            events = (
                {**event, "sequence_number": number}
                for number, event in enumerate(response_events(whole))
            )
            return EventStream(
                f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events
            )
        if not body.get("stream"):
            return EscapedJSON(completion(say, usage, body["model"]))
        options: Mapping[str, Any] = body.get("stream_options") or {}
        with_usage = options.get("include_usage") is True
        chunks = _chunks(say, usage, body["model"], with_usage=with_usage)
        texts = (json.dumps(chunk) for chunk in chunks)
        return EventStream(f"data: {text}\n\n" for text in (*texts, "[DONE]"))

    def resolve(self, request: ApiRequest) -> ApiRequest | Refuse:
        """Read a request of the Responses API as that of a chat."""
        if request.path != _RESPONSES_PATH:
            return request
        return replace(request, body=chat_from_response_request(request.body))

    def default_turn(self, body: Mapping[str, Any]) -> Turn:
        """Make the tool calls that the user text lists, or repeat the text."""
        return default_reply(conversation_from_openai(body))

    def refusal(self, refuse: Refuse) -> Mapping[str, Any]:
        """Encode a refusal as OpenAI does."""
        error = {"message": refuse.message, "type": "invalid_request_error"}
        return {"error": {**error, "param": refuse.param, "code": None}}

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
        faults = chain(_message_faults(body["messages"]), _tool_faults(body.get("tools")))
        fault = next(faults, None) if self._strict else None
        return fault or self.next_turn(request)


def completion(say: Say, usage: Mapping[str, int], model: str) -> dict[str, Any]:
    """Make a complete answer."""
    message: dict[str, Any] = {"role": "assistant", "content": say.text}
    if say.thinking:
        message["reasoning_content"] = say.thinking
    if say.calls:
        message["content"] = say.text or None
        *first, last = say.calls
        message["tool_calls"] = [*map(_encode_call, first), _encode_call(last, cut=say.is_cut)]
    choice = {"index": 0, "message": message, "finish_reason": _finish_of(say)}
    return {**_head("chat.completion", model), "choices": [choice], "usage": _counts_of(usage)}


def _chunks(
    say: Say, usage: Mapping[str, int], model: str, *, with_usage: bool
) -> Iterator[dict[str, Any]]:
    """Yield the chunks of an answer; `with_usage`, the last has the usage, the others null."""
    head = {**_head("chat.completion.chunk", model), **({"usage": None} if with_usage else {})}

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for word in words(say.thinking or ""):
        yield chunk({"reasoning_content": word})
    for word in words(say.text):
        yield chunk({"content": word})
    for index, call in enumerate(say.calls):
        start = _encode_call(call, cut=say.is_cut and index == len(say.calls) - 1)
        arguments = start["function"].pop("arguments")
        start["function"]["arguments"] = ""
        yield chunk({"tool_calls": [{"index": index, **start}]})
        for piece in pieces(arguments, _PIECE):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _finish_of(say))
    if with_usage:
        yield {**head, "choices": [], "usage": _counts_of(usage)}


_STOPS = {"max_tokens": "length", "refusal": "content_filter", "end_turn": "stop"}
"""The reasons to stop that Anthropic names differently."""


def _finish_of(say: Say) -> str:
    if say.stop is None:
        return "tool_calls" if say.calls else "stop"
    return _STOPS.get(say.stop, say.stop)


def _counts_of(usage: Mapping[str, int]) -> dict[str, Any]:
    """Encode usage as OpenAI does; cached tokens are part of the prompt."""
    read, written = usage["input_tokens"], usage["output_tokens"]
    counts: dict[str, Any] = {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
    }
    if usage["cache_read_tokens"]:
        counts["prompt_tokens_details"] = {"cached_tokens": usage["cache_read_tokens"]}
    return counts


def _head(kind: str, model: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid.uuid4().hex[:24]}", "object": kind, "created": 0, "model": model}


def _encode_call(call: Call, *, cut: bool = False) -> dict[str, Any]:
    arguments = call.arguments_text
    if cut:
        arguments = arguments[: len(arguments) // 2]
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_ROLES = ("system", "developer", "user", "assistant", "tool")


def _message_faults(messages: Sequence[Mapping[str, Any]]) -> Iterator[Refuse]:
    if not messages:
        yield _refuse("messages: must have at least one message", "messages")
    waiting: list[str] = []
    for index, message in enumerate(messages):
        param = f"messages.[{index}]"
        role = message.get("role")
        if role not in _ROLES:
            yield _refuse(f"{param}.role: must be one of {', '.join(_ROLES)}", f"{param}.role")
        elif role == "tool":
            answered = message.get("tool_call_id")
            if answered not in waiting:
                yield _refuse(
                    f"{param}: a message with role 'tool' must answer a tool call of the message "
                    f"before it; {answered!r} is none",
                    f"{param}.tool_call_id",
                )
            waiting = [call for call in waiting if call != answered]
        elif waiting:
            yield _unanswered(waiting, param)
        if role == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
    if waiting:
        yield _unanswered(waiting, "messages")


def _unanswered(calls: list[str], param: str) -> Refuse:
    return _refuse(
        "an assistant message with 'tool_calls' must be followed by tool messages for each "
        f"'tool_call_id'; missing: {', '.join(calls)}",
        param,
    )


def _tool_faults(tools: Sequence[Mapping[str, Any]] | None) -> Iterator[Refuse]:
    if tools is not None and not tools:
        yield _refuse("tools: must not be empty", "tools")
    seen: set[object] = set()
    for index, tool in enumerate(tools or ()):
        param = f"tools[{index}].function.name"
        function: Mapping[str, object] = tool.get("function") or {}
        name = function.get("name")
        if tool.get("type") != "function":
            yield _refuse(f"tools[{index}].type: must be 'function'", f"tools[{index}].type")
        elif not isinstance(name, str) or not _NAME.fullmatch(name):
            yield _refuse(f"{param}: must match ^[a-zA-Z0-9_-]{{1,64}}$, got {name!r}", param)
        elif name in seen:
            yield _refuse(f"{param}: names must be unique, {name!r} is not", param)
        seen.add(name)


def _refuse(message: str, param: str) -> Refuse:
    return Refuse(status=400, message=message, param=param)
