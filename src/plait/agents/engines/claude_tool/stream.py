"""Puts the events of a streamed answer together, as the data of a complete one."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Mapping
from typing import Any, Final

OnPart = Callable[..., None]
"""Takes each part of the answer: `text`, `thinking` or `call`, its text, and the call."""

_TEXTS: Final = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""The field of a block that a delta extends, by the type of the delta."""


async def message_from_stream(
    events: AsyncIterable[Any], on_part: OnPart | None = None
) -> dict[str, Any]:
    """Read a stream to its end; the stop reason is missing if the stream was cut.

    The arguments of calls are the texts that the model wrote, which may not be JSON.
    """
    message: dict[str, Any] = {"content": [], "usage": {}}
    blocks: dict[int, dict[str, Any]] = {}
    async for event in events:
        data: dict[str, Any] = event.to_dict(warnings=False)
        match data.get("type"):
            case "message_start":
                message |= data["message"]
            case "content_block_start":
                blocks[data["index"]] = data["content_block"]
            case "content_block_delta":
                _extend(blocks[data["index"]], data["delta"], on_part)
            case "message_delta":
                message |= _known(data["delta"])
                message["usage"] = {**message["usage"], **_known(data.get("usage") or {})}
            case _:
                pass
    message["content"] = [_complete(blocks[index]) for index in sorted(blocks)]
    return message


def _extend(block: dict[str, Any], delta: Mapping[str, Any], on_part: OnPart | None) -> None:
    kind = delta.get("type")
    if kind == "input_json_delta":
        block["json"] = block.get("json", "") + delta["partial_json"]
        if on_part is not None and block["type"] == "tool_use":
            on_part("call", delta["partial_json"], call_id=block["id"], name=block["name"])
    elif (name := _TEXTS.get(str(kind))) is not None:
        block[name] = (block.get(name) or "") + delta[name]
        if on_part is not None and name != "signature":
            on_part(name, delta[name])
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
    elif kind == "compaction_delta":
        block["content"] = (block.get("content") or "") + (delta.get("content") or "")


def _complete(block: dict[str, Any]) -> dict[str, Any]:
    text = block.pop("json", None)
    return block if text is None else {**block, "input": text}


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
