"""What chat models, and graphs, can take: which schemas, and which content in tool messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.runnables import RunnableBinding
from langchain_core.tools.base import TOOL_MESSAGE_BLOCK_TYPES

from plait._support.sizes import size_label
from plait.client.catalog.schemas import Profile
from plait.langchain.tools.blocks import Block, text_block, wire_json
from plait.langchain.tools.content import Converted
from plait.langchain.tools.mcp_blocks import mcp_content_from
from plait.traces.messages.from_mcp import decoded_bytes

_PROFILES: Mapping[str, Profile] = {
    "openai": "openai",
    "azure": "openai",
    "anthropic": "anthropic",
    "bedrock": "anthropic",
    "google": "gemini",
    "gemini": "gemini",
    "vertexai": "gemini",
}
"""Which schemas a model takes, by a word in the name of its provider or class."""

_NEEDED = {
    "image": ("image_inputs", "image_tool_message"),
    "image_url": ("image_inputs", "image_tool_message"),
    "audio": ("audio_inputs",),
    "file": ("pdf_inputs", "pdf_tool_message"),
    "video": ("video_inputs",),
}
"""What a model's own description must not deny for a kind of block to be sent to it."""


def profile_of(model: object) -> Profile | None:
    """Find the schemas that a chat model takes, or `None` if nothing is known of it."""
    words = f"{provider_of(model)} {type(_unbound(model)).__name__}".lower()
    return next((profile for word, profile in _PROFILES.items() if word in words), None)


def provider_of(model: object) -> str:
    """Return the provider that a chat model names, in lower case; nothing if it names none."""
    inner = _unbound(model)
    params: Mapping[str, Any] = {}
    if isinstance(inner, BaseChatModel):
        params = inner._get_ls_params()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return str(params.get("ls_provider", "")).lower()


def readable_by(model: object, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Replace, in tool messages, the blocks that a model says it cannot take by a line of text."""
    able = cast("Mapping[str, Any]", getattr(_unbound(model), "profile", None) or {})
    if not able:
        return list(messages)
    return [_readable(message, able) for message in messages]


def carried_by_graphs(converted: Converted) -> Converted:
    """Replace, by a line of text, the blocks that no graph can carry.

    LangGraph writes a message with such a block out as JSON, and a model would have to read a
    sound in base64. What is replaced is in the artifact.
    """
    content = converted.content
    if isinstance(content, str) or all(map(_is_carried, content)):
        return converted
    shown = [block if _is_carried(block) else _described(block) for block in content]
    aside = mcp_content_from([block for block in content if not _is_carried(block)])
    kept = [*converted.artifact["content"], *(wire_json(block) for block in aside)]
    return Converted(
        shown if len(shown) > 1 else shown[0]["text"], {**converted.artifact, "content": kept}
    )


def _is_carried(block: Block) -> bool:
    return block.get("type") in TOOL_MESSAGE_BLOCK_TYPES


def _described(block: Block) -> Block:
    data = str(block.get("base64") or block.get("data") or "")
    size = size_label(decoded_bytes(data))
    return text_block(f"[{block.get('mime_type') or block['type']}, {size}, not shown]")


def _unbound(model: object) -> object:
    """Return the model itself, without the tools and settings that were bound to it."""
    while isinstance(model, RunnableBinding):
        model = cast("object", model.bound)
    return model


def _readable(message: AnyMessage, able: Mapping[str, Any]) -> AnyMessage:
    if not isinstance(message, ToolMessage) or isinstance(message.content, str):
        return message
    blocks = [_shown(block, able) for block in message.content]
    unchanged = all(new is old for new, old in zip(blocks, message.content, strict=True))
    return message if unchanged else message.model_copy(update={"content": blocks})


def _shown(block: str | dict[Any, Any], able: Mapping[str, Any]) -> str | dict[Any, Any]:
    if isinstance(block, str):
        return block
    needed = _NEEDED.get(block.get("type", ""), ())
    if not any(able.get(name) is False for name in needed):
        return block
    kind = block.get("mime_type") or block["type"]
    where = f": {block['url']}" if block.get("url") else ""
    return text_block(f"[{kind} that this model cannot take{where}]")
