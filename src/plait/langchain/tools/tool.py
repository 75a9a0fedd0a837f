"""MCP tools as LangChain tools.

Annotations are evaluated here at once: LangChain looks at those of `_run` and `_arun` on every
call, and would compile them each time if they were text.
"""

from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, NotRequired, TypedDict, cast

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime
from pydantic import ConfigDict, PrivateAttr
from typing_extensions import override

from plait.client.catalog.schemas import Profile, schema_for_provider
from plait.client.catalog.tool import Tool
from plait.langchain.tools.model_support import carried_by_graphs
from plait.langchain.tools.runner import Answered, Invocation, Outcome, ToolRunner

_RUNTIME = "plait_runtime"
"""The argument under which graphs hand in their runtime; no tool is likely to have one like it."""

_HINTS = ("title", "read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint")


class MCPToolArtifact(TypedDict):
    """What a tool message carries beside its content, which no model sees."""

    structured_content: Any
    """The structured content of the result, or `None`."""

    content: list[dict[str, Any]]
    """The blocks that were set aside, as MCP JSON."""

    _meta: Mapping[str, Any] | None
    server: str
    tool: str
    error: NotRequired[dict[str, Any]]
    """Why there is no answer, where there is none."""


class MCPTool(BaseTool):
    """A tool of an MCP server.

    Not LangChain's own `StructuredTool`: that one loses the artifact of a failed call, and takes
    arguments called `runtime`, `config` or `run_manager` for its own.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    _tool: Tool = PrivateAttr()
    _runner: ToolRunner = PrivateAttr()

    def __init__(self, tool: Tool, runner: ToolRunner, *, profile: Profile | None = None) -> None:
        super().__init__(
            name=tool.name,
            description=tool.description or tool.title or "",
            args_schema=shaped_schema(tool.input_schema, profile),
            metadata=metadata_of(tool),
        )
        self._tool = tool
        self._runner = runner

    @property
    def tool(self) -> Tool:
        """The tool as the catalogue has it: server, wire name, annotations, original schema."""
        return self._tool

    def with_profile(self, profile: Profile | None) -> "MCPTool":
        """Return the same tool with its schema shaped for one family of models."""
        return MCPTool(self._tool, self._runner, profile=profile)

    @property
    def coroutine(self) -> Any:
        """Show graphs where the runtime goes."""

        async def run(plait_runtime: ToolRuntime[Any, Any]) -> None:
            """Take the runtime of a graph; never called."""

        return run

    @cached_property
    def _injected_args_keys(self) -> frozenset[str]:
        return frozenset({_RUNTIME})

    @override
    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        arguments = self._arguments(tool_input)
        runtime = arguments.pop(_RUNTIME, None)
        use = Invocation(arguments=arguments, tool_call_id=tool_call_id, runtime=runtime)
        return (), {"use": use}

    def _arguments(self, tool_input: str | dict[str, Any]) -> dict[str, Any]:
        if isinstance(tool_input, dict):
            return dict(tool_input)
        names = list(self.args)
        if len(names) != 1:
            raise ValueError(
                f"{self.name} takes {', '.join(names) or 'no arguments'}: "
                "give them as a dict, not as a string"
            )
        return {names[0]: tool_input}

    @override
    def _run(self, use: Invocation, config: RunnableConfig) -> tuple[Any, Any]:
        return self._output(self._runner.run_blocking(self._tool, use, config), use)

    @override
    async def _arun(self, use: Invocation, config: RunnableConfig) -> tuple[Any, Any]:
        return self._output(await self._runner.run(self._tool, use, config), use)

    def _output(self, outcome: Outcome, use: Invocation) -> tuple[Any, Any]:
        """Make what LangChain hands on; the message is made here, where nothing is lost of it."""
        if isinstance(outcome, ToolMessage) and not outcome.tool_call_id and use.tool_call_id:
            return outcome.model_copy(update={"tool_call_id": use.tool_call_id}), None
        if not isinstance(outcome, Answered):
            return outcome, None
        converted = outcome.converted
        if use.runtime is not None:
            converted = carried_by_graphs(converted)
        content, artifact = converted.content, converted.artifact
        if use.tool_call_id is None:
            return content, artifact
        message = ToolMessage(
            content=cast("str | list[str | dict[Any, Any]]", content),
            artifact=artifact,
            tool_call_id=use.tool_call_id,
            name=self.name,
            status="error" if outcome.is_error else "success",
        )
        return message, artifact


_Shaped = tuple[Mapping[str, Any], dict[str, Any]]

_MOST_SHAPED = 2048
_shaped_before: OrderedDict[tuple[int, Profile | None], _Shaped] = OrderedDict()
"""Schemas that were shaped before, with the schema they were made of: agents ask every turn."""


def shaped_schema(schema: Mapping[str, Any], profile: Profile | None) -> dict[str, Any]:
    """Shape a schema for a family of models; the same one is shaped once."""
    key = (id(schema), profile)
    before = _shaped_before.get(key)
    if before is not None and before[0] is schema:
        return before[1]
    shaped = schema_for_provider(schema, profile).schema
    _shaped_before[key] = (schema, shaped)
    while len(_shaped_before) > _MOST_SHAPED:
        _shaped_before.popitem(last=False)
    return shaped


def metadata_of(tool: Tool) -> dict[str, Any]:
    """Describe where a tool comes from; the hints also stand on their own."""
    hints = {name: tool.annotations.get(name) for name in _HINTS} if tool.annotations else {}
    told: dict[str, Any] = {
        **hints,
        **tool.annotations,
        "server": tool.server,
        "wire_name": tool.wire_name,
        "annotations": dict(tool.annotations),
    }
    if tool.meta is not None:
        told["_meta"] = dict(tool.meta)
    if tool.icons:
        told["icons"] = [dict(icon) for icon in tool.icons]
    if tool.title:
        told["title"] = tool.title
    return told
