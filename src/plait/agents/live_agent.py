"""The base class of engines that call a model: the frame around a run, its toolbox and recorder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Unpack

import mcp_types as types

from plait._support.causes import without_secrets
from plait._support.redact import Redactor
from plait._support.threads import in_thread
from plait.agents.agent_run import AgentRun
from plait.agents.config import AgentConfig, ModelConfig
from plait.agents.model_failures import provider_and_name
from plait.agents.port import (
    AgentResult,
    BaseAgent,
    Conversation,
    Settings,
    read_messages,
    result_from_trace,
)
from plait.agents.program_tools import ToolLike
from plait.agents.servers import AgentServers, convert_mcp_config, read_servers
from plait.client.calls.approval import Approval
from plait.client.calls.failures import retry_reason
from plait.client.calls.tool_call import ToolCall
from plait.client.config.read import ClientConfig
from plait.client.config.secrets import secret_values
from plait.client.connections.status import Event
from plait.client.inbox import Inbox, question_line, viewer_sockets
from plait.client.options import ToolboxOptions
from plait.client.toolbox import Toolbox
from plait.errors import AgentExecutionError, EngineUnavailableError, PlaitError
from plait.models.providers import keys_in
from plait.telemetry.agent_spans import agent_outcome, agent_span
from plait.telemetry.observer import CallTool, Operation
from plait.telemetry.spans import is_traced
from plait.traces.codec import Redact
from plait.traces.events import Status
from plait.traces.file import TraceFile
from plait.traces.messages.message import Message, Role
from plait.traces.recorder import Recorder

if TYPE_CHECKING:
    from plait.client.protocol.session import OnElicitation, RequestContext

Ending = Literal["completed", "limit"]
"""How an engine ends a run: with an answer, or at the turn limit."""

_LOCAL: Final = ("local", "scripted")
"""Providers whose models run in this process."""


class LiveAgent(BaseAgent):
    """An agent whose engine calls a model; subclasses implement `drive`.

    This class manages servers, tools, the trace, the timeout and failures.
    """

    engine: ClassVar[str]
    """The name of the engine."""
    runs_local_models: ClassVar[bool] = False
    """Whether the engine can call a model that runs in this process."""
    defers_tools: ClassVar[bool] = False
    """Whether the model can search for tools that are deferred."""

    def __init__(self, model_config: ModelConfig) -> None:
        """Take the model."""
        if model_config.model_provider in _LOCAL and not self.runs_local_models:
            text = (
                f"a model of the provider {model_config.model_provider!r} runs on the langchain "
                "engine: set interface='langchain'"
            )
            raise EngineUnavailableError(text, "local_model", "langchain")
        self.model_config = model_config
        self._kept: tuple[Toolbox, RunObserver] | None = None

    @property
    def keeps_servers(self) -> bool:
        """Whether the servers stay open after a run."""
        return self._kept is not None

    @contextlib.asynccontextmanager
    async def keep_servers(
        self, mcp_servers: AgentServers | None = None, config: Settings | None = None
    ) -> AsyncGenerator[Toolbox]:
        """Keep servers open for all runs in the block, such as those of a conversation.

        The runs use these servers and the `tool_options` of this `config`, whatever `arun` gets.
        """
        observer = RunObserver()
        settings = await self._asking(AgentConfig.of(config), mcp_servers, "a conversation")
        options = {"follow_tools": True, **self.toolbox_options(settings)}
        toolbox = _toolbox_of_run(self.model_config, mcp_servers, options, observer, has_tools=True)
        assert toolbox is not None  # noqa: S101  # with `has_tools` there is one
        async with toolbox:
            self._kept = (toolbox, observer)
            try:
                yield toolbox
            finally:
                self._kept = None

    @abstractmethod
    async def drive(self, run: AgentRun) -> Ending:
        """Call the model, and tools with `run.call`, until there is an answer.

        Pass each answer of the model to `run.recorder`. At the timeout this is cancelled.

        Raises:
            AgentExecutionError: The model cannot be called.
            ConfigError: The configuration must be corrected.
        """

    async def arun(
        self,
        messages: Conversation,
        tools: Sequence[ToolLike] | None = None,
        mcp_servers: AgentServers | None = None,
        config: Settings | None = None,
        *,
        output_type: Any = None,
    ) -> AgentResult:
        """Run the agent until it answers, or until the turn limit or the timeout.

        Without `mcp_servers`, the servers are those of the model's configuration.

        Raises:
            AgentExecutionError: The model cannot be called, or there is no question.
            AgentServerError: A required server cannot be used.
            ConfigError: A setting is wrong.
            ParseError: The answer does not fit `output_type`.
            OSError: The trace file cannot be written.
        """
        messages, settings = read_messages(messages), AgentConfig.of(config, output_type)
        if not any(message.role is not Role.SYSTEM for message in messages):
            raise AgentExecutionError("there is no message to answer: pass a user message")
        settings = await self._asking(settings, mcp_servers, question_line(messages))
        with invocation(self.model_config, messages) as describe:
            if self._kept is not None:
                toolbox, observer = self._kept
                return describe(await self._run(messages, tools, settings, toolbox, observer))
            observer = RunObserver()
            toolbox = _toolbox_of_run(
                self.model_config,
                mcp_servers,
                self.toolbox_options(settings),
                observer,
                has_tools=bool(tools),
            )
            async with toolbox or contextlib.nullcontext():
                return describe(await self._run(messages, tools, settings, toolbox, observer))

    async def _run(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolLike] | None,
        settings: AgentConfig,
        toolbox: Toolbox | None,
        observer: RunObserver,
    ) -> AgentResult:
        redact = redactor_for(self.model_config, toolbox)
        with recorder_for(settings, redact) as recorder:
            if toolbox is not None:
                observer.watch(toolbox, recorder)
            run = AgentRun(self.model_config, settings, messages, recorder, redact, toolbox)
            run.temperature = self.sent_temperature
            limit = asyncio.timeout(run.seconds)
            run.ends_at = None if run.seconds is None else time.monotonic() + run.seconds
            try:
                async with limit:
                    try:
                        await run.list_tools(tools or (), defers=self.defers_tools)
                    finally:
                        run.begin(self.engine)
                    run.check_prices()
                    ending = await self.drive(run)
                    output = None
                    while run.output is not None and ending == "completed" and run.is_complete:
                        try:
                            output = run.output.read(run.answer)
                            break
                        except ValueError as problem:
                            run.ask_again(str(problem))
                        ending = await self.drive(run)
                    return replace(result_from_trace(run.end(ending)), output=output)
            except Exception as error:  # noqa: BLE001  # boundary: engines may raise anything
                if limit.expired():  # whatever the engine made of the cancellation
                    return result_from_trace(run.end("timeout"))
                failure = error
                if not isinstance(error, PlaitError):
                    text = f"{self.engine}: {type(error).__name__}: {redact.excerpt(str(error))}"
                    failure = AgentExecutionError(text)
                    failure.__cause__ = error
                failure = without_secrets(failure, redact)
                if isinstance(failure, PlaitError):
                    trace = recorder.trace
                    failure.trace, failure.messages = trace, trace.messages
                    failure.usage = trace.usage
            # Outside of the handler: otherwise the original error, with secrets, is its context.
            raise failure

    async def _asking(
        self, settings: AgentConfig, mcp_servers: AgentServers | None, source: str
    ) -> AgentConfig:
        """Let a recorded run ask the person at an open viewer, where the program asks nobody."""
        if not settings.trace or settings.on_interrupt is not None:
            return settings
        servers = servers_for(self.model_config, mcp_servers).servers.values()
        inbox = Inbox(source, (one for server in servers for one in secret_values(server)))
        options: dict[str, Any] = {"on_approval": inbox.approve}
        if await in_thread(viewer_sockets):
            # Declared only then: servers learn at the start of a session whether they may ask.
            options["on_elicitation"] = inbox.elicitation_callback
        return replace(settings, tool_options={**options, **settings.tool_options})

    def seconds_for(self, config: AgentConfig) -> float | None:
        """Return the time limit of a run; `None` if there is none."""
        return config.timeout or self.model_config.agent_timeout

    @property
    def sent_temperature(self) -> float | None:
        """The temperature that requests have; `None` if they have none."""
        return self.model_config.temperature

    def toolbox_options(self, settings: AgentConfig) -> Mapping[str, Any]:
        """Return the options for the toolbox of a run; an engine may keep some to itself."""
        return settings.tool_options


@contextlib.contextmanager
def invocation(
    model_config: ModelConfig, messages: Sequence[Message]
) -> Generator[Callable[[AgentResult], AgentResult]]:
    """Record a run as a span, if anything is traced; yields what adds the result to it."""
    if not is_traced():
        yield lambda result: result
        return
    provider, model = provider_and_name(model_config)
    with agent_span(model_config.id, provider, model, messages) as details:

        def describe(result: AgentResult) -> AgentResult:
            answer = Message.assistant(result.final_response)
            details.update(
                agent_outcome(result.usage, result.stop_reason, result.session_id, [answer])
            )
            if result.timeout_reached:
                details["error.type"] = "timeout"
            return result

        try:
            yield describe
        except PlaitError as error:
            if error.usage is not None:
                details.update(agent_outcome(error.usage, None, None, []))
            raise


_GUARDS: Final = ("lock", "lockfile", "policy")
"""The options that decide about a tool by its current definition."""


def _toolbox_of_run(
    model_config: ModelConfig,
    mcp_servers: AgentServers | None,
    tool_options: Mapping[str, Any],
    observer: RunObserver,
    *,
    has_tools: bool,
) -> Toolbox | None:
    """Create the toolbox of a run; the rules of one hold for tools of the program, too."""
    servers = servers_for(model_config, mcp_servers)
    options = dict(tool_options)
    # A run lists its tools once: only a guard needs to follow their changes.
    guards = {**servers.options, **options}
    options.setdefault("follow_tools", any(guards.get(name) for name in _GUARDS))
    observers = (observer, *options.pop("observers", ()))
    if (on_elicitation := options.get("on_elicitation")) is not None:
        options["on_elicitation"] = observer.recording(on_elicitation)
    if has_tools and not servers.servers:
        return Toolbox(servers, **options)
    return toolbox_for(model_config, servers, observers=observers, **options)


def toolbox_for(
    model_config: ModelConfig,
    mcp_servers: AgentServers | None = None,
    **options: Unpack[ToolboxOptions],
) -> Toolbox | None:
    """Create the toolbox of a run; `None` if it has no servers.

    Without `mcp_servers` they are those of the model's configuration. `options` win over the
    options of both configurations.

    Raises:
        ConfigError: A server or an option is wrong.
    """
    servers = servers_for(model_config, mcp_servers)
    if not servers.servers:
        return None
    settings: ToolboxOptions = {}
    if model_config.mcp_tool_filter is not None:
        settings["include"] = model_config.mcp_tool_filter
    if model_config.mcp_tool_description_overrides:
        settings["tool_overrides"] = {
            name: {"description": text}
            for name, text in model_config.mcp_tool_description_overrides.items()
        }
    return Toolbox(servers, **{**settings, **options})


def servers_for(model_config: ModelConfig, mcp_servers: AgentServers | None) -> ClientConfig:
    """Return the servers of a run, by default those of the model's configuration."""
    if mcp_servers is None:
        mcp_servers = convert_mcp_config(model_config.mcp_urls_dict or {})
    http, sse = model_config.mcp_http_timeout, model_config.mcp_sse_read_timeout
    timeouts = {"timeout": http, "sse_read_timeout": sse}
    defaults = {name: seconds for name, seconds in timeouts.items() if seconds is not None}
    return read_servers(mcp_servers, defaults)


