"""`plait run`: have an agent do a task with the tools of your servers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from plait.cli.click_classes import ExampleCommand
from plait.cli.exits import Exit, exit_code_for
from plait.cli.options import common_options, json_option, settings_of

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
    from plait.cli.suggestions import did_you_mean

    known = REGISTRY.names()
    if value not in known:
        raise click.BadParameter(f"there is no engine {value!r}: {did_you_mean(value, known)}")
    return value


def _budget(_: click.Context, __: click.Parameter, value: str | None) -> object:
    if value is None:
        return None
    from plait.client.config.read import read_options
    from plait.errors import ConfigError

    wanted = False if value == "off" else int(value) if value.isdecimal() else value
    try:
        read_options({"result_budget": wanted})
    except ConfigError as error:
        raise click.BadParameter(f"{error.problems[0].message}; or write off") from error
    return wanted


@click.command(
    cls=ExampleCommand,
    examples="""
    plait run "What is new in this folder?"
    plait run "Pay the invoice" --server bank --policy policy.toml
    plait run "Sum up" --model anthropic:claude-haiku-5-5 --max-turns 5
    plait run "Sum up" --model ollama:llama3.2 --trace runs.jsonl
    plait run "Sum up" --model http://127.0.0.1:8080/v1#qwen3
    git diff | plait run - --system "Review this" -q > review.md
    plait run "How warm is it?" --model scripted:script.json --json
    """,
)
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
    "by default $PLAIT_MODEL, or what is found.",
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
    help="How often the model may answer.",
)
@click.option(
    "--timeout",
    "timeout_seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="How long the run may take.",
)
@click.option("--policy", metavar="PATH", help="Another policy than the configuration's.")
@click.option("--yes", is_flag=True, help="Approve calls that the policy asks about.")
@click.option("--system", metavar="TEXT", help="What the model is told beforehand.")
@click.option("--trace", metavar="FILE", help="Add the trace of the run to this file.")
@click.option(
    "--result-budget",
    metavar="SIZE",
    callback=_budget,
    help="What the model reads of one result: tokens, a size such as 200kB, or off; "
    "by default the configuration's, or 20000.",
)
@click.option("--no-ollama", is_flag=True, help="Do not look for Ollama on this machine.")
@json_option
@common_options
@click.pass_context
def run(
    ctx: click.Context,
    task: str,
    servers: tuple[str, ...],
    model: str | None,
    engine: str | None,
    max_turns: int,
    timeout_seconds: float | None,
    policy: str | None,
    yes: bool,
    system: str | None,
    trace: str | None,
    result_budget: object,
    no_ollama: bool,
    as_json: bool,
) -> None:
    """Have an agent do a task with the tools of your servers.

    The task is one argument; "-" reads it from stdin. The answer goes to
    stdout, and how the agent comes to it to stderr, step by step. Without a
    configuration the agent has no tools.

    The model is the one that --model or $PLAIT_MODEL names. Otherwise a key
    decides (ANTHROPIC_API_KEY, OPENAI_API_KEY), then an endpoint on this machine
    (OPENAI_BASE_URL, Ollama). The first line says which one it is, and why.

    What the policy asks about is called when you say so on the terminal, or with
    --yes. Questions of servers are put to you on the terminal.

    A run that is out of turns ends with code 10, one that is out of time with
    124; what was said so far is printed. Ctrl-C ends a run in order, too.

    With --json stdout holds one JSON object, also when the run fails.
    """
    from plait.agents.config import AgentConfig
    from plait.cli.run_agent import RunPlan, run_agent
    from plait.cli.terminal import print_json
    from plait.errors import PlaitError
    from plait.traces.recorder import hash_question

    shown = not settings_of(ctx).quiet and not (as_json and not sys.stderr.isatty())
    text = _task(task)
    try:
        choice = _choose(model, engine, look_for_ollama=not no_ollama)
        plan = RunPlan(
            task=text,
            choice=choice,
            config=_configuration(ctx, servers, choice),
            settings=AgentConfig(
                max_turns=max_turns,
                system_prompt=system,
                timeout=timeout_seconds,
                question_hash=hash_question(text),
                trace=trace,
            ),
            policy=_policy(policy),
            result_budget=result_budget,
            yes=yes,
        )
        if shown:
            _print_head(plan)
        screen = _screen(ctx, plan, shown=shown)
        outcome = run_agent(plan, screen)
    except PlaitError as error:
        if not as_json:
            raise
        print_json({"status": "failed", "error": error.to_dict()})
        ctx.exit(exit_code_for(error))
    _print_end(plan, outcome, screen, as_json=as_json)
    if outcome.error is not None:
        if not as_json:
            raise outcome.error
        ctx.exit(exit_code_for(outcome.error))
    if outcome.stopped_by is not None:
        ctx.exit(_SIGNALS[outcome.stopped_by])
    ctx.exit(_ENDINGS.get(outcome.status, Exit.OK))


def _task(task: str) -> str:
    from plait.cli.arguments import reader_for

    try:
        text = reader_for([task])("-").strip() if task == "-" else task
    except UnicodeDecodeError as error:
        raise click.BadParameter("stdin is not UTF-8", param_hint="TASK") from error
    if not text.strip():
        raise click.BadParameter("there is nothing to do: say what", param_hint="TASK")
    return text


def _choose(model: str | None, engine: str | None, *, look_for_ollama: bool) -> ModelChoice:
    import asyncio
    import os

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
    from plait.cli import session

    if choice.config.interface == "manual":
        if servers:
            raise click.BadParameter("recorded answers call no tools", param_hint="--server")
        return None
    if not servers and not session.has_configuration(ctx):
        return None
    return session.with_servers(session.read_configuration(ctx), servers)


def _policy(file: str | None) -> object:
    if file is None:
        return None
    from plait.client.config.policy_file import read_policy

    return read_policy(file)


def _print_head(plan: RunPlan) -> None:
    from plait.cli.terminal import print_aside

    choice = plan.choice
    line = f"{choice.title} on {choice.config.interface} ({choice.reason})"
    print_aside("model", line, colour="cyan")
    for note in choice.notes:
        print_aside("note", note, colour="cyan")
    if not plan.servers and choice.config.interface != "manual":
        why = "no configuration" if plan.config is None else "no server in the configuration"
        print_aside("note", f"there is {why}, so there are no tools", colour="cyan")


def _screen(ctx: click.Context, plan: RunPlan, *, shown: bool) -> RunScreen:
    import os

    from plait._support.redact import Redactor
    from plait.cli.run_screen import RunScreen
    from plait.client.config.secrets import secret_values
    from plait.models.providers import keys_in

    secrets = [secret for server in plan.servers.values() for secret in secret_values(server)]
    redact = Redactor([*secrets, *keys_in(os.environ), *plan.choice.config.secrets()])
    # A log would be written into the line of the wheel.
    return RunScreen(plan.servers, redact, shown=shown, moving=settings_of(ctx).verbosity == 0)


def _print_end(plan: RunPlan, outcome: RunOutcome, screen: RunScreen, *, as_json: bool) -> None:
    from plait.cli.run_screen import summary_line
    from plait.cli.terminal import print_json, print_text
    from plait.traces.trace import NO_RESPONSE

    trace = plan.settings.trace
    if outcome.trace.events:
        screen.show(summary_line(outcome.trace, None if trace is None else str(trace)))
    if as_json:
        print_json(_object(plan, outcome))
    elif outcome.error is None and outcome.result.final_response != NO_RESPONSE:
        print_text(outcome.result.final_response)
    elif outcome.status == "completed":
        screen.warn("the model ended without an answer")


def _object(plan: RunPlan, outcome: RunOutcome) -> dict[str, object]:
    from plait.traces.messages.lists import messages_to_dicts

    result, config = outcome.result, plan.choice.config
    told: dict[str, object] = {
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
    return told if outcome.error is None else {**told, "error": outcome.error.to_dict()}
