"""One agent run of the command line: its model and options, its screen, and its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Literal

import click
from mcp_types import ElicitRequestParams, ElicitResult, ErrorData

from plait._support.redact import Redactor
from plait.agents.choose_model import ModelChoice, ModelRequest, choose_here
from plait.agents.config import AgentConfig
from plait.agents.factory import get_agent
from plait.agents.port import AgentPort, AgentResult, result_from_trace
from plait.cli import session
from plait.cli.arguments import reader_for
from plait.cli.base import settings_of
from plait.cli.conversations import newest_conversation, read_conversation
from plait.cli.exits import Exit, exit_code_for
from plait.cli.questions import Questioner, TerminalApproval, person_at_terminal
from plait.cli.run_options import read_image, with_model_options
from plait.cli.run_screen import RunScreen, summary_line
from plait.cli.terminal import print_aside, print_text
from plait.client.calls.approval import Approval, ApprovalRequest
from plait.client.config.policy import read_policy
from plait.client.config.read import ClientConfig, read_options
from plait.client.config.secrets import secret_values
from plait.client.config.servers import ServerConfig
from plait.client.options import CLIENT_OPTIONS
from plait.errors import AgentServerError, PlaitError
from plait.models.endpoints import may_look_for_ollama
from plait.models.providers import keys_in
from plait.traces.events import Status, TraceEvent
from plait.traces.messages.message import Message, messages_to_dicts
from plait.traces.recorder import hash_question
from plait.traces.trace import NO_RESPONSE, Trace

if TYPE_CHECKING:
    from plait.client.protocol.inbound import OnElicitation, RequestContext

SignalName = Literal["SIGINT", "SIGTERM"]

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
    stopped_by: SignalName | None = None
    error: PlaitError | None = None

    @property
    def exit_code(self) -> Exit:
        """The exit code of a command whose only run this is."""
        if self.error is not None:
            return exit_code_for(self.error)
        if self.stopped_by is not None:
            return _SIGNALS[self.stopped_by]
        return STATUS_EXITS.get(self.status, Exit.OK)


STATUS_EXITS: Final = {
    "limit": Exit.TURNS_USED_UP,
    "timeout": Exit.TIMEOUT,
    "truncated": Exit.INCOMPLETE,
    "refused": Exit.INCOMPLETE,
}
_SIGNALS: Final = {"SIGINT": Exit.INTERRUPTED, "SIGTERM": Exit.TERMINATED}


def plan_run(ctx: click.Context, task: str | None, options: Mapping[str, Any]) -> RunPlan:
    """Choose the model, and read the configuration and the policy of a run.

    Without a task the messages are those of the conversation that is continued.
    """
    choice = _choose(
        options["model"],
        options["engine"],
        options["base_url"],
        look_for_ollama=not options["no_ollama"],
    )
    choice = replace(choice, config=with_model_options(choice.config, options))
    continues, file = _continued(options["continued"], options["trace"])
    messages = [] if continues is None else continues.conversation
    if task is not None:
        images = [read_image(path) for path in options["images"]]
        messages.append(Message.user(task, images))
    return RunPlan(
        messages=messages,
        choice=choice,
        config=_configuration(ctx, options["servers"], choice),
        settings=AgentConfig(
            max_turns=options["max_turns"],
            system_prompt=options["system"],
            timeout=options["timeout_seconds"],
            question_hash=None if task is None else hash_question(task),
            trace=file,
            continues=continues,
            max_tokens_total=options["max_total_tokens"],
            max_cost_usd=options["max_cost"],
            stream=options["stream"],
        ),
        policy=None if options["policy"] is None else read_policy(options["policy"]),
        result_budget=options["result_budget"],
        yes=options["yes"],
    )


def _continued(named: str | None, file: str | None) -> tuple[Trace | None, str | None]:
    """Read the conversation to continue, if there is one, and return the file of its trace."""
    if named is None:
        return None, file
    path = named or file or str(newest_conversation())
    return read_conversation(path), file or path


def _choose(
    model: str | None, engine: str | None, base_url: str | None, *, look_for_ollama: bool
) -> ModelChoice:
    environ = dict(os.environ)
    if base_url is not None:
        environ |= {"OPENAI_BASE_URL": base_url, "ANTHROPIC_BASE_URL": base_url}
    set_model = os.environ.get("PLAIT_MODEL", "").strip() or None
    reason = "requested" if model else "PLAIT_MODEL is set"
    request = ModelRequest(model=model or set_model, engine=engine, reason=reason)
    look = look_for_ollama and may_look_for_ollama(os.environ)
    return asyncio.run(choose_here(request, environ, look_for_ollama=look))


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


def screen_for(ctx: click.Context, plan: RunPlan, *, shown: bool, brief: bool = False) -> RunScreen:
    """Make the screen of a run, which redacts its secrets."""
    secrets = [secret for server in plan.servers.values() for secret in secret_values(server)]
    redact = Redactor([*secrets, *keys_in(os.environ), *plan.choice.config.secrets()])
    # Log lines would break the spinner.
    moving = settings_of(ctx).verbosity == 0
    return RunScreen(plan.servers, redact, shown=shown, moving=moving, brief=brief)


def print_end(plan: RunPlan, outcome: RunOutcome, screen: RunScreen, *, as_json: bool) -> None:
    """Print the summary of a run, and its answer or JSON object."""
    trace = None if screen.is_brief else plan.settings.trace
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
    signals: list[SignalName] = []
    callbacks = tool_callbacks(plan, screen)
    plan = replace(plan, settings=replace(plan.settings, tool_options=callbacks))

    async def main() -> RunOutcome:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101  # this is a coroutine
        with stopped_by_signals(signals, lambda: loop.call_soon_threadsafe(task.cancel)):
            try:
                return await answer(agent, plan, screen, signals, as_json=as_json)
            finally:
                await agent.aclose()

    return asyncio.run(main())


async def answer(
    agent: AgentPort,
    plan: RunPlan,
    screen: RunScreen,
    signals: Sequence[SignalName],
    *,
    as_json: bool = False,
) -> RunOutcome:
    """Run the task of a plan; a failure, or a cancellation with a signal, is an outcome."""
    recorded: list[TraceEvent] = []

    def handle(event: TraceEvent) -> None:
        recorded.append(event)
        if as_json:
            sys.stdout.write(screen.line_of(event))
            sys.stdout.flush()
        screen.handle(event)

    settings = replace(plan.settings, on_event=handle)
    try:
        async with screen.spinning():
            result = await agent.arun(plan.messages, None, client_config(plan), settings)
    except (asyncio.CancelledError, KeyboardInterrupt):
        task = asyncio.current_task()
        if not signals or task is None:
            raise
        task.uncancel()
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
def stopped_by_signals(signals: list[SignalName], cancel: Callable[[], object]) -> Generator[None]:
    """Call `cancel` at the first Ctrl-C or SIGTERM; a second one ends the process at once.

    The second has the effect of a signal that is not handled, with its exit code. Everything that
    was shown is in the trace by then.
    """

    def stop(number: int, _frame: FrameType | None) -> None:
        if signals:
            end_by_signal(number)
        signals.append("SIGINT" if number == signal.SIGINT else "SIGTERM")
        cancel()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_by_signal(number: int) -> None:
    """End the process as a signal does that is not handled."""
    if sys.stderr.isatty():
        sys.stderr.write(_SHOW_CURSOR)
        sys.stderr.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


_SHOW_CURSOR: Final = "\x1b[?25h"
"""A spinner hides the cursor."""


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


def tool_callbacks(plan: RunPlan, screen: RunScreen) -> Mapping[str, Any]:
    """Return the options of the toolbox that prompt and inform on the terminal."""
    if plan.config is None:
        return {}
    approval = TerminalApproval(yes=plan.yes)

    async def approve(request: ApprovalRequest) -> Approval:
        async with screen.prompting():
            return await approval(request)

    warned: set[str] = set()

    def continue_without(server: str, error: PlaitError) -> None:
        screen.missing.add(server)
        if len(screen.missing) == len(plan.servers):
            raise error
        if server not in warned:
            warned.add(server)
            screen.warn(f"continuing without {session.error_line(server, error)}")

    callbacks = {
        "on_approval": approve,
        "on_elicitation": partial(_asker, screen),
        "on_progress": screen.progress,
    }
    if "on_connection_error" in plan.config.options:
        return callbacks
    return {**callbacks, "on_connection_error": continue_without}


def _asker(screen: RunScreen, server: str) -> OnElicitation:
    questioner = Questioner(
        server=server, answers=None, read_text=reader_for(()), read_line=person_at_terminal()
    )

    async def ask(context: RequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        async with screen.prompting():
            return await questioner(context, params)

    return ask