def redactor_for(model_config: ModelConfig, toolbox: Toolbox | None) -> Redactor:
    """Create the redactor of a run: it hides the keys of models and the secrets of servers.

    The keys include those in the environment, which provider libraries read themselves.
    """
    servers = () if toolbox is None else toolbox.config.servers.values()
    secrets = (secret for server in servers for secret in secret_values(server))
    return Redactor([*model_config.secrets(), *keys_in(os.environ), *secrets])


@contextlib.contextmanager
def recorder_for(config: AgentConfig, redact: Redact) -> Generator[Recorder]:
    """Create the recorder of a run; its file is closed after the block.

    An exception that leaves the block is recorded, with the end of the run.

    Raises:
        OSError: The trace file cannot be written.
    """
    file = None if config.trace is None else TraceFile(config.trace)
    listeners = () if config.on_event is None else (config.on_event,)
    recorder = Recorder(file, redact=redact, listeners=listeners)
    try:
        yield recorder
    except (asyncio.CancelledError, KeyboardInterrupt):
        _end(recorder, "cancelled")
        raise
    except Exception as error:
        recorder.failed(error)
        _end(recorder, "failed")
        raise
    finally:
        if file is not None:
            file.close()


def _end(recorder: Recorder, status: Status) -> None:
    if recorder.trace.ended is None:
        recorder.ended(status)


