"""The tools of a run, for the tool runner: what they are, and what their calls came to.

The runner calls tools one after another, and does not tell them the id of the call. So the calls
of a turn are made together, before it asks, and it only fetches what they came to.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, cast

from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, BetaFunctionToolResultType, ToolError
from anthropic.types.beta import (
    BetaCacheControlEphemeralParam,
    BetaToolParam,
    BetaToolResultBlockParam,
    BetaToolUseBlock,
)

from plait.agents.agent_run import AgentRun
from plait.agents.engines.claude_tool.content import tool_result
from plait.agents.run_tools import RunTool, ToolAnswer
from plait.client.catalog.schemas import schema_for_provider


class Results:
    """What the calls of the last turn came to."""

    def __init__(self) -> None:
        self._by_input: dict[int, BetaToolResultBlockParam] = {}

    def keep(
        self, calls: Sequence[BetaToolUseBlock], results: Sequence[BetaToolResultBlockParam]
    ) -> None:
        """Keep the results of a turn, and forget those of the one before.

        A call is known by the very object that holds its arguments, which the runner hands on: two
        calls of one turn may look the same.
        """
        self._by_input = {
            id(call.input): result for call, result in zip(calls, results, strict=True)
        }

    def of(self, arguments: object) -> BetaToolResultBlockParam:
        """Return what the call with these arguments came to."""
        return self._by_input[id(arguments)]


class FetchingTool(BetaAsyncBuiltinFunctionTool):
    """A tool that the runner can call, whose calls have been made already."""

    def __init__(self, definition: BetaToolParam, results: Results) -> None:
        self._definition = definition
        self._results = results

    @property
    def name(self) -> str:
        """What the model calls it."""
        return self._definition["name"]

    def to_dict(self) -> BetaToolParam:
        """Describe it to the model."""
        return self._definition

    async def call(self, input: object) -> BetaFunctionToolResultType:  # noqa: A002  # as the SDK calls it
        """Return what the call came to.

        Raises:
            ToolError: The tool failed; the model reads what it says.
        """
        result = self._results.of(input)
        content = result.get("content", "")
        if result.get("is_error"):
            raise ToolError(content)
        return content


def definition_of(
    tool: RunTool, cache_control: BetaCacheControlEphemeralParam | None = None
) -> BetaToolParam:
    """Describe a tool as the API takes it."""
    definition: BetaToolParam = {
        "name": tool.name,
        "description": tool.description,
        "input_schema": _shaped(tool.input_schema),
    }
    if cache_control is not None:
        definition["cache_control"] = cache_control
    return definition


def _shaped(schema: Mapping[str, Any]) -> dict[str, Any]:
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError):  # not JSON; what can be said of it, is
        return schema_for_provider(schema, "anthropic").schema
    return _shaped_text(text)


@functools.lru_cache(maxsize=1024)
def _shaped_text(schema: str) -> dict[str, Any]:
    """Shape a schema once, though many runs have the same tools."""
    return schema_for_provider(json.loads(schema), "anthropic").schema


async def make_calls(
    run: AgentRun, calls: Sequence[BetaToolUseBlock]
) -> list[BetaToolResultBlockParam]:
    """Make the calls of a turn at the same time; results stand in the order of the calls.

    Raises:
        ConfigError: A developer must act.
    """
    if len(calls) == 1:
        return [tool_result(calls[0].id, await _call(run, calls[0]))]
    answers = await _together(run, calls)
    return [tool_result(call.id, answer) for call, answer in zip(calls, answers, strict=True)]


async def _together(run: AgentRun, calls: Sequence[BetaToolUseBlock]) -> list[ToolAnswer]:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_call(run, call)) for call in calls]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


def _call(run: AgentRun, call: BetaToolUseBlock) -> Coroutine[Any, Any, ToolAnswer]:
    return run.call(call.id, call.name, cast("dict[str, Any]", call.input))
