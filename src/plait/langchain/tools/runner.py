"""Running a tool for LangChain: interceptors around the call, and the output for the model."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

import mcp_types as types
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from plait._support.durations import checked_limit
from plait._support.threads import in_thread
from plait.client.calls.outcome import FULL_RESULT, ToolResult, has_many_parts
from plait.client.calls.result_budget.limiter import READ_MORE
from plait.client.calls.tool_call import FirstAttempt, ToolCall
from plait.client.connections.credentials import CallerCredentials, join
from plait.errors import ConfigError, InputNeededError, PlaitError
from plait.langchain.tools.callbacks import CallbackContext, Callbacks
from plait.langchain.tools.content import (
    DEFAULT_HANDLING,
    HandlingLayer,
    OutputHandling,
    TextConverter,
    ToolOutput,
    convert_result,
    error_from,
    output_from_error,
    pending_reads,
    with_resources,
)
from plait.langchain.tools.graph_run import TaskFacts, configurable_of, run_identity, task_of
from plait.langchain.tools.graph_task import GraphCall, GraphTask
from plait.langchain.tools.interceptors import (
    Handler,
    Hook,
    Hooks,
    MCPToolCallRequest,
    MCPToolCallResult,
    ToolCallInterceptor,
    chained,
)
from plait.langchain.tools.interrupts import (
    Approvals,
    ask_for_input,
    check_not_declined,
    input_answers,
    needs_sign_in,
    wait_for_sign_in,
)
from plait.langchain.tools.written_calls import check_call

if TYPE_CHECKING:
    from plait.client.calls.approval import OnApproval
    from plait.client.calls.direct import DirectTool
    from plait.client.catalog.tool import Tool
    from plait.client.config.servers import ServerConfig
    from plait.langchain.tools.caller import Caller

logger = logging.getLogger("plait.langchain")


@dataclass(frozen=True, slots=True)
class Begun:
    """A call that was begun directly, and has no result that is plain text."""

    first: FirstAttempt | None
    """The first attempt, if it was made and has ended."""
    in_graph: GraphCall | None = None
    """The call of a graph that can pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One invocation of a tool by LangChain."""

    arguments: Mapping[str, Any] = field(repr=False)
    tool_call_id: str | None = None
    runtime: object | None = field(default=None, repr=False)
    begun: Begun | None = field(default=None, repr=False)
    """What a direct call has left to be done."""

    def run(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the config of the run with the context of its graph."""
        return {**config, "context": getattr(self.runtime, "context", None)}


