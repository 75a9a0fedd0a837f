"""Plan, run and report agents for `plait run` and `plait chat`, and find earlier conversations."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial, reduce
from operator import add
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import click
from mcp_types import ElicitRequestParams, ElicitResult, ErrorData
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich.text import Text

from plait._support.redact import Redactor
from plait.agents.choose_model import ModelChoice, ModelRequest, choose_here
from plait.agents.config import AgentConfig, ModelConfig
from plait.agents.live_agent import LiveAgent
from plait.agents.port import (
    AgentPort,
    AgentResult,
    BatchOutcome,
    BatchTask,
    result_from_trace,
    run_batch,
)
from plait.agents.registry import get_agent
from plait.cli import session
from plait.cli.arguments import reader_for
from plait.cli.base import settings_of
from plait.cli.commands.run import read_image, with_model_options
from plait.cli.exits import SIGNAL_EXITS, Exit, SignalName, exit_code_for
from plait.cli.questions import Questioner, TerminalApproval, person_at_terminal
from plait.cli.terminal import print_aside, print_text, visible, visible_line
from plait.cli.trace_view import RunScreen, summary_line, usage_label
from plait.client.calls.approval import Approval, ApprovalRequest
from plait.client.config.policy import read_policy
from plait.client.config.raw_value import state_folder
from plait.client.config.read import ClientConfig, read_options
from plait.client.config.secrets import secret_values
from plait.client.config.servers import ServerConfig
from plait.client.inbox import Inbox, question_line
from plait.client.options import CLIENT_OPTIONS
from plait.errors import AgentServerError, ConfigError, PlaitError, TraceFormatError
from plait.html.pieces import count_label
from plait.models.endpoints import may_look_for_ollama
from plait.models.providers import keys_in
from plait.traces.events import Status, TraceEvent
from plait.traces.file import read_traces
from plait.traces.messages.message import Message, UsageMetadata, messages_to_dicts
from plait.traces.recorder import hash_question
from plait.traces.trace import NO_RESPONSE, Trace

if TYPE_CHECKING:
    from plait.client.protocol.session import OnElicitation, RequestContext

_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]+")


def conversations_folder() -> Path:
    """Return the folder of the conversations in the working folder."""
    here = Path.cwd()
    digest = hashlib.sha256(os.fsencode(here)).hexdigest()[:12]
    return state_folder() / "chats" / f"{_ILLEGAL.sub('_', here.name)[:40]}-{digest}"


def new_conversation() -> Path:
    """Return the file for a new conversation in the working folder; only the user can read it."""
    folder = conversations_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder / f"{datetime.now(UTC):%Y-%m-%dT%H%M%S}-{os.getpid()}.jsonl"


def newest_conversation() -> Path:
    """Return the file of the newest conversation in the working folder.

    Raises:
        TraceFormatError: There is none.
    """
    files = [(file.stat().st_mtime, file) for file in conversations_folder().glob("*.jsonl")]
    if not files:
        raise TraceFormatError(
            "there is no conversation in this folder to continue: name a trace, or use plait chat"
        )
    return max(files)[1]


def read_conversation(path: str | Path) -> Trace:
    """Read the last run of a file whose conversation can be continued.

    A run that failed before the model answered is not part of the conversation.

    Raises:
        TraceFormatError: The file is not a trace, or has no such run.
        OSError: The file cannot be read.
    """
    for trace in reversed(read_traces(path)):
        if is_continued(trace):
            return trace
    raise TraceFormatError(f"{path}: no run can be continued")


def is_continued(trace: Trace) -> bool:
    """Return whether a run is part of the conversation after it."""
    if trace.started is None or trace.started.omitted:
        return False
    return trace.status != "failed" or bool(trace.messages)


T = TypeVar("T")

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
            return SIGNAL_EXITS[self.stopped_by]
        return STATUS_EXITS.get(self.status, Exit.OK)


STATUS_EXITS: Final = {
    "limit": Exit.TURNS_USED_UP,
    "timeout": Exit.TIMEOUT,
    "truncated": Exit.INCOMPLETE,
    "refused": Exit.INCOMPLETE,
}


def plan_run(ctx: click.Context, task: str | None, options: Mapping[str, Any]) -> RunPlan:
    """Choose the model, and read the configuration and the policy of a run.

    Without a task the messages are those of the conversation that is continued.
    """
    environ = dict(os.environ)
    if (base_url := options["base_url"]) is not None:
        environ |= {"OPENAI_BASE_URL": base_url, "ANTHROPIC_BASE_URL": base_url}
    set_model = os.environ.get("PLAIT_MODEL", "").strip() or None
    request = ModelRequest(
        model=options["model"] or set_model,
        engine=options["engine"],
        reason="requested" if options["model"] else "PLAIT_MODEL is set",
    )
    look = not options["no_ollama"] and may_look_for_ollama(os.environ)
    choice = asyncio.run(choose_here(request, environ, look_for_ollama=look))
    choice = replace(choice, config=with_model_options(choice.config, options))
    asyncio.run(_check_model(choice.config))
    continues, file = None, options["trace"]
    if options["continued"] is not None:
        path = options["continued"] or file or str(newest_conversation())
        continues, file = read_conversation(path), file or path
    messages = [] if continues is None else continues.conversation
    if task is not None:
        images = [read_image(path) for path in options["images"]]
        messages.append(Message.user(task, images))
    config, servers = None, options["servers"]
    if choice.config.interface == "manual":
        if servers:
            raise click.BadParameter("a recorded run calls no tools", param_hint="--server")
    elif servers or session.has_configuration(ctx):
        config = session.with_servers(session.read_configuration(ctx), servers)
    return RunPlan(
        messages=messages,
        choice=choice,
        config=config,
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


async def _check_model(config: ModelConfig) -> None:
    """Make the model once, before any server is started: its key or its script may be missing."""
    get_agent(config, auto_fallback=False)  # says what to install for its engine
    if config.interface == "claude_tool":
        from plait.agents.engines.claude_tool.agent import anthropic_client

        await anthropic_client(config).close()
    elif config.interface in {"langchain", "openrouter", "openai_endpoint"}:
        from plait.agents.engines.langchain.chat_models import ChatModels

        models = ChatModels(config)
        try:
            models.make()
        except PlaitError:
            raise
        except ValueError as error:  # LangChain knows no such provider, or refuses a setting
            text = " ".join(str(error).split())
            raise ConfigError(f"{config.model_name}: {text}") from error
        finally:
            await models.aclose()


def begin(
    ctx: click.Context,
    task: str | None,
    options: dict[str, Any],
    *,
    as_json: bool,
    is_chat: bool = False,
    is_batch: bool = False,
) -> tuple[RunPlan, RunScreen]:
    """Plan a run, and print its model and whether it has no tools; return plan and screen."""
    shown = not settings_of(ctx).quiet and not (as_json and not sys.stderr.isatty())
    options["stream"] = not is_batch and (as_json or (shown and sys.stdout.isatty()))
    plan = plan_run(ctx, task, options)
    choice = plan.choice
    if shown:
        line = f"{choice.title} on {choice.config.interface} ({choice.reason})"
        print_aside("model", line, colour="cyan")
        for note in choice.notes:
            print_aside("note", note, colour="cyan")
        if not plan.servers and choice.config.interface != "manual":
            why = "no configuration" if plan.config is None else "no server in the configuration"
            print_aside("note", f"no tools: there is {why}", colour="cyan")
    secrets = [secret for server in plan.servers.values() for secret in secret_values(server)]
    redact = Redactor([*secrets, *keys_in(os.environ), *choice.config.secrets()])
    # Log lines would break the spinner.
    moving = settings_of(ctx).verbosity == 0
    return plan, RunScreen(plan.servers, redact, shown=shown, moving=moving, brief=is_chat)


def print_end(plan: RunPlan, outcome: RunOutcome, screen: RunScreen, *, as_json: bool) -> None:
    """Print the summary of a run, and its answer or JSON object."""
    trace = None if screen.is_brief else plan.settings.trace
    if outcome.trace.events:
        screen.show(summary_line(outcome.trace, None if trace is None else str(trace)))
    result, config = outcome.result, plan.choice.config
    if as_json:
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
        if outcome.error is not None:
            fields["error"] = outcome.error.to_dict()
        sys.stdout.write(json.dumps(fields, ensure_ascii=False, default=str) + "\n")
    elif screen.has_streamed(result.final_response):
        pass
    elif outcome.error is None and result.final_response != NO_RESPONSE:
        print_text(result.final_response)
    elif outcome.status == "completed":
        screen.warn("the model gave no answer")


def run_agent(plan: RunPlan, screen: RunScreen, *, as_json: bool = False) -> RunOutcome:
    """Run an agent until it completes, fails, or is stopped; `as_json` prints its events."""
    agent = get_agent(plan.choice.config, auto_fallback=False)
    signals: list[SignalName] = []
    callbacks = tool_callbacks(plan, screen, inbox_of(plan))
    plan = replace(plan, settings=replace(plan.settings, tool_options=callbacks))

    async def work() -> RunOutcome:
        return await answer(agent, plan, screen, signals, as_json=as_json)

    return asyncio.run(_until_stopped(agent, work, signals))


async def _until_stopped(
    agent: AgentPort, work: Callable[[], Awaitable[T]], signals: list[SignalName]
) -> T:
    """Run `work`, which a signal cancels, and close the agent."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101  # this is a coroutine
    with stopped_by_signals(signals, lambda: loop.call_soon_threadsafe(task.cancel)):
        try:
            return await work()
        finally:
            await agent.aclose()


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
        # The connection error behind an engine error has better advice.
        cause = error.__cause__
        is_wrapped = isinstance(error, AgentServerError) and isinstance(cause, PlaitError)
        return _outcome(recorded, "failed", error=cause if is_wrapped else error)
    status: Status = "failed" if result.status == "unfinished" else result.status
    return _outcome(recorded, status, result)


