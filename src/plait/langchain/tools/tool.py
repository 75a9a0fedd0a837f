"""MCP tools as LangChain tools.

LangChain's own preparation of a run costs more than a call on a local server. A run that nobody
observes, by callbacks, tracers or instrumentation, does not need it.

Annotations are not deferred in this module: LangChain inspects those of `_run` and `_arun` on every
call, and would compile them each time if they were strings.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping
from copy import copy, deepcopy
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    NotRequired,
    TypedDict,
    cast,
    get_args,
    get_type_hints,
)

from langchain_core.callbacks import manager as callbacks_manager
from langchain_core.callbacks.manager import AsyncCallbackManagerForToolRun
from langchain_core.globals import get_debug, get_verbose
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.runnables.config import patch_config, var_child_runnable_config
from langchain_core.tools import BaseTool
from langchain_core.tools.base import FILTERED_ARGS, ArgsSchema
from langchain_core.tracers.context import tracing_v2_callback_var
from pydantic import ConfigDict, PrivateAttr, SerializerFunctionWrapHandler, model_serializer
from typing_extensions import override

from plait._support.durations import checked_limit
from plait.client.catalog.tool import HINTS, Tool
from plait.langchain.library_internals import (
    InvocationTool,
    checked_invocation,
    has_hooks,
    is_original,
    traces_to_langsmith,
)
from plait.langchain.tools.content import (
    ToolFailedException,
    ToolOutput,
    error_from,
    message_from,
)
from plait.langchain.tools.graph_run import CALL_OPTIONS, as_run_config
from plait.langchain.tools.model_support import for_messages
from plait.langchain.tools.runner import Invocation, Outcome, ToolRunner
from plait.models.schemas.for_provider import Profile

_RUNTIME = "plait_runtime"
"""The argument for the runtime of a graph; no tool is likely to have one of this name."""


_RUN_OPTIONS = frozenset(
    {"callbacks", "tags", "metadata", "run_name", "run_id", "config", "tool_call_id"}
)
"""The options that `BaseTool.ainvoke` passes to `BaseTool.arun`."""


class MCPToolArtifact(TypedDict):
    """The artifact of a tool message, which no model reads."""

    structured_content: Any
    """The structured content of the result, or `None`."""
    content: list[dict[str, Any]]
    """The content blocks that the model does not read in full, as MCP JSON."""
    _meta: Mapping[str, Any] | None
    server: str
    tool: str
    attempts: int
    """How often the call was tried: more than once where it was healed, 0 if it never was."""
    notes: list[str]
    """What was repaired in the result, and how it deviates from the output schema."""
    seconds: float
    """How long the call took, with its retries."""
    error: NotRequired[dict[str, Any]]
    """The error of a call without a result."""


class MCPTool(InvocationTool):  # noqa: PLW1641  # as no model of pydantic has a hash
    """A tool of an MCP server.

    It is not a `StructuredTool` of LangChain, which loses the artifact of a failed call and cannot
    pass on arguments named `runtime`, `config` or `run_manager`.

    Its fields are made when they are first read: those of most tools of a large server never are.
    Until then they are missing in `__dict__`, which pydantic reads.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    injected: ClassVar[frozenset[str]] = frozenset({_RUNTIME})

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: Any = None
    """What LangChain does with a failure of the tool; `None` leaves it to the client."""
    _tool: Tool = PrivateAttr()
    _runner: ToolRunner = PrivateAttr()
    _profile: Profile | None = PrivateAttr(default=None)

    def __init__(self, tool: Tool, runner: ToolRunner, *, profile: Profile | None = None) -> None:
        private = {"_tool": tool, "_runner": runner, "_profile": profile}
        if type(self) is MCPTool:
            # All values are ours, so that validating them would only take time.
            object.__setattr__(self, "__dict__", {"name": tool.name})
            object.__setattr__(self, "__pydantic_extra__", None)
            object.__setattr__(self, "__pydantic_private__", {**_PRIVATE_DEFAULTS, **private})
            return
        super().__init__(**{name: read(tool, profile) for name, read in _READERS.items()})
        for name, value in private.items():
            setattr(self, name, value)

    if not TYPE_CHECKING:  # a type checker would take every attribute for defined

        def __getattr__(self, name: str) -> Any:
            if name == "__pydantic_fields_set__":
                made = set(_READERS)
                object.__setattr__(self, name, made)
                return made
            if name.startswith("__"):
                return super().__getattr__(name)
            private = self.__pydantic_private__ or {}
            if name in private:
                return private[name]
            if name in _DEFAULTS:
                made = _DEFAULTS[name]
            elif name in _READERS:
                made = _READERS[name](private["_tool"], private["_profile"])
            else:
                return super().__getattr__(name)
            return made if name in _UNCACHED_FIELDS else self.__dict__.setdefault(name, made)

    def _complete(self) -> None:
        """Make the fields that are missing in `__dict__`, which gets the order of the fields."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        object.__setattr__(self, "__dict__", {**fields, **self.__dict__})

    @override
    def __eq__(self, other: object) -> bool:
        for tool in (self, other):
            if isinstance(tool, MCPTool):
                tool._complete()
        return super().__eq__(other)

    @override
    def __repr_args__(self) -> Any:
        self._complete()
        return super().__repr_args__()

    @override
    def __iter__(self) -> Generator[tuple[str, Any], None, None]:
        self._complete()
        yield from super().__iter__()

    @override
    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> "MCPTool":
        """Copy the fields; the connections are shared."""
        copied = self.__copy__()
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        vars(copied).update(deepcopy(fields, memo))
        return copied

    @model_serializer(mode="wrap")
    def _serialized(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        self._complete()
        return serialize(self)

    @property
    def tool(self) -> Tool:
        """The tool in the catalog: server, wire name, annotations, original schema."""
        return self._tool

    def with_profile(self, profile: Profile | None) -> "MCPTool":
        """Return the tool with its schema shaped for a family of models."""
        return MCPTool(self._tool, self._runner, profile=profile)

    def with_timeout(self, seconds: float | timedelta) -> "MCPTool":
        """Return a copy whose calls have this timeout, unless their config has another."""
        copied, runner = self.model_copy(), copy(self._runner)
        runner.timeout_seconds = checked_limit(seconds, "timeout")
        copied._runner = runner  # noqa: SLF001  # of this class
        return copied

    @property
    @override
    def tool_call_schema(self) -> ArgsSchema:
        """The schema for models; what is shared with the catalog in it is read, never changed."""
        private = self.__pydantic_private__ or {}
        if private["_profile"] in (None, "default") and self.__dict__.keys().isdisjoint(
            _SCHEMA_FIELDS
        ):
            shared = private["_tool"].shared_schema()
            if shared is not None:
                return {**shared}
        return super().tool_call_schema

    @property
    def coroutine(self) -> Callable[..., Awaitable[Any]]:
        """What calls the tool and returns content and artifact, or raises; it may be replaced.

        Its signature tells graphs which argument takes the runtime.
        """
        if (own := vars(self).get("coroutine")) is not None:  # set, or with `model_copy`
            return own
        from langgraph.prebuilt import ToolRuntime  # noqa: PLC0415  # only graphs need it

        async def run(plait_runtime: ToolRuntime[Any, Any] = None, **arguments: Any) -> Any:  # pyright: ignore[reportArgumentType]
            invocation = Invocation(arguments=arguments, runtime=plait_runtime)
            outcome = await self._runner.run(self._tool, invocation, ensure_config())
            if isinstance(outcome, ToolOutput) and outcome.is_error:
                raise error_from(outcome)
            return self._message(outcome, invocation.tool_call_id)

        return run

    @coroutine.setter
    def coroutine(self, function: Callable[..., Awaitable[Any]] | None) -> None:
        vars(self)["coroutine"] = function

    async def _run_own(self, invocation: Invocation, config: RunnableConfig) -> Any:
        """Call what the user put in place of `coroutine`, as LangChain calls that of its tools."""
        given = {} if invocation.runtime is None else {_RUNTIME: invocation.runtime}
        try:
            hints = get_type_hints(self.coroutine)
        except Exception:  # noqa: BLE001  # boundary: it is the user's, or a mock
            hints = {}
        for name, kind in hints.items():
            if RunnableConfig in (kind, *get_args(kind)):
                given[name] = ensure_config(config)
        try:
            return await self.coroutine(**invocation.arguments, **given)
        except ToolFailedException as failure:
            if self.handle_tool_error is not None or not self._runner.settings.handle_tool_errors:
                raise
            output = ToolOutput(failure.content, failure.artifact or {}, is_error=True)
            return self._message(output, invocation.tool_call_id)

    @override
    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Call the tool; an unobserved run skips LangChain's preparations."""
        run = None if kwargs else self._quiet_run(input, config)
        if run is None:
            return await super().ainvoke(input, config, **kwargs)
        runner, tool, invocation, own_config = run
        with as_run_config(own_config):
            outcome = await runner.run(tool, invocation, own_config)
        return self._message(outcome, invocation.tool_call_id)[0]

    @override
    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Do what `ainvoke` does, and block until it is done."""
        run = None if kwargs else self._quiet_run(input, config)
        if run is None:
            return super().invoke(input, config, **kwargs)
        runner, tool, invocation, own_config = run
        with as_run_config(own_config):
            outcome = runner.run_blocking(tool, invocation, own_config)
        return self._message(outcome, invocation.tool_call_id)[0]

    def _quiet_run(self, tool_input: Any, config: RunnableConfig | None) -> "_QuietRun | None":
        """Return a run that nobody observes, and that has no options; `None` for others."""
        if type(tool_input) is not dict or not self._is_run_by_runner():
            return None
        if is_observed(self, config) or self.response_format == "content":
            return None
        outer = var_child_runnable_config.get()
        own_config: RunnableConfig = outer or {}
        if config:
            if not CALL_OPTIONS.isdisjoint(config):
                return None  # LangChain moves them to `configurable`
            own_config = config if outer is None else ensure_config(config)
        private = self.__pydantic_private__ or {}  # much quicker than its attributes
        tool, runner = private["_tool"], private["_runner"]
        if runner.plain(tool, own_config) is None:
            return None
        fields = cast("dict[str, Any]", tool_input)
        call_id: str | None = None
        if fields.get("type") == "tool_call":
            call_id, fields = fields["id"], fields["args"]
        runtime = None
        if _RUNTIME in fields:
            fields = dict(fields)
            runtime = fields.pop(_RUNTIME)
        invocation = Invocation(arguments=fields, tool_call_id=call_id, runtime=runtime)
        return runner, tool, invocation, own_config

    def _is_run_by_runner(self) -> bool:
        """Return whether neither a subclass nor a function of the user runs the tool."""
        return type(self) is MCPTool and self.__dict__.get("coroutine") is None

    @override
    async def arun(self, tool_input: str | dict[str, Any], *args: Any, **options: Any) -> Any:
        """Run the tool for observers, which get the events that LangChain sends.

        LangChain inspects functions, copies contexts and starts a task for every run; a plain call
        runs nothing that needs them.
        """
        if args or self._needs_langchain(tool_input, options):
            return await super().arun(tool_input, *args, **options)
        arguments = cast("dict[str, Any]", tool_input)
        call_id, config = options["tool_call_id"], options["config"]
        run = await _announced_run(self, arguments, options)
        try:
            invocation = self.invocation_from(arguments, call_id)
            with as_run_config(patch_config(config, callbacks=run.get_child())):
                outcome = await self._runner.run(self._tool, invocation, config)
            content = self._message(outcome, call_id)[0]
        except (Exception, KeyboardInterrupt) as error:
            await run.on_tool_error(error, tool_call_id=call_id)
            raise
        await run.on_tool_end(content, color="green", name=self.name)
        return content

    def _needs_langchain(self, tool_input: object, options: Mapping[str, Any]) -> bool:
        """Return whether a run has to be prepared by LangChain itself."""
        return bool(
            type(tool_input) is not dict
            or options.keys() ^ _RUN_OPTIONS
            or not self._is_run_by_runner()
            or self.handle_tool_error
            or self.handle_validation_error
            or not is_original()
            or self.response_format == "content"
            or self._runner.plain(self._tool, options["config"]) is None
        )

    @override
    def invocation_from(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> Invocation:
        """Return the invocation for the input of a run."""
        if isinstance(tool_input, str):
            names = list(self.args)
            if len(names) != 1:
                raise ValueError(
                    f"{self.name} takes {', '.join(names) or 'no arguments'}: "
                    "pass them as a dict, not as a string"
                )
            tool_input = {names[0]: tool_input}
        arguments = dict(tool_input)
        runtime = arguments.pop(_RUNTIME, None)
        return Invocation(arguments=arguments, tool_call_id=tool_call_id, runtime=runtime)

    @override
    def _run(
        self, config: RunnableConfig, invocation: Invocation | None = None, **arguments: Any
    ) -> tuple[Any, Any]:
        return self._runner.block_on(self._arun, config, invocation)

    @override
    async def _arun(
        self, config: RunnableConfig, invocation: Invocation | None = None, **arguments: Any
    ) -> tuple[Any, Any]:
        invocation = checked_invocation(invocation)
        if vars(self).get("coroutine") is not None:
            return await self._run_own(invocation, config)
        config = ensure_config(config)  # `run` and `arun` of LangChain pass None
        outcome = await self._runner.run(self._tool, invocation, config)
        return self._message(outcome, invocation.tool_call_id)

    def _message(self, outcome: Outcome, call_id: str | None) -> tuple[Any, Any]:
        """Return the message and the artifact; LangChain would make one without the status."""
        if isinstance(outcome, ToolMessage) and not outcome.tool_call_id and call_id:
            return outcome.model_copy(update={"tool_call_id": call_id}), None
        if not isinstance(outcome, ToolOutput):
            return outcome, None
        if outcome.is_error and self.handle_tool_error is not None:
            raise error_from(outcome)
        if call_id is None:
            return outcome.content, outcome.artifact
        output = outcome if type(outcome.content) is str else for_messages(outcome)
        name = self.name
        return message_from(output, call_id, name), output.artifact


_READERS: Final[dict[str, Callable[[Tool, Profile | None], Any]]] = {
    "name": lambda tool, _: tool.name,
    "description": lambda tool, _: tool.description or tool.title or "",
    "args_schema": Tool.schema_for,
    "metadata": lambda tool, _: _metadata(tool),
}
"""The fields that depend on the tool."""

_SCHEMA_FIELDS: Final = {"description", "args_schema"}
_UNCACHED_FIELDS: Final = {"description"}
"""Read of every tool when tools are bound; small pieces that stay would keep much memory in use."""

_DEFAULTS: Final[dict[str, Any]] = {
    name: info.get_default(call_default_factory=True)
    for name, info in MCPTool.model_fields.items()
    if name not in _READERS
}
_PRIVATE_DEFAULTS: Final[dict[str, Any]] = {
    name: attribute.get_default() for name, attribute in MCPTool.__private_attributes__.items()
}


_QuietRun = tuple[ToolRunner, Tool, Invocation, RunnableConfig]
"""What a run needs that nobody observes, and that has no options."""


def _metadata(tool: Tool) -> dict[str, Any]:
    """Return the server, the annotations and what else the server says of a tool."""
    names = HINTS if tool.annotations else ()
    hints = {name: tool.annotations.get(own) for listed, own in names for name in (own, listed)}
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


async def _announced_run(
    tool: InvocationTool, arguments: dict[str, Any], options: Mapping[str, Any]
) -> AsyncCallbackManagerForToolRun:
    """Announce the run of a tool to its observers, as `BaseTool.arun` does with these options."""
    manager = callbacks_manager.AsyncCallbackManager.configure(
        options["callbacks"],
        tool.callbacks,
        tool.verbose,
        options["tags"],
        tool.tags,
        options["metadata"],
        tool.metadata,
    )
    hidden = tool.injected.union(FILTERED_ARGS)
    shown = {name: value for name, value in arguments.items() if name not in hidden}
    return await manager.on_tool_start(
        {"name": tool.name, "description": tool.description},
        str(shown),
        color="green",
        name=options["run_name"],
        run_id=options["run_id"],
        inputs=shown,
        tool_call_id=options["tool_call_id"],
    )


def is_observed(tool: BaseTool, config: Mapping[str, Any] | None) -> bool:
    """Return whether the run of a tool has to be announced to an observer."""
    if config and config.get("run_id"):
        return True
    for around in (config, var_child_runnable_config.get()):
        callbacks: Any = around and around.get("callbacks")
        if callbacks and (isinstance(callbacks, list) or callbacks.handlers):
            return True
    return (
        bool(tool.callbacks or tool.verbose or tool.handle_tool_error)
        or get_verbose()
        or get_debug()
        or tracing_v2_callback_var.get() is not None
        or has_hooks()
        or traces_to_langsmith()
        or not is_original()
    )