@dataclass(slots=True)
class _Watched:
    """A run, and which connection events it has seen."""

    recorder: Recorder
    seen: datetime | None = None
    lost: dict[str, tuple[datetime, str]] = field(default_factory=dict[str, tuple[datetime, str]])

    def heals(self, events: Sequence[Event]) -> Iterator[tuple[str, str | None, float]]:
        """Yield the servers that were lost and opened again, why, and for how many seconds."""
        for event in events:
            if self.seen is not None and event.at <= self.seen:
                continue
            self.seen = event.at
            if event.kind == "lost":
                self.lost.setdefault(event.server, (event.at, event.detail))
            elif event.kind == "opened" and event.server in self.lost:
                since, reason = self.lost.pop(event.server)
                yield event.server, reason or None, (event.at - since).total_seconds()


_watched_run: ContextVar[_Watched | None] = ContextVar("watched_run", default=None)
"""Runs at the same time may share a toolbox, and so its observer."""


class RunObserver:
    """Records retried calls, approvals, elicitations, and servers that reconnect.

    Pass it to a toolbox as an observer, then call `watch`.
    """

    def __init__(self) -> None:
        self._latest: _Watched | None = None
        self._toolbox: Toolbox | None = None
        self._reasons: dict[tuple[str, str], str] = {}

    def watch(self, toolbox: Toolbox, recorder: Recorder) -> None:
        """Connect the toolbox to a recorder."""
        self._toolbox = toolbox
        toolbox.calls.policy.on_decision = self._decided
        self._latest = _Watched(recorder)
        for _ in self._latest.heals(toolbox.events()):
            pass  # before the run; a server that is still lost may be healed in it
        _watched_run.set(self._latest)

    @property
    def _watched(self) -> _Watched | None:
        """The run that the current call belongs to."""
        return _watched_run.get() or self._latest

    @property
    def _recorder(self) -> Recorder | None:
        return None if self._watched is None else self._watched.recorder

    def around(self, operation: Operation) -> contextlib.AbstractContextManager[None]:
        """Observe one attempt of a call."""
        if not isinstance(operation, CallTool):
            return contextlib.nullcontext()
        key = (operation.server, operation.tool)
        if operation.attempt > 1 and self._recorder is not None:
            self._recorder.retry(*key, operation.attempt, reason=self._reasons.get(key))
        return _Attempt(partial(self._attempted, key))

    def _attempted(self, key: tuple[str, str], error: BaseException | None) -> None:
        """Note why an attempt failed, and the servers that reconnected since the last one."""
        if isinstance(error, PlaitError):
            self._reasons[key] = retry_reason(error)
        run = self._watched
        if self._toolbox is not None and run is not None:
            for server, reason, seconds in run.heals(self._toolbox.events()):
                run.recorder.heal(server, reason=reason, seconds=round(seconds, 6))

    def recording(
        self, on_elicitation: Callable[[str], OnElicitation]
    ) -> Callable[[str], OnElicitation]:
        """Wrap an elicitation callback, so that each elicitation is recorded."""

        def wrapped(server: str) -> OnElicitation:
            ask = on_elicitation(server)

            async def elicit(
                context: RequestContext, params: types.ElicitRequestParams
            ) -> types.ElicitResult | types.ErrorData:
                began = time.monotonic()
                result = await ask(context, params)
                if self._recorder is not None:
                    action = result.action if isinstance(result, types.ElicitResult) else None
                    seconds = time.monotonic() - began
                    self._recorder.elicitation(server, params.message, action, seconds=seconds)
                return result

            return elicit

        return wrapped

    def _decided(
        self, call: ToolCall, reason: str, approval: Approval | None, seconds: float | None
    ) -> None:
        if self._recorder is None or call.call_id is None:  # a check before the call itself
            return
        self._recorder.approval(
            call.server,
            call.tool,
            "deny" if approval is None else approval.decision,
            reason,
            by="policy" if approval is None else approval.by,
            call_id=call.call_id,
            arguments=None if approval is None else approval.args,
            message=None if approval is None else approval.message,
            seconds=seconds,
        )


class _Attempt(contextlib.AbstractContextManager[None]):
    """Calls back when a block ends; a class, because every call creates one."""

    __slots__ = ("_on_end",)

    def __init__(self, on_end: Callable[[BaseException | None], None]) -> None:
        self._on_end = on_end

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._on_end(error)
