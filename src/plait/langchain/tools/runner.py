"""Running a tool for LangChain: interceptors around the call, and the output for the model."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from langchain_core.messages import ToolMessage
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.types import Command

from plait._support import mcp_types as types
from plait._support.durations import checked_limit
from plait._support.own_types import own_type
from plait._support.threads import in_thread
from plait.client.calls.outcome import (
    ResourceContents,
    ToolResult,
    has_many_parts,
)
from plait.client.calls.result_budget import READ_MORE
from plait.client.calls.tool_call import ToolCall
from plait.client.connections.credentials import CallerCredentials, join
from plait.errors import (
    AuthRequiredError,
    ConfigError,
    ForbiddenError,
    InputNeededError,
    InvalidArgumentsError,
    PlaitError,
)
from plait.langchain.tools.callbacks import CallbackContext, Callbacks
from plait.langchain.tools.content import (
    DEFAULT_HANDLING,
    HandlingLayer,
    OutputHandling,
    ToolOutput,
    convert_plain_text,
    convert_result,
    error_from,
    output_from_error,
    pending_reads,
    with_resources,
)
from plait.langchain.tools.graph_run import (
    CALL_OPTIONS,
    TaskFacts,
    configurable_of,
    run_identity,
    task_of,
)
from plait.langchain.tools.graph_task import GraphTask, MadeByAnotherRunError
from plait.langchain.tools.interceptors import (
    Handler,
    Hook,
    Hooks,
    MCPToolCallRequest,
    ToolCallInterceptor,
)
from plait.langchain.tools.interrupts import (
    Approvals,
    ask_for_input,
    check_not_declined,
    input_answers,
    wait_for_sign_in,
)
from plait.langchain.tools.written_calls import fault_of_call
from plait.models.call_arguments import INVALID

if TYPE_CHECKING:
    from plait.client.calls.approval import OnApproval
    from plait.client.calls.executor import Convert, ToolExecutor
    from plait.client.catalog.tool import Tool
    from plait.client.config.servers import ServerConfig
    from plait.langchain.tools.caller import Caller
    from plait.langchain.tools.interceptors import MCPToolCallResult

logger = logging.getLogger("plait.langchain")

T = TypeVar("T", ToolResult, ToolOutput, ToolResult | ToolOutput)


@dataclass(slots=True, kw_only=True)
class Invocation:
    """One invocation of a tool by LangChain."""

    arguments: Mapping[str, Any] = field(repr=False)
    tool_call_id: str | None = None
    runtime: object | None = field(default=None, repr=False)

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
        plain = self.plain(tool, config)
        if plain is None and (apply := self.change_of(tool.server)) is not None:
            await apply()
            plain = self.plain(tool, config)
        if plain is not None:
            call, task = self._plain_call(tool, invocation), None
            if config:
                task = task_of(configurable_of(config))
            sender = _Sender(self._caller, self.settings, tool, call, task)
        else:
            sender = await self._sender(tool, invocation, config)
        began = time.monotonic()
        try:
            if plain is None or invocation.runtime is not None or INVALID in invocation.arguments:
                fault = fault_of_call(invocation.arguments, invocation.runtime)
                if fault is not None:
                    raise InvalidArgumentsError(fault, server=tool.server, tool=tool.wire_name)
            if plain is not None:
                execute = partial(plain.run, convert=self._converter(tool))
                made = await sender.make(sender.call, execute)
                if isinstance(made, ToolOutput):
                    return made
                return await self._output_of(sender, sender.note_answer(made))
            request = MCPToolCallRequest(
                name=tool.wire_name,
                args=dict(invocation.arguments),
                server_name=tool.server,
                runtime=invocation.runtime,
            )
            sender.call = await self._caller.apply_overrides(sender.call, context=request)
            request.args = dict(sender.call.arguments)
            interceptors = list(self.settings.interceptors)
            before, after = self.settings.before_tool_call, self.settings.after_tool_call
            if before is not None or after is not None:
                interceptors.insert(0, Hooks(config, before, after))
            if not interceptors:
                return await self._output_of(sender, await sender.send(request))

            async def send(request: MCPToolCallRequest) -> MCPToolCallResult:
                return (await sender.send(request)).to_mcp()

            handle: Handler = send
            for interceptor in reversed(interceptors):
                handle = partial(_intercepted, interceptor, handle)
            result = cast("Any", own_type(types.CallToolResult, await handle(request)))
            if not isinstance(result, types.CallToolResult):
                return result
            call, last = sender.call, sender.answered
            if last is None:  # interceptors have answered it
                last = ToolResult.from_mcp(call.server, call.tool, result, attempts=0)
            known = {"attempts": last.attempts, "notes": last.notes, "seconds": last.seconds}
            made = ToolResult.from_mcp(last.server, last.tool, result, **known)
            return await self._output_of(sender, made)
        except PlaitError as error:
            return self.output_of_error(error, tool, began)

    def plain(self, tool: Tool, config: Mapping[str, Any]) -> ToolExecutor | None:
        """Return what makes a call that has no options, and that nobody intercepts."""
        if not self._is_plain or self.timeout_seconds is not None:
            return None
        if self.change_of(tool.server) is not None:
            return None
        if config and not CALL_OPTIONS.isdisjoint(configurable_of(config)):
            return None
        return self._caller.plain(tool.server, tool.wire_name)

    def run_blocking(
        self, tool: Tool, invocation: Invocation, config: Mapping[str, Any]
    ) -> Outcome:
        """Do what `run` does, and block until it is done; a direct call needs no event loop."""
        plain = self.plain(tool, config)
        # The records of a graph that can pause, and the fault of a call, are the matter of `run`.
        if (
            plain is None
            or configurable_of(config).get(CONFIG_KEY_CHECKPOINTER)
            or fault_of_call(invocation.arguments, invocation.runtime) is not None
        ):
            return self.block_on(self.run, tool, invocation, config)
        call, began = self._plain_call(tool, invocation), time.monotonic()
        try:
            result = plain.run_blocking(call, self._converter(tool))
            if isinstance(result, ToolOutput):
                return result
            sender = _Sender(self._caller, self.settings, tool, call, None)
            return self.block_on(self._output_of, sender, sender.note_answer(result))
        except PlaitError as error:
            return self.output_of_error(error, tool, began)

    @cached_property
    def _is_plain(self) -> bool:
        settings, callbacks = self.settings, self.settings.callbacks
        return not (
            settings.interceptors
            or settings.before_tool_call
            or settings.after_tool_call
            or callbacks.on_progress
            or callbacks.on_logging_message
            or callbacks.on_elicitation
            or self._access is not None
        )

    async def _output_of(self, sender: _Sender, result: ToolResult) -> ToolOutput:
        """Return the output for a result, with its resources, and within its budget."""
        settings = self.settings
        if uris := pending_reads(result):
            # Embedded resources of which the server sent only the URI.
            read = partial(self._caller.read_resource, result.server, access=sender.access)
            found = await asyncio.gather(*map(read, uris), return_exceptions=True)
            contents: dict[str, Sequence[ResourceContents]] = {}
            for uri, one in zip(uris, found, strict=True):
                if isinstance(one, types.ReadResourceResult):
                    contents[uri] = one.contents
                elif isinstance(one, PlaitError):
                    logger.warning("%s: cannot read the resource %s: %s", result.server, uri, one)
                else:
                    raise one
            result = with_resources(result, contents)
        # Interceptors and resources come before, for they may change its size.
        result = await self._caller.bounded(result, sender.call, reader=self._reader_name)
        convert = partial(
            convert_result,
            result,
            handling=settings.handling_by_server.get(sender.listed.server, settings.handling),
            standard_blocks=settings.standard_blocks,
            sanitize=settings.sanitize,
        )
        output = await in_thread(convert) if has_many_parts(result) else convert()
        if output.is_error and not settings.handle_tool_errors:
            raise error_from(output)
        return output

    def output_of_error(self, error: PlaitError, tool: Tool, began: float) -> ToolOutput:
        """Return the output for an error, or raise one that the model cannot act on."""
        if not self.settings.is_for_model(error):
            raise error
        logger.info("%s/%s failed: %s", tool.server, tool.wire_name, error)
        seconds = time.monotonic() - began
        return output_from_error(error, tool, seconds=seconds, sanitize=self.settings.sanitize)

    def _converter(self, tool: Tool) -> Convert[ToolOutput]:
        """Return what converts the most common results of a tool."""
        settings = self.settings
        handling = settings.handling_by_server.get(tool.server, settings.handling)
        return partial(
            convert_plain_text, tool, handling, settings.sanitize, settings.handle_tool_errors
        )

    async def _sender(
        self, tool: Tool, invocation: Invocation, config: Mapping[str, Any]
    ) -> _Sender:
        access = await self._caller.access_for(tool.server, invocation.run(config), self._access)
        context = CallbackContext(server_name=tool.server, tool_name=tool.wire_name)
        callbacks = self.settings.callbacks.to_mcp_format(context=context)
        configurable = configurable_of(config)
        ends_at, deadline = None, configurable.get("deadline")
        if deadline is not None:
            if isinstance(deadline, datetime):
                deadline = deadline.timestamp()
            if not isinstance(deadline, int | float):
                text = "deadline in the config of a call takes a datetime or time.time()"
                raise ConfigError(text)
            ends_at = time.monotonic() + deadline - time.time()
        call = ToolCall(
            server=tool.server,
            tool=tool.wire_name,
            arguments=invocation.arguments,
            call_id=invocation.tool_call_id,
            timeout_seconds=checked_limit(configurable.get("timeout"), "timeout")
            or self.timeout_seconds,
            on_progress=callbacks.progress_callback,
            on_log=callbacks.logging_callback,
            on_elicitation=callbacks.elicitation_callback,
            on_approval=Approvals(self.settings.on_approval, None),
            access=access,
            ends_at=ends_at,
            run=run_identity(config, invocation.runtime),
        )
        return _Sender(self._caller, self.settings, tool, call, task_of(configurable))

    def _plain_call(self, tool: Tool, invocation: Invocation) -> ToolCall:
        return ToolCall(
            server=tool.server,
            tool=tool.wire_name,
            arguments=invocation.arguments,
            call_id=invocation.tool_call_id,
            on_approval=Approvals(self.settings.on_approval, None),
        )


async def _intercepted(
    interceptor: ToolCallInterceptor, inner: Handler, request: MCPToolCallRequest
) -> MCPToolCallResult:
    return await interceptor(request, inner)


class _Sender:
    """The innermost handler of one invocation: it makes the call as interceptors changed it."""

    def __init__(
        self,
        caller: Caller,
        settings: RunnerSettings,
        tool: Tool,
        call: ToolCall,
        task: TaskFacts | None,
    ) -> None:
        """Take the task of the graph that makes the call, if the graph can pause."""
        self.listed = tool
        self.call = call
        """The call as it was last made."""
        self._caller = caller
        self._settings = settings
        self._task = task
        self._run_access = self.access = call.access
        """The credentials of the run, and those for reading resources of what answered."""
        self.answered: ToolResult | None = None
        """The last result: maybe of the fallback server, or of a tool that an interceptor chose."""

    async def send(self, request: MCPToolCallRequest) -> ToolResult:
        access = join(self._run_access, CallerCredentials.of(request.headers))
        call = replace(self.call, tool=request.name, arguments=request.args, access=access)
        self.call = call
        return self.note_answer(await self.make(call, self._caller.execute))

    def note_answer(self, result: ToolResult) -> ToolResult:
        """Note what has answered, and return it."""
        self.answered = result
        # The fallback server must not get the credentials of another server.
        self.access = self.call.access if result.server == self.call.server else None
        return result

    async def make(
        self, call: ToolCall, execute: Callable[[ToolCall], Awaitable[T]]
    ) -> ToolResult | T:
        """Make a call, unless an earlier run of its task has made it."""
        if self._task is None:
            return await execute(call)
        is_repeatable = self.listed.read_only and call.tool == self.listed.wire_name
        in_graph = await GraphTask.of(self._task).call(
            call, self._task, is_repeatable=is_repeatable
        )
        if (earlier := await in_graph.earlier_result()) is not None:
            return earlier
        settings = self._settings
        with in_graph.underway():
            try:
                check_not_declined(in_graph, call)
                answers = await input_answers(in_graph, call)
                call = replace(
                    call,
                    pause=in_graph.pause if call.on_elicitation is None else None,
                    on_approval=Approvals(settings.on_approval, in_graph),
                    recorder=in_graph,
                    input_answers=answers,
                )
                try:
                    result = await execute(call)
                except InputNeededError as needed:
                    await ask_for_input(in_graph, call, needed)
                except (AuthRequiredError, ForbiddenError) as error:
                    if not settings.handle_tool_errors or settings.raise_auth_errors:
                        raise
                    if isinstance(error, ForbiddenError) and not error.scopes:
                        raise  # a login would not help
                    await wait_for_sign_in(in_graph, call, error)
                await in_graph.end(_record_of(result))
            except MadeByAnotherRunError:
                return await in_graph.result_of_other_run()
            except PlaitError as error:
                await in_graph.fail(error)
                raise
            return result


def _record_of(result: ToolResult | ToolOutput) -> dict[str, Any]:
    """Return a result as data, for a run of the task that returns it again."""
    if isinstance(result, ToolResult):
        return result.to_dict()
    artifact = result.artifact
    return {
        "server": artifact["server"],
        "tool": artifact["tool"],
        "is_error": result.is_error,
        "content": [{"type": "text", "text": result.content}],
        "structured_content": artifact["structured_content"],
        "meta": artifact["_meta"],
        "attempts": artifact["attempts"],
        "notes": artifact["notes"],
        "seconds": artifact["seconds"],
    }
