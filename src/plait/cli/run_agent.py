"""One agent run of the command line: its model, servers and options, and its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

import click
from mcp.client import ClientRequestContext
from mcp.client.session import ElicitationFnT
from mcp_types import ElicitRequestParams, ElicitResult, ErrorData

from plait._support.redact import Redactor
from plait.agents.choose_model import ModelChoice, ModelRequest, choose_here
from plait.agents.config import AgentConfig
from plait.agents.factory import get_agent
from plait.agents.port import AgentResult, result_from_trace
from plait.cli import session
from plait.cli.arguments import reader_for
from plait.cli.base import settings_of
from plait.cli.questions import Questioner, TerminalApproval, person_at_terminal
from plait.cli.run_screen import RunScreen, summary_line
from plait.cli.terminal import print_aside, print_json, print_text
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

RESULT_TOKENS: Final = 20_000
"""The default budget of one tool result, in tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """The task, model and options of a run."""

    task: str
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
    return RunPlan(
        task=task,
        choice=choice,
        config=_configuration(ctx, options["servers"], choice),
        settings=AgentConfig(
            max_turns=options["max_turns"],
            system_prompt=options["system"],
            timeout=options["timeout_seconds"],
            question_hash=hash_question(task),
            trace=options["trace"],
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
        print_json(_object(plan, outcome))
    elif outcome.error is None and outcome.result.final_response != NO_RESPONSE:
        print_text(outcome.result.final_response)
    elif outcome.status == "completed":
        screen.warn("the model gave no answer")


def _object(plan: RunPlan, outcome: RunOutcome) -> dict[str, object]:
    result, config = outcome.result, plan.choice.config
    fields: dict[str, object] = {
        "final_response": result.final_response,
        "status": outcome.status,
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


def run_agent(plan: RunPlan, screen: RunScreen) -> RunOutcome:
    """Run an agent until it completes, fails, or is stopped."""
    agent = get_agent(plan.choice.config, auto_fallback=False)
    events: list[TraceEvent] = []
    signals: list[Literal["SIGTERM"]] = []

    def handle(event: TraceEvent) -> None:
        events.append(event)
        screen.handle(event)

    async def main() -> AgentResult:
        settings = replace(plan.settings, on_event=handle, tool_options=_callbacks(plan, screen))
        with _cancelled_by_sigterm(signals):
            try:
                async with screen.spinning():
                    return await agent.arun(
                        [Message.user(plan.task)], None, client_config(plan), settings
                    )
            finally:
                await agent.aclose()

    try:
        result = asyncio.run(main())
    except KeyboardInterrupt:
        return _outcome(events, "cancelled", stopped_by="SIGINT")
    except asyncio.CancelledError:
        if not signals:
            raise
        return _outcome(events, "cancelled", stopped_by="SIGTERM")
    except PlaitError as error:
        return _outcome(events, "failed", error=_plainer(error))
    status: Status = "timeout" if result.timeout_reached else "completed"
    return _outcome(events, "limit" if result.limit_reached else status, result)


def _outcome(
    events: list[TraceEvent],
    status: Status,
    result: AgentResult | None = None,
    *,
    stopped_by: Literal["SIGINT", "SIGTERM"] | None = None,
    error: PlaitError | None = None,
) -> RunOutcome:
    trace = Trace(run=events[0].run if events else "", events=tuple(events))
    result = result or result_from_trace(trace)
    return RunOutcome(result=result, trace=trace, status=status, stopped_by=stopped_by, error=error)


def _plainer(error: PlaitError) -> PlaitError:
    """Return the connection error behind an engine error: it has better advice."""
    cause = error.__cause__
    return cause if isinstance(error, AgentServerError) and isinstance(cause, PlaitError) else error


@contextlib.contextmanager
def _cancelled_by_sigterm(signals: list[Literal["SIGTERM"]]) -> Generator[None]:
    """Cancel the current task on SIGTERM, as Ctrl-C does, so that the run ends cleanly."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()

    def stop() -> None:
        signals.append("SIGTERM")
        if task is not None:
            task.cancel()

    # Not supported on Windows and outside of the main thread.
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        yield
    finally:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.remove_signal_handler(signal.SIGTERM)


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
