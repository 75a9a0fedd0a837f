"""What chat models and graphs support: schemas, and content blocks in tool messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.runnables import RunnableBinding
from langchain_core.tools.base import TOOL_MESSAGE_BLOCK_TYPES

from plait._support.sizes import size_label
from plait.langchain.library_internals import langsmith_params
from plait.langchain.tools.blocks import Block, mcp_content_from, text_block, wire_json
from plait.traces.messages.from_mcp import decoded_bytes

if TYPE_CHECKING:
    from plait.langchain.tools.content import ToolOutput
    from plait.models.schemas.for_provider import Profile

_PROFILES: Mapping[str, Profile] = {
    "openai": "openai",
    "azure": "openai",
    "anthropic": "anthropic",
    "bedrock": "anthropic",
    "google": "gemini",
    "gemini": "gemini",
    "vertexai": "gemini",
}
"""The schema profile of a model, by a word in the name of its provider or class."""

_NEEDED = {
    "image": ("image_inputs", "image_tool_message"),
    "image_url": ("image_inputs", "image_tool_message"),
    "audio": ("audio_inputs",),
    "file": ("pdf_inputs", "pdf_tool_message"),
    "video": ("video_inputs",),
}
"""The capabilities that a block type needs; a model gets it unless its profile denies one."""


def profile_of(model: object) -> Profile | None:
    """Return the schema profile of a chat model, or `None` if it is not known."""
    words = f"{provider_of(model)} {type(_unbound(model)).__name__}".lower()
    return next((profile for word, profile in _PROFILES.items() if word in words), None)


def provider_of(model: object) -> str:
    """Return the provider of a chat model in lower case, or an empty string."""
    from langchain_core.language_models import BaseChatModel  # noqa: PLC0415  # a model imports it

    inner = _unbound(model)
    params: Mapping[str, Any] = {}
    if isinstance(inner, BaseChatModel):
        params = langsmith_params(inner)
    return str(params.get("ls_provider", "")).lower()


def readable_by(model: object, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Replace blocks in tool messages that the model does not support by a line of text."""
    capabilities = cast("Mapping[str, Any]", getattr(_unbound(model), "profile", None) or {})
    if not capabilities:
        return list(messages)

    def supported(block: str | dict[Any, Any]) -> str | dict[Any, Any]:
        needed = () if isinstance(block, str) else _NEEDED.get(block.get("type", ""), ())
        if isinstance(block, str) or all(capabilities.get(name) is not False for name in needed):
            return block
        kind = block.get("mime_type") or block["type"]
        where = f": {block['url']}" if block.get("url") else ""
        return text_block(f"[{kind} that this model cannot take{where}]")

    readable: list[AnyMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage) and not isinstance(message.content, str):
            blocks = [supported(block) for block in message.content]
            if any(new is not old for new, old in zip(blocks, message.content, strict=True)):
                message = message.model_copy(update={"content": blocks})  # noqa: PLW2901
        readable.append(message)
    return readable


def for_messages(output: ToolOutput) -> ToolOutput:
    """Replace blocks that tool messages may not have by a line of text; the artifact keeps them.

    LangGraph would write the content as JSON, with base64 in it; packages of providers refuse it.
    """
    if isinstance(output.content, str):
        return output
    shown: list[Block] = []
    others: list[Block] = []
    for block in output.content:
        if block.get("type") in TOOL_MESSAGE_BLOCK_TYPES:
            shown.append(block)
            continue
        others.append(block)
        data = str(block.get("base64") or block.get("data") or "")
        size = size_label(decoded_bytes(data))
        shown.append(text_block(f"[{block.get('mime_type') or block['type']}, {size}, not shown]"))
    if not others:
        return output
    kept = [*output.artifact["content"], *map(wire_json, mcp_content_from(others))]
    return replace(
        output,
        content=shown if len(shown) > 1 else shown[0]["text"],
        artifact={**output.artifact, "content": kept},
    )


def _unbound(model: object) -> object:
    """Return the model without the tools and settings bound to it."""
    while isinstance(model, RunnableBinding):
        model = cast("object", model.bound)
    return model
