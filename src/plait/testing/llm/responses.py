"""OpenAI's Responses API in the stand-in for its endpoint: requests read as chats, and answers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from plait.models.scripts import Say
from plait.testing.llm.server import pieces, words

PATH: Final = "/v1/responses"

_CUT: Final = ("max_tokens", "length", "max_output_tokens")

_PIECE: Final = 7
"""Characters of arguments per event; few, so that they split at odd places."""

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
                messages.append({"role": item.get("role"), "content": _content(item)})
    tools = [{"type": tool["type"], "function": tool} for tool in body.get("tools") or ()]
    chat = {name: value for name, value in body.items() if name not in ("input", "tools")}
    return {**chat, "messages": messages, **({"tools": tools} if tools else {})}


def _content(item: Mapping[str, Any]) -> object:
    content = item.get("content")
    if not isinstance(content, list):
        return content
    return [{**block, "type": "text"} if "text" in block else block for block in content]  # pyright: ignore[reportUnknownVariableType]


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
