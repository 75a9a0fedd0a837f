"""Running a tool for LangChain: around the call its interceptors, after it what the model reads."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import mcp_types as types
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from plait.client.calls.approval import OnApproval
from plait.client.calls.outcome import FULL_RESULT, ToolResult
from plait.client.calls.result_budget.limiter import READ_MORE
from plait.client.calls.tool_call import Pause, ToolCall
from plait.client.catalog.tool import Tool
from plait.client.connections.credentials import Access, join
from plait.errors import ConfigError, InputNeededError, PlaitError
from plait.langchain.tools.approval import Approvals
from plait.langchain.tools.callbacks import CallbackContext, Callbacks
from plait.langchain.tools.caller import Caller
from plait.langchain.tools.content import (
    Converted,
    convert_result,
    error_text,
    pending_reads,
    with_resources,
)
from plait.langchain.tools.elicitation import answered_by_interrupt, may_interrupt, pause_of
from plait.langchain.tools.failures import ToolFailedException, failed
from plait.langchain.tools.graph_run import run_mark
from plait.langchain.tools.interceptors import (
    Handler,
    Hook,
    Hooks,
    MCPToolCallRequest,
    MCPToolCallResult,
    ToolCallInterceptor,
    chained,
)
from plait.langchain.tools.output_handling import DEFAULT_HANDLING, OutputHandling
from plait.langchain.tools.sign_in import (
    check_not_declined,
    is_cured_by_signing_in,
    wait_for_sign_in,
)

logger = logging.getLogger("plait.langchain")

_MANY_SECONDS = 3600.0
"""A longer timeout was probably meant in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One use of a tool, as LangChain asks for it."""

    arguments: Mapping[str, Any] = field(repr=False)
    tool_call_id: str | None = None
    runtime: object | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a call came to, ready to become a message."""

    converted: Converted
    is_error: bool


