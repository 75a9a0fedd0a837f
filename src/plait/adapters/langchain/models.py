"""What chat models can take: which schemas, and which kinds of content in tool messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.runnables import RunnableBinding

from plait.adapters.langchain.blocks import text_block
from plait.catalog.schemas import Profile

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
    inner = _unbound(model)
    params: Mapping[str, Any] = {}
    if isinstance(inner, BaseChatModel):
        params = inner._get_ls_params()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    words = f"{params.get('ls_provider', '')} {type(inner).__name__}".lower()
    return next((profile for word, profile in _PROFILES.items() if word in words), None)


def readable_by(model: object, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Replace, in tool messages, the blocks that a model says it cannot take by a line of text."""
    able = cast("Mapping[str, Any]", getattr(_unbound(model), "profile", None) or {})
    if not able:
        return list(messages)
    return [_readable(message, able) for message in messages]


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