Outcome = ToolOutput | ToolMessage | Command[Any]
"""The output of a tool, or what an interceptor returned instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings:
    """How a client runs its tools."""

    interceptors: Sequence[ToolCallInterceptor] = ()
    before_tool_call: Hook | None = None
    after_tool_call: Hook | None = None
    callbacks: Callbacks = field(default_factory=Callbacks)
    on_approval: OnApproval | None = None
    handle_tool_errors: bool = True
    raise_auth_errors: bool = False
    standard_blocks: bool = True
    sanitize: bool = True
    handling: OutputHandling = DEFAULT_HANDLING
    handling_by_server: Mapping[str, OutputHandling] = field(
        default_factory=dict[str, OutputHandling]
    )

    @classmethod
    def of(cls, options: Mapping[str, Any], servers: Mapping[str, ServerConfig]) -> Self:
        """Read the options of a client; the `output_handling` of a server wins over them."""
        everywhere = options.get("output_handling")
        return cls(
            interceptors=tuple(options.get("tool_interceptors") or ()),
            before_tool_call=options.get("before_tool_call"),
            after_tool_call=options.get("after_tool_call"),
            callbacks=options.get("callbacks") or Callbacks(),
            on_approval=options.get("on_approval"),
            handle_tool_errors=options.get("handle_tool_errors", True),
            raise_auth_errors=options.get("on_auth_error") == "raise",
            standard_blocks=options.get("use_standard_content_blocks", True),
            sanitize=options.get("sanitize", True),
            handling=OutputHandling.of(everywhere),
            handling_by_server={
                name: OutputHandling.of(everywhere, cast("HandlingLayer", server.output_handling))
                for name, server in servers.items()
                if server.output_handling is not None
            },
        )

    def handling_for(self, server: str) -> OutputHandling:
        """Return which content of a server goes to the model and which to the artifact."""
        return self.handling_by_server.get(server, self.handling)

    def is_for_model(self, error: PlaitError) -> bool:
        """Return whether the model reads an error; others are raised."""
        if error.kind == "config" or not self.handle_tool_errors:
            return False
        return error.kind != "auth" or not self.raise_auth_errors


class ToolRunner:
    """Runs tools with a caller; an error that a model can act on becomes the tool's output."""

    def __init__(
        self,
        caller: Caller,
        settings: RunnerSettings,
        *,
        access: CallerCredentials | None = None,
        reader: str = READ_MORE,
        change_of: Callable[[str], Callable[[], Awaitable[None]] | None] = lambda _: None,
    ) -> None:
        """Take what makes the calls; `reader` reads long results, `change_of` updates a server."""
        self._caller = caller
        self.block_on = caller.run_blocking
        self.change_of = change_of
        self.timeout_seconds: float | None = None
        """The timeout of calls whose config has none; by default that of the client."""
        self.settings = settings
        self._access = access
        self._reader_name = reader

    async def run(self, tool: Tool, invocation: Invocation, config: Mapping[str, Any]) -> Outcome:
        """Run a tool; errors that a developer must act on are raised."""
        settings, began = self.settings, time.monotonic()
        if (apply := self.change_of(tool.server)) is not None:
            await apply()
        request = MCPToolCallRequest(
            name=tool.wire_name,
            args=dict(invocation.arguments),
            server_name=tool.server,
            runtime=invocation.runtime,
        )
        sender = await self._sender(tool, invocation, request, config)
        try:
            check_call(tool, invocation.arguments, invocation.runtime)
            request.args = dict((await sender.completed(request)).arguments)
            result = await self._chain(sender.send, config)(request)
            if not isinstance(result, types.CallToolResult):
                return result
            result = await self._with_resources(sender, result)
            result, full_result = await self._within_budget(sender, result)
        except PlaitError as error:
            if not settings.is_for_model(error):
                raise
            logger.info("%s/%s failed: %s", tool.server, tool.wire_name, error)
            seconds = time.monotonic() - began
            return output_from_error(error, tool, seconds=seconds, sanitize=settings.sanitize)
        convert = partial(
            convert_result,
            result,
            server=sender.server,
            tool=sender.tool,
            handling=settings.handling_for(tool.server),
            standard_blocks=settings.standard_blocks,
            sanitize=settings.sanitize,
        )
        output = await in_thread(convert) if has_many_parts(result) else convert()
        output.artifact.update(sender.facts)
        if full_result is not None:
            output.artifact[FULL_RESULT] = full_result
        if output.is_error and not settings.handle_tool_errors:
            raise error_from(output)
        return output

    def run_blocking(
        self, tool: Tool, invocation: Invocation, config: Mapping[str, Any]
    ) -> Outcome:
        """Do what `run` does, and block until it is done."""
        return self.block_on(self.run, tool, invocation, config)

    def direct(self, tool: Tool) -> DirectTool | None:
        """Return what makes direct calls of a tool, unless each call needs more than a request."""
        settings, callbacks = self.settings, self.settings.callbacks
        if settings.interceptors or settings.before_tool_call or settings.after_tool_call:
            return None
        if callbacks.on_progress or callbacks.on_logging_message or callbacks.on_elicitation:
            return None
        if self._access is not None or self.timeout_seconds is not None:
            return None
        return self._caller.direct(tool.server, tool.wire_name)

    def begin_in_graph(
        self, tool: Tool, invocation: Invocation, configurable: Mapping[str, Any]
    ) -> GraphCall | None:
        """Return a call of a graph that can pause, if its task surely makes it the first time."""
        try:
            task = task_of(configurable)
        except ConfigError:
            return None  # `run` raises it, if it is still so in the context that LangChain makes
        if task is None or task.runs_again:
            return None
        call = ToolCall(
            server=tool.server,
            tool=tool.wire_name,
            arguments=invocation.arguments,
            call_id=invocation.tool_call_id,
        )
        return GraphTask.of(task).first_call(call, task, is_repeatable=tool.read_only)

    def text_converter(self, tool: Tool) -> TextConverter:
        """Return what converts the most common results of a tool."""
        settings = self.settings
        return TextConverter(
            tool, settings.handling_for(tool.server), settings.sanitize, settings.handle_tool_errors
        )

    def _chain(self, send: Handler, config: Mapping[str, Any]) -> Handler:
        settings = self.settings
        interceptors = list(settings.interceptors)
        if settings.before_tool_call is not None or settings.after_tool_call is not None:
            hooks = Hooks(config, settings.before_tool_call, settings.after_tool_call)
            interceptors.insert(0, hooks)
        return chained(send, interceptors)

    async def _sender(
        self,
        tool: Tool,
        invocation: Invocation,
        request: MCPToolCallRequest,
        config: Mapping[str, Any],
    ) -> _Sender:
        settings = self.settings
        access = await self._caller.access_for(tool.server, invocation.run(config), self._access)
        context = CallbackContext(server_name=tool.server, tool_name=tool.wire_name)
        callbacks = settings.callbacks.to_mcp_format(context=context)
        configurable = configurable_of(config)
        call = ToolCall(
            server=tool.server,
            tool=tool.wire_name,
            arguments=request.args,
            call_id=invocation.tool_call_id,
            timeout_seconds=checked_limit(configurable.get("timeout"), "timeout")
            or self.timeout_seconds,
            on_progress=callbacks.progress_callback,
            on_log=callbacks.logging_callback,
            on_elicitation=callbacks.elicitation_callback,
            access=access,
            ends_at=_monotonic(configurable.get("deadline")),
            run=run_identity(config, request.runtime),
            first=None if invocation.begun is None else invocation.begun.first,
        )
        return _Sender(
            self._caller,
            call,
            task=task_of(configurable),
            in_graph=None if invocation.begun is None else invocation.begun.in_graph,
            signs_in=settings.handle_tool_errors and not settings.raise_auth_errors,
            on_approval=settings.on_approval,
            read_only=tool.wire_name if tool.read_only else None,
        )

    async def _with_resources(
        self, sender: _Sender, result: types.CallToolResult
    ) -> types.CallToolResult:
        """Read the embedded resources of which the server sent only the URI."""
        uris = pending_reads(result)
        if not uris:
            return result
        results = await asyncio.gather(
            *(self._caller.read_resource(sender.server, uri, access=sender.access) for uri in uris),
            return_exceptions=True,
        )
        contents: dict[str, Sequence[Any]] = {}
        for uri, read in zip(uris, results, strict=True):
            if isinstance(read, types.ReadResourceResult):
                contents[uri] = read.contents
            elif isinstance(read, PlaitError):
                logger.warning("%s: cannot read the resource %s: %s", sender.server, uri, read)
            else:
                raise read
        return with_resources(result, contents)

    async def _within_budget(
        self, sender: _Sender, result: types.CallToolResult
    ) -> tuple[types.CallToolResult, str | None]:
        """Shorten a result that is over the budget, and return the handle of the full one.

        Interceptors and resources come before, for they may change its size.
        """
        full = ToolResult.from_mcp(sender.server, sender.tool, result)
        bounded = await self._caller.bounded(full, sender.call, reader=self._reader_name)
        if bounded.full_result is None:
            return result, None
        return bounded.to_mcp(), bounded.full_result


