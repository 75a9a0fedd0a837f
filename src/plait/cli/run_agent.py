"""One agent run of the command line: its model and options, its screen, and its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import (
    AsyncGenerator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from functools import partial
from types import FrameType
from typing import Any, Final, Literal

import click
from mcp.client import ClientRequestContext
from mcp.client.session import ElicitationFnT
from mcp_types import ElicitRequestParams, ElicitResult, ErrorData
from rich.console import RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from plait._support.redact import Redactor
from plait.agents.choose_model import ModelChoice, ModelRequest, choose_here
from plait.agents.config import AgentConfig
from plait.agents.factory import get_agent
from plait.agents.port import AgentResult, result_from_trace
from plait.cli import session, terminal
from plait.cli.arguments import reader_for
from plait.cli.base import settings_of
from plait.cli.questions import Questioner, TerminalApproval, person_at_terminal
from plait.cli.run_options import read_image, with_model_options
from plait.cli.terminal import print_aside, print_text
from plait.cli.trace_view import (
    body_view,
    called_label,
    event_view,
    numbers_of,
    status_label,
    turn_line,
)
from plait.client.calls.approval import Approval, ApprovalRequest
from plait.client.calls.tool_call import CallbackContext
from plait.client.config.policy import read_policy
from plait.client.config.read import ClientConfig, read_options
from plait.client.config.secrets import secret_values
from plait.client.config.servers import ServerConfig
from plait.client.options import CLIENT_OPTIONS
from plait.errors import AgentServerError, PlaitError
from plait.models.endpoints import may_look_for_ollama
from plait.models.providers import keys_in
from plait.traces import events
from plait.traces.codec import Cleaner, event_from_line, line_from_event
from plait.traces.events import Status, TraceEvent
from plait.traces.file import read_trace
from plait.traces.messages.message import Message, messages_to_dicts
from plait.traces.recorder import hash_question
from plait.traces.trace import NO_RESPONSE, Trace


def live_view(event: TraceEvent, *, streamed: bool = False) -> Iterator[RenderableType]:
    """Render an event during a run; `streamed` says that its text is on the screen already.

    Texts of the model are complete, except the answer, which goes to stdout; calls and results are
    cut to the width.
    """
    match event:
        case events.RunStarted():
            if event.servers:
                servers = terminal.some_of(list(map(terminal.visible, event.servers)), 5)
                tools = terminal.count_label(len(event.tools), "tool")
                yield Text(f"tools: {tools} of {servers}", "dim")
        case events.Turn():
            yield turn_line(event)
            if event.message.thinking:
                yield body_view(event.message.thinking, full=False, style="dim italic")
            if event.message.text and event.message.tool_calls and not streamed:
                yield body_view(event.message.text, full=True)
        case events.RunEnded() | events.RunFailed():  # printed elsewhere: summary and error
            pass
        case _:
            yield from map(_cut, event_view(event, full=False))


def _cut(part: RenderableType) -> RenderableType:
    text = part.renderable if isinstance(part, Padding) else part
    if isinstance(text, Text):
        text.no_wrap, text.overflow = True, "ellipsis"
    # A console copies a bare text without its no_wrap setting.
    return part if isinstance(part, Padding) else Padding(part, 0, expand=False)


def summary_line(trace: Trace, file: str | None) -> Text:
    """Render the status and usage of a run, and its trace file."""
    facts = [*numbers_of(trace), *([f"trace {file}"] if file else [])]
    return Text.assemble(status_label(trace), (terminal.visible("  " + " · ".join(facts)), "dim"))


class Activity:
    """What a run is currently waiting for."""

    def __init__(self, servers: Iterable[str], clock: Callable[[], float]) -> None:
        names = terminal.some_of(list(servers))
        self._clock = clock
        self._waiting: str | None = f"connecting to {names}" if names else "starting"
        self._since = clock()
        self._open: dict[str, events.ToolCalled] = {}
        self._progress: dict[str, str] = {}

    def handle(self, event: TraceEvent) -> None:
        """Update from an event."""
        match event:
            case events.ToolCalled():
                self._open[event.call_id] = event
            case events.ToolReturned():
                if called := self._open.pop(event.call_id, None):
                    self._progress.pop(called_label(called), None)
            case events.RunStarted() | events.Turn() | events.RunEnded():
                self._open.clear()
            case _:
                return
        self._waiting = None if isinstance(event, events.RunEnded) else self._reason()
        self._since = self._clock()

    def progress(self, where: str, text: str) -> None:
        """Update the progress of a call; `where` is `server/tool`."""
        self._progress[where] = text

    def _reason(self) -> str:
        if not self._open:
            return "waiting for the model"
        return f"calling {terminal.some_of(list(map(called_label, self._open.values())))}"

    def view(self) -> Text | None:
        """Render one line with a spinner; `None` if nothing is pending."""
        if self._waiting is None:
            return None
        elapsed = self._clock() - self._since
        more = ", ".join(self._progress.values())
        return Text.assemble(
            (f"{terminal.spinner_frame(elapsed)} ", "cyan"),
            terminal.visible_line(self._waiting),
            (terminal.visible(f" … {elapsed:.0f} s  {' '.join(more.split())}").rstrip(), "dim"),
            no_wrap=True,
            overflow="ellipsis",
        )


_PATIENCE_SECONDS = 0.3
"""Faster operations show no spinner."""


class RunScreen:
    """Shows the progress of a run on stderr; as plain lines if that is not a terminal.

    Events of a run contain secrets; they are redacted here.
    """

    def __init__(
        self, servers: Iterable[str], redact: Redactor, *, shown: bool, moving: bool
    ) -> None:
        """Show nothing unless `shown`, and a spinner only if `moving`."""
        self._console = terminal.console_for(sys.stderr)
        self._cleaner = Cleaner(redact)
        self._redact = redact
        self._shown = shown
        steady = not self._console.is_terminal or self._console.is_dumb_terminal
        self._moving = shown and moving and not steady and terminal.colour_allowed()
        self._activity = Activity(servers, time.monotonic)
        self._live: Live | None = None
        self._prompt_lock = asyncio.Lock()
        self._waiting: list[RenderableType] = []
        self._streamed = ""
        """The text of the current answer that is on the screen already."""

    @contextlib.asynccontextmanager
    async def spinning(self) -> AsyncGenerator[None]:
        """Show the spinner while a block runs."""
        try:
            async with (
                terminal.in_background(self._spin()) if self._moving else contextlib.nullcontext()
            ):
                yield
        finally:
            self._stop_spinner()

    def handle(self, event: TraceEvent) -> None:
        """Show an event."""
        self._activity.handle(event)
        if isinstance(event, events.Delta):
            self._stream(event)
            return
        if self._streamed and isinstance(event, events.Turn | events.ModelRetried):
            sys.stdout.write("\n")
            sys.stdout.flush()
        if isinstance(event, events.ModelRetried | events.ToolCalled):
            self._streamed = ""
        if not self._shown:
            return
        clean = event_from_line(line_from_event(event, self._cleaner))
        if clean is not None:
            self.show(*live_view(clean, streamed=bool(self._streamed)))

    def _stream(self, event: events.Delta) -> None:
        """Print a part of the answer on stdout, which is a terminal."""
        is_text = event.part == "text" and sys.stdout.isatty()
        if not is_text or not self._shown or self._prompt_lock.locked():
            return
        self._stop_spinner()
        self._streamed += event.text
        sys.stdout.write(terminal.visible(self._redact(event.text)))
        sys.stdout.flush()

    def line_of(self, event: TraceEvent) -> str:
        """Return an event as a line of JSON, without secrets."""
        return line_from_event(event, self._cleaner).decode()

    def has_streamed(self, text: str) -> bool:
        """Check whether a text is on the screen already."""
        return bool(text) and self._streamed.strip() == text.strip()

    def show(self, *parts: RenderableType) -> None:
        """Print lines; during a prompt they are held back."""
        if self._prompt_lock.locked():
            self._waiting += parts
            return
        for part in parts if self._shown else ():
            terminal.print_rich(part, err=True, console=self._console)

    def warn(self, text: str) -> None:
        """Print a warning, if `shown`."""
        if self._shown:
            self._stop_spinner()
            terminal.print_aside("warning", self._redact(text), colour="yellow")

    def progress(
        self, done: float, total: float | None, message: str | None, context: CallbackContext
    ) -> None:
        """Show the progress of a call."""
        where = f"{context.server_name}/{context.tool_name}"
        text = self._redact(terminal.progress_label(done, total, message))
        self._activity.progress(where, text)
        if self._shown and not self._moving and not self._prompt_lock.locked():
            terminal.print_aside("progress", f"{where} {text}", colour="blue")

    @contextlib.asynccontextmanager
    async def prompting(self) -> AsyncGenerator[None]:
        """Reserve the terminal for a prompt; events in the meantime are shown afterwards."""
        try:
            async with self._prompt_lock:
                self._stop_spinner()
                yield
        finally:
            parts, self._waiting = self._waiting, []
            self.show(*parts)

    async def _spin(self) -> None:
        await asyncio.sleep(_PATIENCE_SECONDS)
        while True:
            view = None if self._prompt_lock.locked() else self._activity.view()
            if view is None:
                self._stop_spinner()
            else:
                self._live = self._live or self._started()
                self._live.update(view, refresh=True)
            await asyncio.sleep(terminal.FRAME_SECONDS)

    def _started(self) -> Live:
        live = Live(
            console=self._console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        live.start()
        return live

    def _stop_spinner(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


RESULT_TOKENS: Final = 20_000
"""The default budget of one tool result, in tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """The task, model and options of a run."""

    messages: Sequence[Message]
    """The conversation, with the task as its last message."""
    choice: ModelChoice
    config: ClientConfig | None = None
    """The servers and their options; `None` is a run without tools."""
    settings: AgentConfig
    policy: object = None
    """Overrides the configured policy."""
    result_budget: object = None
    """Overrides the configured budget; `False` is no budget."""
    yes: bool = False

    @property
    def servers(self) -> Mapping[str, ServerConfig]:
        """The servers whose tools the agent has."""
        return dict[str, ServerConfig]() if self.config is None else self.config.servers


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The outcome of a run."""

    result: AgentResult
    trace: Trace
    status: Status
    stopped_by: Literal["SIGINT", "SIGTERM"] | None = None
    error: PlaitError | None = None


def plan_run(ctx: click.Context, task: str, options: Mapping[str, Any]) -> RunPlan:
    """Choose the model, and read the configuration and the policy of a run."""
    choice = _choose(options["model"], options["engine"], look_for_ollama=not options["no_ollama"])
    choice = replace(choice, config=with_model_options(choice.config, options))
    images = [read_image(path) for path in options["images"]]
    continued = options["continued"]
    before: list[Message] = []
    if continued is not None:
        path = continued or options["trace"]
        if path is None:
            raise click.BadParameter(
                "name the trace, here or with --trace", param_hint="--continue"
            )
        before = read_trace(path).conversation
    return RunPlan(
        messages=[*before, Message.user(task, images)],
        choice=choice,
        config=_configuration(ctx, options["servers"], choice),
        settings=AgentConfig(
            max_turns=options["max_turns"],
            system_prompt=options["system"],
            timeout=options["timeout_seconds"],
            question_hash=hash_question(task),
            trace=options["trace"],
            max_tokens_total=options["max_total_tokens"],
            max_cost_usd=options["max_cost"],
            stream=options["stream"],
        ),
        policy=None if options["policy"] is None else read_policy(options["policy"]),
        result_budget=options["result_budget"],
        yes=options["yes"],
    )


def _choose(model: str | None, engine: str | None, *, look_for_ollama: bool) -> ModelChoice:
    set_model = os.environ.get("PLAIT_MODEL", "").strip() or None
    reason = "requested" if model else "PLAIT_MODEL is set"
    request = ModelRequest(model=model or set_model, engine=engine, reason=reason)
    look = look_for_ollama and may_look_for_ollama(os.environ)
    return asyncio.run(choose_here(request, os.environ, look_for_ollama=look))


def _configuration(
    ctx: click.Context, servers: tuple[str, ...], choice: ModelChoice
) -> ClientConfig | None:
    if choice.config.interface == "manual":
        if servers:
            raise click.BadParameter("a recorded run calls no tools", param_hint="--server")
        return None
    if not servers and not session.has_configuration(ctx):
        return None
    return session.with_servers(session.read_configuration(ctx), servers)


def print_head(plan: RunPlan) -> None:
    """Print the model of a run, and whether it has no tools."""
    choice = plan.choice
    line = f"{choice.title} on {choice.config.interface} ({choice.reason})"
    print_aside("model", line, colour="cyan")
    for note in choice.notes:
        print_aside("note", note, colour="cyan")
    if not plan.servers and choice.config.interface != "manual":
        why = "no configuration" if plan.config is None else "no server in the configuration"
        print_aside("note", f"no tools: there is {why}", colour="cyan")


def screen_for(ctx: click.Context, plan: RunPlan, *, shown: bool) -> RunScreen:
    """Make the screen of a run, which redacts its secrets."""
    secrets = [secret for server in plan.servers.values() for secret in secret_values(server)]
    redact = Redactor([*secrets, *keys_in(os.environ), *plan.choice.config.secrets()])
    # Log lines would break the spinner.
    return RunScreen(plan.servers, redact, shown=shown, moving=settings_of(ctx).verbosity == 0)


def print_end(plan: RunPlan, outcome: RunOutcome, screen: RunScreen, *, as_json: bool) -> None:
    """Print the summary of a run, and its answer or JSON object."""
    trace = plan.settings.trace
    if outcome.trace.events:
        screen.show(summary_line(outcome.trace, None if trace is None else str(trace)))
    if as_json:
        sys.stdout.write(json.dumps(_object(plan, outcome), ensure_ascii=False, default=str) + "\n")
    elif screen.has_streamed(outcome.result.final_response):
        pass
    elif outcome.error is None and outcome.result.final_response != NO_RESPONSE:
        print_text(outcome.result.final_response)
    elif outcome.status == "completed":
        screen.warn("the model gave no answer")


def _object(plan: RunPlan, outcome: RunOutcome) -> dict[str, object]:
    result, config = outcome.result, plan.choice.config
    fields: dict[str, object] = {
        "event": "result",
        "final_response": result.final_response,
        "status": outcome.status,
        "stop_reason": result.stop_reason,
        "limit_reached": result.limit_reached,
        "timeout_reached": result.timeout_reached,
        "turns": result.turns,
        "usage": result.usage.to_dict(),
        "seconds": outcome.trace.seconds,
        "interface": config.interface,
        "model": config.model_name,
        "actual_model": result.actual_model,
        "session_id": result.session_id,
        "run": outcome.trace.run or None,
        "trace": plan.settings.trace,
        "trace_messages": messages_to_dicts(result.trace_messages),
    }
    return fields if outcome.error is None else {**fields, "error": outcome.error.to_dict()}


def run_agent(plan: RunPlan, screen: RunScreen, *, as_json: bool = False) -> RunOutcome:
    """Run an agent until it completes, fails, or is stopped; `as_json` prints its events."""
    agent = get_agent(plan.choice.config, auto_fallback=False)
    recorded: list[TraceEvent] = []
    signals: list[Literal["SIGINT", "SIGTERM"]] = []

    def handle(event: TraceEvent) -> None:
        recorded.append(event)
        if as_json:
            sys.stdout.write(screen.line_of(event))
            sys.stdout.flush()
        screen.handle(event)

    async def main() -> AgentResult:
        settings = replace(plan.settings, on_event=handle, tool_options=_callbacks(plan, screen))
        with _cancelled_by_signals(signals):
            try:
                async with screen.spinning():
                    return await agent.arun(plan.messages, None, client_config(plan), settings)
            finally:
                await agent.aclose()

    try:
        result = asyncio.run(main())
    except KeyboardInterrupt:
        return _outcome(recorded, "cancelled", stopped_by="SIGINT")
    except asyncio.CancelledError:
        if not signals:
            raise
        return _outcome(recorded, "cancelled", stopped_by=signals[0])
    except PlaitError as error:
        return _outcome(recorded, "failed", error=_plainer(error))
    status: Status = "failed" if result.status == "unfinished" else result.status
    return _outcome(recorded, status, result)


def _outcome(
    recorded: list[TraceEvent], status: Status, result: AgentResult | None = None, **ending: Any
) -> RunOutcome:
    trace = Trace(run=recorded[0].run if recorded else "", events=tuple(recorded))
    result = result or result_from_trace(trace)
    return RunOutcome(result=result, trace=trace, status=status, **ending)


def _plainer(error: PlaitError) -> PlaitError:
    """Return the connection error behind an engine error: it has better advice."""
    cause = error.__cause__
    return cause if isinstance(error, AgentServerError) and isinstance(cause, PlaitError) else error


@contextlib.contextmanager
def _cancelled_by_signals(signals: list[Literal["SIGINT", "SIGTERM"]]) -> Generator[None]:
    """Cancel the current task on Ctrl-C and SIGTERM; a second one ends the process at once.

    The second has the effect of a signal that is not handled, with its exit code. Everything that
    was shown is in the trace by then.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def stop(number: int, _frame: FrameType | None) -> None:
        if signals:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        signals.append("SIGINT" if number == signal.SIGINT else "SIGTERM")
        if task is not None:
            loop.call_soon_threadsafe(task.cancel)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def client_config(plan: RunPlan) -> ClientConfig | None:
    """Return the servers of a run with the options of the toolbox; those of the plan win."""
    if plan.config is None:
        return None
    servers = plan.servers
    if plan.result_budget is False:
        servers = {name: replace(server, result_budget=None) for name, server in servers.items()}
    options = {name: value for name, value in plan.config.options.items() if name in CLIENT_OPTIONS}
    overrides: dict[str, object] = {}
    if plan.result_budget is not None:
        overrides["result_budget"] = plan.result_budget
    elif "result_budget" not in options:
        overrides["result_budget"] = RESULT_TOKENS
    if plan.policy is not None:
        overrides["policy"] = plan.policy
    return replace(plan.config, servers=servers, options={**options, **read_options(overrides)})


def _callbacks(plan: RunPlan, screen: RunScreen) -> Mapping[str, Any]:
    if plan.config is None:
        return {}
    approval = TerminalApproval(yes=plan.yes)

    async def approve(request: ApprovalRequest) -> Approval:
        async with screen.prompting():
            return await approval(request)

    missing: set[str] = set()

    def continue_without(server: str, error: PlaitError) -> None:
        is_known = server in missing
        missing.add(server)
        if len(missing) == len(plan.servers):
            raise error
        if not is_known:
            screen.warn(f"continuing without {session.error_line(server, error)}")

    callbacks = {
        "on_approval": approve,
        "on_elicitation": partial(_asker, screen),
        "on_progress": screen.progress,
    }
    if "on_connection_error" in plan.config.options:
        return callbacks
    return {**callbacks, "on_connection_error": continue_without}


def _asker(screen: RunScreen, server: str) -> ElicitationFnT:
    questioner = Questioner(
        server=server, answers=None, read_text=reader_for(()), read_line=person_at_terminal()
    )

    async def ask(
        context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        async with screen.prompting():
            return await questioner(context, params)

    return ask