def _outcome(
    recorded: list[TraceEvent], status: Status, result: AgentResult | None = None, **ending: Any
) -> RunOutcome:
    trace = Trace(run=recorded[0].run if recorded else "", events=tuple(recorded))
    result = result or result_from_trace(trace)
    return RunOutcome(result=result, trace=trace, status=status, **ending)


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


def inbox_of(plan: RunPlan) -> Inbox:
    """Return what asks viewers for the calls and servers of a run."""
    servers = () if plan.config is None else plan.config.servers.values()
    known = [one for server in servers for one in secret_values(server)]
    return Inbox(f"plait: {question_line(plan.messages)}", known)


def tool_callbacks(plan: RunPlan, screen: RunScreen, inbox: Inbox) -> Mapping[str, Any]:
    """Return the options of the toolbox that prompt and inform on the terminal."""
    if plan.config is None:
        return {}
    approval = TerminalApproval(yes=plan.yes)
    has_terminal = person_at_terminal() is not None

    async def approve(request: ApprovalRequest) -> Approval:
        async def at_terminal() -> Approval:
            async with screen.prompting():
                return await approval(request)

        if plan.yes:
            return await at_terminal()
        if (remembered := inbox.remembered(request)) is not None:
            return remembered
        in_viewer = partial(inbox.approve, request)
        return await first_answer(at_terminal, in_viewer, has_terminal=has_terminal)

    warned: set[str] = set()

    def continue_without(server: str, error: PlaitError) -> None:
        screen.missing.add(server)
        if len(screen.missing) == len(plan.servers):
            raise error
        if server not in warned:
            warned.add(server)
            screen.warn(f"continuing without {session.error_line(server, error)}")

    def asker_for(server: str) -> OnElicitation:
        questioner = Questioner(
            server=server, answers=None, read_text=reader_for(()), read_line=person_at_terminal()
        )

        async def ask(
            context: RequestContext, params: ElicitRequestParams
        ) -> ElicitResult | ErrorData:
            async def at_terminal() -> ElicitResult | ErrorData:
                async with screen.prompting():
                    return await questioner(context, params)

            in_viewer = partial(inbox.elicit, server, params)
            return await first_answer(at_terminal, in_viewer, has_terminal=has_terminal)

        return ask

    callbacks = {
        "on_approval": approve,
        "on_elicitation": asker_for,
        "on_progress": screen.progress,
    }
    if "on_connection_error" in plan.config.options:
        return callbacks
    return {**callbacks, "on_connection_error": continue_without}


