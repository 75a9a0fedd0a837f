"""`plait run`: run an agent on a task with the tools of your servers."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from plait._support.suggestions import suggest_names
from plait.cli import session
from plait.cli.arguments import reader_for
from plait.cli.click_classes import ExampleCommand
from plait.cli.exits import Exit, exit_code_for
from plait.cli.options import json_option, settings_of, timeout_option
from plait.cli.terminal import print_aside, print_json, print_text
from plait.errors import ConfigError

if TYPE_CHECKING:
    from plait.agents.choose_model import ModelChoice
    from plait.cli.run_agent import RunOutcome, RunPlan
    from plait.cli.run_screen import RunScreen
    from plait.client.config.read import ClientConfig

_ENDINGS = {"limit": Exit.TURNS_USED_UP, "timeout": Exit.TIMEOUT}
_SIGNALS = {"SIGINT": Exit.INTERRUPTED, "SIGTERM": Exit.TERMINATED}


def _known_engine(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    from plait.agents.registry import REGISTRY

    known = REGISTRY.names()
    if value not in known:
        raise click.BadParameter(f"there is no engine {value!r}: {suggest_names(value, known)}")
    return value


def _budget(_: click.Context, __: click.Parameter, value: str | None) -> object:
    if value is None:
        return None
    from plait.client.config.read import read_options

    budget = False if value == "off" else int(value) if value.isdecimal() else value
    try:
        read_options({"result_budget": budget})
    except ConfigError as error:
        raise click.BadParameter(f"{error.problems[0].message}; or write off") from error
    return budget


class _Options(TypedDict):
    """The options of the command, as click passes them."""

    servers: tuple[str, ...]
    model: str | None
    engine: str | None
    max_turns: int
    timeout_seconds: float | None
    policy: str | None
    yes: bool
    system: str | None
    trace: str | None
    result_budget: object
    no_ollama: bool


@click.command(cls=ExampleCommand)
@click.argument("task")
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="NAME",
    help="Use this server only; may be repeated.",
)
@click.option(
    "--model",
    metavar="MODEL",
    help="PROVIDER:NAME, ollama:NAME, URL#NAME, scripted:FILE or manual:FILE; "
    "by default $PLAIT_MODEL, or the first model found.",
)
@click.option(
    "--engine",
    metavar="ENGINE",
    callback=_known_engine,
    help="langchain, claude_tool, claude_agent_sdk, openai_endpoint, openrouter or manual; "
    "by default the one that fits the model.",
)
@click.option(
    "--max-turns",
    type=click.IntRange(min=1),
    default=25,
    show_default=True,
    metavar="N",
    help="Maximum number of model turns.",
)
@timeout_option("Timeout of the run.")
@click.option("--policy", metavar="PATH", help="Use this policy instead of the configured one.")
@click.option("--yes", is_flag=True, help="Approve calls for which the policy requires approval.")
@click.option("--system", metavar="TEXT", help="System prompt.")
@click.option("--trace", metavar="FILE", help="Append the trace of the run to this file.")
@click.option(
    "--result-budget",
    metavar="SIZE",
    callback=_budget,
    help="Limit of one tool result: tokens, a size such as 200kB, or off; "
    "by default the configured one, or 20000.",
)
@click.option("--no-ollama", is_flag=True, help="Do not look for Ollama on this machine.")
@json_option
@click.pass_context
def run(ctx: click.Context, task: str, as_json: bool, **options: Unpack[_Options]) -> None:
    """Run an agent on a task with the tools of your servers.

    The task is one argument; "-" reads it from stdin. The answer goes to
    stdout, progress to stderr. Without a configuration the agent has no tools.

    The model is that of --model or $PLAIT_MODEL. Otherwise a key selects it
    (ANTHROPIC_API_KEY, OPENAI_API_KEY), then an endpoint on this machine
    (OPENAI_BASE_URL, Ollama). The first line shows the model and the reason.

    Calls that need approval by the policy are made if you confirm them on the
    terminal, or with --yes. Elicitation requests of servers prompt you on the
    terminal.

    Exits with code 10 at the turn limit and with 124 after a timeout; the
    partial answer is printed. Ctrl-C stops a run cleanly, too.

    With --json, stdout holds one JSON object, also if the run fails.

    Examples:
        plait run "What is new in this folder?"
        plait run "Pay the invoice" --server bank --policy policy.toml
        plait run "Sum up" --model anthropic:claude-haiku-5-5 --max-turns 5
        plait run "Sum up" --model ollama:llama3.2 --trace runs.jsonl
        plait run "Sum up" --model http://127.0.0.1:8080/v1#qwen3
        git diff | plait run - --system "Review this" -q > review.md
        plait run "How warm is it?" --model scripted:script.json --json
    """
    from plait.cli.run_agent import run_agent

    shown = not settings_of(ctx).quiet and not (as_json and not sys.stderr.isatty())
    text = _task(task)
    with session.json_errors(ctx, status="failed"):
        plan = _plan(ctx, text, options)
        if shown:
            _print_head(plan)
        screen = _screen(ctx, plan, shown=shown)
        outcome = run_agent(plan, screen)
    _print_end(plan, outcome, screen, as_json=as_json)
    if outcome.error is not None:
        if not as_json:
            raise outcome.error
        ctx.exit(exit_code_for(outcome.error))
    if outcome.stopped_by is not None:
        ctx.exit(_SIGNALS[outcome.stopped_by])
    ctx.exit(_ENDINGS.get(outcome.status, Exit.OK))


def _plan(ctx: click.Context, task: str, options: _Options) -> RunPlan:
    from plait.agents.config import AgentConfig
    from plait.cli.run_agent import RunPlan
    from plait.client.config.policy import read_policy
    from plait.traces.recorder import hash_question

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


def _task(task: str) -> str:
    try:
        text = reader_for([task])("-").strip() if task == "-" else task
    except UnicodeDecodeError as error:
        raise click.BadParameter("stdin is not UTF-8", param_hint="TASK") from error
    if not text.strip():
        raise click.BadParameter("the task is empty", param_hint="TASK")
    return text


def _choose(model: str | None, engine: str | None, *, look_for_ollama: bool) -> ModelChoice:
    from plait.agents.choose_model import ModelRequest, choose_here
    from plait.models.endpoints import may_look_for_ollama

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


def _print_head(plan: RunPlan) -> None:
    choice = plan.choice
    line = f"{choice.title} on {choice.config.interface} ({choice.reason})"
    print_aside("model", line, colour="cyan")
    for note in choice.notes:
        print_aside("note", note, colour="cyan")
    if not plan.servers and choice.config.interface != "manual":
        why = "no configuration" if plan.config is None else "no server in the configuration"
        print_aside("note", f"no tools: there is {why}", colour="cyan")


def _screen(ctx: click.Context, plan: RunPlan, *, shown: bool) -> RunScreen:
    from plait._support.redact import Redactor
    from plait.cli.run_screen import RunScreen
    from plait.client.config.secrets import secret_values
    from plait.models.providers import keys_in

    secrets = [secret for server in plan.servers.values() for secret in secret_values(server)]
    redact = Redactor([*secrets, *keys_in(os.environ), *plan.choice.config.secrets()])
    # Log lines would break the spinner.
    return RunScreen(plan.servers, redact, shown=shown, moving=settings_of(ctx).verbosity == 0)


def _print_end(plan: RunPlan, outcome: RunOutcome, screen: RunScreen, *, as_json: bool) -> None:
    from plait.cli.run_screen import summary_line
    from plait.traces.trace import NO_RESPONSE

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
    from plait.traces.messages.lists import messages_to_dicts

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