@dataclass
class _Sender:
    """The innermost handler of one invocation: it makes the call as interceptors changed it."""

    caller: Caller
    call: ToolCall
    """The call as it was last made."""
    task: TaskFacts | None
    """The task of the graph that makes the call, if the graph can pause."""
    in_graph: GraphCall | None
    """The call of that task, if it was begun directly."""
    signs_in: bool
    """Whether the graph is interrupted where the user has to sign in."""
    on_approval: OnApproval | None
    read_only: str | None
    """The tool that may be called again, if it is the one that is called."""

    def __post_init__(self) -> None:
        self._run_access = self.access = self.call.access
        """The credentials of the run, and those for reading resources of `server`."""
        self.server, self.tool = self.call.server, self.call.tool
        """What answered: maybe the fallback server, or a tool that an interceptor chose."""
        self.facts: dict[str, Any] = {"attempts": 0, "notes": [], "seconds": 0.0}
        """What the artifact says of the call; of the last one, if there were several."""

    async def completed(self, context: object) -> ToolCall:
        self.call = await self.caller.apply_overrides(self.call, context=context)
        return self.call

    async def send(self, request: MCPToolCallRequest) -> MCPToolCallResult:
        access = join(self._run_access, CallerCredentials.of(request.headers))
        call = replace(self.call, tool=request.name, arguments=request.args, access=access)
        self.call = call
        if self.task is None:
            on_approval = Approvals(self.on_approval, None)
            result = await self.caller.execute(replace(call, on_approval=on_approval))
        else:
            result = await self._send_in_graph(call, self.task)
        self.server, self.tool = result.server, result.tool
        self.facts |= {"attempts": result.attempts, "seconds": result.seconds}
        self.facts["notes"] = list(result.notes)
        # The fallback server must not get the credentials of another server.
        self.access = access if result.server == call.server else None
        return result.to_mcp()

    async def _send_in_graph(self, call: ToolCall, task: TaskFacts) -> ToolResult:
        """Make a call, unless an earlier run of its task has made it."""
        in_graph, self.in_graph = self.in_graph, None
        if in_graph is None:
            is_repeatable = call.tool == self.read_only
            in_graph = await GraphTask.of(task).call(call, task, is_repeatable=is_repeatable)
            earlier = await in_graph.earlier_result()
            if earlier is not None:
                return earlier
        async with in_graph.underway():
            check_not_declined(in_graph, call)
            call = replace(
                call,
                input_answers=await input_answers(in_graph, call),
                pause=in_graph.pause if call.on_elicitation is None else None,
                on_approval=Approvals(self.on_approval, in_graph),
                on_send=in_graph.send,
            )
            try:
                result = await self.caller.execute(call)
            except InputNeededError as needed:
                await ask_for_input(in_graph, call, needed)
            except PlaitError as error:
                if not self.signs_in or not needs_sign_in(error):
                    raise
                await wait_for_sign_in(in_graph, call, error)
            await in_graph.end(result)
            return result


def _monotonic(value: object) -> float | None:
    """Read the deadline of the run: a datetime, or seconds since 1970."""
    if value is None:
        return None
    if isinstance(value, datetime):
        value = value.timestamp()
    if not isinstance(value, int | float):
        raise ConfigError("deadline in the config of a call takes a datetime or time.time()")
    return time.monotonic() + value - time.time()