async def first_answer(
    at_terminal: Callable[[], Awaitable[T]],
    in_viewer: Callable[..., Awaitable[T | None]],
    *,
    has_terminal: bool,
) -> T:
    """Return the answer of the person: at the terminal, or in an open viewer, if there is one.

    Without a terminal, somebody must look at the viewer; the terminal then says that it has none.
    """
    if not has_terminal:
        answer = await in_viewer()
        return await at_terminal() if answer is None else answer
    viewer = asyncio.ensure_future(in_viewer(patient=True))
    terminal = asyncio.ensure_future(at_terminal())
    try:
        await asyncio.wait((viewer, terminal), return_when=asyncio.FIRST_COMPLETED)
        if not terminal.done() and (answer := viewer.result()) is not None:
            return answer
        return await terminal
    finally:
        viewer.cancel()
        terminal.cancel()
        await asyncio.wait((viewer, terminal))


class _Task(BaseModel):
    """A line of a file of tasks."""

    model_config = ConfigDict(extra="forbid", strict=True)

    task: str = Field(pattern=r"\S")
    id: int | Annotated[str, Field(pattern=r"\S")] | None = None
    system: str | None = None
    images: list[str] = []


def read_tasks(file: str) -> list[BatchTask]:
    """Read a file of tasks: each line is a JSON text, or an object with `task`.

    Raises:
        BadParameter: Lines are wrong; all of them are named.
    """
    problems: list[str] = []
    tasks: dict[str, BatchTask] = {}
    for number, line in enumerate(Path(file).read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            value: object = json.loads(line)
            data = _Task.model_validate({"task": value} if isinstance(value, str) else value)
            images = [read_image(str(Path(file).parent / path)) for path in data.images]
            prompt = [] if data.system is None else [Message.system(data.system)]
            name = f"{number:04d}" if data.id is None else str(data.id)
            task = BatchTask(id=name, messages=[*prompt, Message.user(data.task, images)])
            if task.id in tasks:
                raise ValueError(f"the id {task.id!r} is used before")
            tasks[task.id] = task
        except ValidationError as error:
            faults = ((".".join(map(str, one["loc"])), one["msg"]) for one in error.errors())
            text = "; ".join(f"{where}: {what}" if where else what for where, what in faults)
            problems.append(f"{file}, line {number}: {text}")
        except (ValueError, OSError, click.BadParameter) as error:
            problems.append(f"{file}, line {number}: {getattr(error, 'message', error)}")
    if not tasks and not problems:
        problems.append(f"{file} has no task")
    if problems:
        raise click.BadParameter("\n".join(problems), param_hint="--tasks")
    return list(tasks.values())


def run_tasks(
    plan: RunPlan,
    tasks: Sequence[BatchTask],
    screen: RunScreen,
    *,
    jobs: int,
    traces: Path,
    as_json: bool,
) -> Exit:
    """Run the tasks, print each outcome when it is there, and return the exit code."""
    agent = get_agent(plan.choice.config, auto_fallback=False)
    signals: list[SignalName] = []
    settings = replace(plan.settings, tool_options=tool_callbacks(plan, screen, inbox_of(plan)))
    servers = client_config(plan)
    outcomes: list[BatchOutcome] = []

    def show(outcome: BatchOutcome) -> None:
        outcomes.append(outcome)
        _print_outcome(outcome, screen, as_json=as_json)

    async def work() -> None:
        async with contextlib.AsyncExitStack() as stack:
            if isinstance(agent, LiveAgent):
                await stack.enter_async_context(agent.keep_servers(servers, settings))
            await run_batch(
                agent,
                tasks,
                None,
                servers,
                settings,
                max_concurrency=jobs,
                traces=traces,
                on_outcome=show,
            )

    try:
        asyncio.run(_until_stopped(agent, work, signals))
    except asyncio.CancelledError:
        if not signals:
            raise
    done = sum(_status(outcome) == "completed" for outcome in outcomes)
    earlier = sum(outcome.resumed for outcome in outcomes)
    new = [one.result.usage for one in outcomes if one.result and not one.resumed]
    usage = reduce(add, new, UsageMetadata(cost_usd=0.0))
    if any(one.cost_usd is None for one in new):
        usage = replace(usage, cost_usd=None)
    facts = (
        f"{done} of {count_label(len(tasks), 'task')} completed",
        f"{earlier} in an earlier run" if earlier else "",
        usage_label(usage),
        f"traces {traces}",
    )
    screen.show(Text(visible(" · ".join(fact for fact in facts if fact)), "dim"))
    if signals:
        return SIGNAL_EXITS[signals[0]]
    by_id = {outcome.id: outcome for outcome in outcomes}
    codes = (exit_code_of(by_id[task.id]) for task in tasks)
    return next((code for code in codes if code is not Exit.OK), Exit.OK)


def exit_code_of(outcome: BatchOutcome) -> Exit:
    """Return the exit code for the outcome of a task."""
    if outcome.error is not None:
        return exit_code_for(outcome.error)
    return STATUS_EXITS.get(_status(outcome), Exit.OK)


def _status(outcome: BatchOutcome) -> str:
    return "failed" if outcome.result is None else outcome.result.status


def _print_outcome(outcome: BatchOutcome, screen: RunScreen, *, as_json: bool) -> None:
    result = outcome.result
    if as_json:
        fields: dict[str, object] = {
            "id": outcome.id,
            "status": _status(outcome),
            "resumed": outcome.resumed,
            "trace": outcome.trace,
        }
        if result is not None:
            fields |= {
                "final_response": result.final_response,
                "stop_reason": result.stop_reason,
                "turns": result.turns,
                "usage": result.usage.to_dict(),
                "actual_model": result.actual_model,
            }
        if outcome.error is not None:
            fields["error"] = outcome.error.to_dict()
        line = json.dumps(fields, ensure_ascii=False, default=str)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        return
    text = str(outcome.error) if result is None else result.final_response
    print_text(f"{outcome.id}\t{' '.join(text.split())}")
    facts = [_status(outcome), *(["from an earlier run"] if outcome.resumed else [])]
    if result is not None:
        facts += [count_label(result.turns, "turn"), usage_label(result.usage)]
    line = " · ".join(fact for fact in facts if fact)
    screen.show(Text.assemble((visible_line(outcome.id), "bold"), ("  " + visible(line), "dim")))
