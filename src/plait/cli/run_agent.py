"""One agent run of the command line: its servers and options, and its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

from mcp.client import ClientRequestContext
from mcp.client.session import ElicitationFnT
from mcp_types import ElicitRequestParams, ElicitResult, ErrorData

from plait.agents.choose_model import ModelChoice
from plait.agents.config import AgentConfig
from plait.agents.factory import get_agent
from plait.agents.port import AgentResult, result_from_trace
from plait.cli.approval import TerminalApproval
from plait.cli.arguments import reader_for
from plait.cli.questions import Questioner, person_at_terminal
from plait.cli.run_screen import RunScreen
from plait.cli.session import error_line
from plait.client.calls.approval import Approval, ApprovalRequest
from plait.client.config.read import ClientConfig, read_options
from plait.client.config.servers import ServerConfig
from plait.client.options import CLIENT_OPTIONS
from plait.errors import AgentServerError, PlaitError
from plait.traces.events import Status, TraceEvent
from plait.traces.messages.message import Message
from plait.traces.trace import Trace

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
    """The settings of the agent; tool options are added to them."""

    policy: object = None
    """Overrides the configured policy."""

    result_budget: object = None
    """Overrides the configured budget; `False` is no budget."""

    yes: bool = False
    """Whether to approve calls without a prompt."""

    @property
    def servers(self) -> Mapping[str, ServerConfig]:
        """The servers whose tools the agent has."""
        return dict[str, ServerConfig]() if self.config is None else self.config.servers


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The outcome of a run."""

    result: AgentResult
    """The result, partial if the run did not complete."""

    trace: Trace
    status: Status
    stopped_by: Literal["SIGINT", "SIGTERM"] | None = None
    error: PlaitError | None = None
    """The error of a failed run."""


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

    callbacks = {
        "on_approval": approve,
        "on_elicitation": partial(_asker, screen),
        "on_progress": screen.progress,
    }
    if "on_connection_error" in plan.config.options:
        return callbacks
    return {**callbacks, "on_connection_error": _Missing(len(plan.servers), screen)}


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


class _Missing:
    """Handles connection errors: a run continues as long as one server is left."""

    def __init__(self, servers: int, screen: RunScreen) -> None:
        self._servers = servers
        self._screen = screen
        self._missing: set[str] = set()

    def __call__(self, server: str, error: PlaitError) -> None:
        """Warn about a missing server, or raise if no server is left."""
        is_known = server in self._missing
        self._missing.add(server)
        if len(self._missing) == self._servers:
            raise error
        if not is_known:
            self._screen.warn(f"continuing without {error_line(server, error)}")
