"""The tools of a run, for the tool runner: definitions, calls and results.

The runner calls tools one after another, without the id of the call. So the calls of a turn are
made in parallel before the runner calls the tools, which only return the results.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import mcp_types as types
from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, BetaFunctionToolResultType, ToolError
from anthropic.types.beta import (
    BetaImageBlockParam,
    BetaTextBlockParam,
    BetaToolParam,
    BetaToolResultBlockParam,
)

from plait.agents.agent_run import RunTool, ToolAnswer
from plait.client.catalog.schemas import schema_for_provider

Results: TypeAlias = dict[int, BetaToolResultBlockParam]
"""The results of the last turn, by the identity of the arguments, which the runner passes on.

Not by the arguments themselves: two calls of one turn may be equal.
"""


class FetchingTool(BetaAsyncBuiltinFunctionTool):
    """A tool for the runner, which returns the result of a call that was made before."""

    def __init__(self, definition: BetaToolParam, results: Results) -> None:
        self._definition = definition
        self._results = results

    @property
    def name(self) -> str:
        """The name for the model."""
        return self._definition["name"]

    def to_dict(self) -> BetaToolParam:
        """Return the definition for the model."""
        return self._definition

    async def call(self, input: object) -> BetaFunctionToolResultType:  # noqa: A002  # as the SDK calls it
        """Return the result of the call.

        Raises:
            ToolError: The tool failed; the model reads the error.
        """
        result = self._results[id(input)]
        content = result.get("content", "")
        if result.get("is_error"):
            raise ToolError(content)
        return content


def definition_of(tool: RunTool) -> BetaToolParam:
    """Return the definition of a tool for the API."""
    schema = _schema_for(tool.input_schema)
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _schema_for(schema: Mapping[str, Any]) -> dict[str, Any]:
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
