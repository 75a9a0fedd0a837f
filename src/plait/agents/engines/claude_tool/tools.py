"""The tools of a run for Anthropic's API: definitions and results."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any, cast

import mcp_types as types
from anthropic.types.beta import (
    BetaImageBlockParam,
    BetaTextBlockParam,
    BetaToolParam,
    BetaToolResultBlockParam,
)

from plait.agents.agent_run import RunTool, ToolAnswer
from plait.client.catalog.schemas import schema_for_provider


def definition_of(tool: RunTool) -> BetaToolParam:
    """Return the definition of a tool for the API."""
    schema = schema_for_claude(tool.input_schema)
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def schema_for_claude(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Adapt a schema to what Anthropic accepts."""
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError):  # not JSON: not cached
        return schema_for_provider(schema, "anthropic").schema
    return _schema_for_json(text)


@functools.lru_cache(maxsize=1024)
def _schema_for_json(schema: str) -> dict[str, Any]:
    """Adapt a schema once, because many runs have the same tools."""
    return schema_for_provider(json.loads(schema), "anthropic").schema


def tool_result(call_id: str, answer: ToolAnswer) -> BetaToolResultBlockParam:
    """Create the block that answers a tool call."""
    match answer.content:
        case [types.TextContent(text=text)]:
            # The SDK copies the whole conversation in each turn, and a string is copied faster.
            content = text
        case _:
            content = [_block(block) for block in answer.texts_and_images()]
    result: BetaToolResultBlockParam = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": content,
    }
    if answer.is_error:
        result["is_error"] = True
    return result


def _block(
    block: types.TextContent | types.ImageContent,
) -> BetaTextBlockParam | BetaImageBlockParam:
    if isinstance(block, types.TextContent):
        return {"type": "text", "text": block.text}
    media_type = cast("Any", block.mime_type)
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": media_type, "data": block.data},
    }
