"""MCP tools as LangChain tools.

Annotations are not deferred in this module: LangChain inspects those of `_run` and `_arun` on every
call, and would compile them each time if they were strings.
"""

from collections.abc import Mapping
from functools import cached_property
from threading import Lock
from typing import Any, Literal, NotRequired, TypedDict, cast

from cachetools import LRUCache
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime
from pydantic import ConfigDict, PrivateAttr
from typing_extensions import override

from plait.client.catalog.schemas import Profile, schema_for_provider
from plait.client.catalog.tool import Tool
from plait.langchain.tools.content import ToolOutput
from plait.langchain.tools.model_support import for_graph
from plait.langchain.tools.runner import Invocation, Outcome, ToolRunner

_RUNTIME = "plait_runtime"
"""The argument for the runtime of a graph; no tool is likely to have one of this name."""

_HINTS = ("title", "read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint")


class MCPToolArtifact(TypedDict):
    """The artifact of a tool message, which no model reads."""

    structured_content: Any
    """The structured content of the result, or `None`."""

    content: list[dict[str, Any]]
    """The content blocks that the model does not read in full, as MCP JSON."""

    _meta: Mapping[str, Any] | None
    server: str
    tool: str
    error: NotRequired[dict[str, Any]]
    """The error of a call without a result."""


class MCPTool(BaseTool):
    """A tool of an MCP server.

    It is not a `StructuredTool` of LangChain, which loses the artifact of a failed call and cannot
    pass on arguments named `runtime`, `config` or `run_manager`.
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
            metadata=_metadata(tool),
        )
        self._tool = tool
        self._runner = runner

    @property
    def tool(self) -> Tool:
        """The tool in the catalog: server, wire name, annotations, original schema."""
        return self._tool

    def with_profile(self, profile: Profile | None) -> "MCPTool":
        """Return the tool with its schema shaped for a family of models."""
        return MCPTool(self._tool, self._runner, profile=profile)

    @property
    def coroutine(self) -> Any:
        """The signature that tells graphs which argument takes the runtime."""

        async def run(plait_runtime: ToolRuntime[Any, Any]) -> None:
            """Never called."""

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
        invocation = Invocation(arguments=arguments, tool_call_id=tool_call_id, runtime=runtime)
        return (), {"invocation": invocation}

    def _arguments(self, tool_input: str | dict[str, Any]) -> dict[str, Any]:
        if isinstance(tool_input, dict):
            return dict(tool_input)
        names = list(self.args)
        if len(names) != 1:
            raise ValueError(
                f"{self.name} takes {', '.join(names) or 'no arguments'}: "
                "pass them as a dict, not as a string"
            )
        return {names[0]: tool_input}

    @override
    def _run(self, invocation: Invocation, config: RunnableConfig) -> tuple[Any, Any]:
        outcome = self._runner.run_blocking(self._tool, invocation, config)
        return self._message(outcome, invocation)

    @override
    async def _arun(self, invocation: Invocation, config: RunnableConfig) -> tuple[Any, Any]:
        outcome = await self._runner.run(self._tool, invocation, config)
        return self._message(outcome, invocation)

    def _message(self, outcome: Outcome, invocation: Invocation) -> tuple[Any, Any]:
        """Return the message and the artifact; LangChain would make one without the status."""
        call_id = invocation.tool_call_id
        if isinstance(outcome, ToolMessage) and not outcome.tool_call_id and call_id:
            return outcome.model_copy(update={"tool_call_id": call_id}), None
        if not isinstance(outcome, ToolOutput):
            return outcome, None
        output = outcome if invocation.runtime is None else for_graph(outcome)
        if call_id is None:
            return output.content, output.artifact
        message = ToolMessage(
            content=cast("str | list[str | dict[Any, Any]]", output.content),
            artifact=output.artifact,
            tool_call_id=call_id,
            name=self.name,
            status="error" if output.is_error else "success",
        )
        return message, output.artifact


_shaped_schemas: LRUCache[tuple[int, Profile | None], tuple[Mapping[str, Any], dict[str, Any]]] = (
    LRUCache(maxsize=2048)
)
"""Shaped schemas beside the original ones, for agents list their tools in every turn."""

_lock = Lock()


def shaped_schema(schema: Mapping[str, Any], profile: Profile | None) -> dict[str, Any]:
    """Shape a schema for a family of models; the result for the same object is cached."""
    key = (id(schema), profile)
    with _lock:
        cached = _shaped_schemas.get(key)
    if cached is not None and cached[0] is schema:
        return cached[1]
    shaped = schema_for_provider(schema, profile).schema
    with _lock:
        _shaped_schemas[key] = (schema, shaped)
    return shaped


def _metadata(tool: Tool) -> dict[str, Any]:
    """Return the server, the annotations and what else the server says of a tool."""
    hints = {name: tool.annotations.get(name) for name in _HINTS} if tool.annotations else {}
    metadata: dict[str, Any] = {
        **hints,
        **tool.annotations,
        "server": tool.server,
        "wire_name": tool.wire_name,
        "annotations": dict(tool.annotations),
    }
    if tool.meta is not None:
        metadata["_meta"] = dict(tool.meta)
    if tool.icons:
        metadata["icons"] = [dict(icon) for icon in tool.icons]
    if tool.title:
        metadata["title"] = tool.title
    return metadata