Outcome = Answered | ToolMessage | Command[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings:
    """How a client wants its tools to be run."""

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

    def handling_for(self, server: str) -> OutputHandling:
        """Return where the content of a server goes."""
        return self.handling_by_server.get(server, self.handling)


class ToolRunner:
    """Runs tools over a caller; every failure that a model can read becomes an answer."""

    def __init__(
        self,
        caller: Caller,
        settings: RunnerSettings,
        *,
        access: Access | None = None,
        reader: str = READ_MORE,
    ) -> None:
        """Take what makes the calls, and the name of the tool that reads on in long results."""
        self._caller = caller
        self.settings = settings
        self._access = access
        self._reader_name = reader

    async def run(self, tool: Tool, use: Invocation, config: Mapping[str, Any]) -> Outcome:
        """Run a tool.

        Raises:
            PlaitError: A developer must act, or the settings say that errors are raised.
        """
        settings = self.settings
        request = MCPToolCallRequest(
            name=tool.wire_name,
            args=dict(use.arguments),
            server_name=tool.server,
            runtime=use.runtime,
        )
        run = {**config, "context": getattr(use.runtime, "context", None)}
        access = await self._caller.access_for(tool.server, run, self._access)
        sending = _Sending(
            self._caller,
            self._call(tool, request, config, access),
            access,
            pause=partial(pause_of, config, use.tool_call_id),
            pauses=self._pauses(config),
            approvals=Approvals(
                settings.on_approval,
                interrupts=may_interrupt(config),
                tool_call_id=use.tool_call_id,
            ),
        )
        try:
            if sending.pauses:
                check_not_declined(sending.call, config)
            request.args = dict((await sending.completed(request)).arguments)
            result = await self._chain(sending.send, config)(request)
            if not isinstance(result, types.CallToolResult):
                return result
            result = await self._with_resources(sending, result)
            result, full_result = await self._within_budget(sending, result)
        except PlaitError as error:
            if not self._is_for_model(error):
                raise
            logger.info("%s/%s failed: %s", tool.server, tool.wire_name, error)
            return Answered(
                converted=failed(error, tool, sanitize=settings.sanitize), is_error=True
            )
        converted = convert_result(
            result,
            server=sending.server,
            tool=sending.tool,
            handling=settings.handling_for(tool.server),
            standard_blocks=settings.standard_blocks,
            sanitize=settings.sanitize,
        )
        if full_result is not None:
            converted = replace(
                converted, artifact={**converted.artifact, FULL_RESULT: full_result}
            )
        answer = Answered(converted=converted, is_error=bool(result.is_error))
        if answer.is_error and not settings.handle_tool_errors:
            raise ToolFailedException(
                error_text(answer.converted.content),
                server=sending.server,
                tool=sending.tool,
                converted=answer.converted,
            )
        return answer

    def run_blocking(self, tool: Tool, use: Invocation, config: Mapping[str, Any]) -> Outcome:
        """Do what `run` does, and block until it is done.

        Raises:
            BlockingCallError: The connections live in the loop of this very thread.
        """
        return self._caller.run_blocking(self.run, tool, use, config)

    def _chain(self, send: Handler, config: Mapping[str, Any]) -> Handler:
        settings = self.settings
        around = list(settings.interceptors)
        if settings.before_tool_call is not None or settings.after_tool_call is not None:
            hooks = Hooks(config, settings.before_tool_call, settings.after_tool_call)
            around.insert(0, hooks)
        return chained(send, around)

    def _call(
        self,
        tool: Tool,
        request: MCPToolCallRequest,
        config: Mapping[str, Any],
        access: Access | None,
    ) -> ToolCall:
        context = CallbackContext(server_name=tool.server, tool_name=tool.wire_name)
        told = self.settings.callbacks.to_mcp_format(context=context)
        asked: Mapping[str, Any] = config.get("configurable") or {}
        return ToolCall(
            server=tool.server,
            tool=tool.wire_name,
            arguments=request.args,
            timeout_seconds=_seconds(asked.get("timeout")),
            on_progress=told.progress_callback,
            on_log=told.logging_callback,
            on_elicitation=told.elicitation_callback,
            access=access,
            ends_at=_monotonic(asked.get("deadline")),
            run=run_mark(config, request.runtime),
        )

    def _is_for_model(self, error: PlaitError) -> bool:
        if error.kind == "config" or not self.settings.handle_tool_errors:
            return False
        return error.kind != "auth" or not self.settings.raise_auth_errors

    def _pauses(self, config: Mapping[str, Any]) -> bool:
        """Say whether a call that needs a login waits for it, with the whole graph."""
        settings = self.settings
        told = settings.handle_tool_errors and not settings.raise_auth_errors
        return told and may_interrupt(config)

    async def _with_resources(
        self, sent: _Sending, result: types.CallToolResult
    ) -> types.CallToolResult:
        """Read the embedded resources of which the server sent only the address."""
        uris = pending_reads(result)
        if not uris:
            return result
        answers = await asyncio.gather(
            *(self._caller.read(sent.server, uri, access=sent.access) for uri in uris),
            return_exceptions=True,
        )
        contents: dict[str, Sequence[Any]] = {}
        for uri, answer in zip(uris, answers, strict=True):
            if isinstance(answer, types.ReadResourceResult):
                contents[uri] = answer.contents
            elif isinstance(answer, PlaitError):
                logger.warning("%s: cannot read the resource %s: %s", sent.server, uri, answer)
            else:
                raise answer
        return with_resources(result, contents)

    async def _within_budget(
        self, sent: _Sending, result: types.CallToolResult
    ) -> tuple[types.CallToolResult, str | None]:
        """Shorten a result that is too large; interceptors and resources come before."""
        told = ToolResult.from_mcp(
            sent.server, sent.tool, result, attempts=1, notes=(), seconds=0.0
        )
        bounded = await self._caller.bounded(told, sent.call, reader=self._reader_name)
        return (
            (result, None)
            if bounded.full_result is None
            else (bounded.to_mcp(), bounded.full_result)
        )


class _Sending:
    """The innermost handler of one use of a tool: it makes the call that interceptors left."""

    def __init__(
        self,
        caller: Caller,
        call: ToolCall,
        access: Access | None,
        *,
        pause: Callable[[], Pause | None],
        pauses: bool,
        approvals: Approvals,
    ) -> None:
        self._approvals = approvals
        self._caller = caller
        self.call = call
        """The call as it was last made."""
        self._pause = pause
        self.pauses = pauses
        """Whether the graph is interrupted where somebody has to sign in."""
        self._given = access
        self.access = access
        self.server = call.server
        """Who answered: the server, or its backup."""
        self.tool = call.tool
        """What was called; an interceptor may have chosen another."""

    async def completed(self, context: object) -> ToolCall:
        self.call = await self._caller.completed(self.call, context=context)
        return self.call

    async def send(self, request: MCPToolCallRequest) -> MCPToolCallResult:
        access = join(self._given, Access.of(request.headers))
        # Only here: interceptors may have interrupted the graph before.
        pause = self._pause() if self.call.on_elicitation is None else None
        # With other credentials it may be that somebody has to sign in before anybody is asked.
        self._approvals.bare_answers = access == self._given
        call = replace(
            self.call,
            tool=request.name,
            arguments=request.args,
            access=access,
            pause=pause,
            on_approval=self._approvals,
        )
        self.call = call
        while True:
            try:
                result = await self._caller.execute(call)
                break
            except InputNeededError as asked:
                # Pauses the graph here; when it goes on, everything up to here is done again.
                call = replace(call, input_responses=answered_by_interrupt(call, asked))
            except PlaitError as refused:
                if not self.pauses or not is_cured_by_signing_in(refused):
                    raise
                wait_for_sign_in(call, refused)
        self.server, self.tool = result.server, result.tool
        # A backup is asked without the credentials that are meant for another.
        self.access = access if result.server == call.server else None
        return result.to_mcp()


def _seconds(given: object) -> float | None:
    """Read the timeout of one call; 0 and `None` mean the default."""
    if isinstance(given, timedelta):
        given = given.total_seconds()
    if given is None or given == 0:
        return None
    if not isinstance(given, int | float) or given < 0:
        raise ConfigError("timeout in the config of a call takes seconds, as a number or timedelta")
    if given > _MANY_SECONDS:
        logger.warning("a timeout of %g s was given for a call; milliseconds?", given)
    return float(given)


def _monotonic(given: object) -> float | None:
    """Read the end of the run: a time of day, as a datetime or in seconds since 1970."""
    if given is None:
        return None
    if isinstance(given, datetime):
        given = given.timestamp()
    if not isinstance(given, int | float):
        raise ConfigError("deadline in the config of a call takes a datetime or time.time()")
    return time.monotonic() + given - time.time()
