"""`plait run`: run an agent on a task with the tools of your servers."""

from __future__ import annotations

import sys
from typing import Any

import click

from plait._support.suggestions import suggest_names
from plait.cli import session
from plait.cli.arguments import reader_for
from plait.cli.base import ExampleCommand, json_option, repeatable, settings_of, timeout_option
from plait.cli.exits import Exit, exit_code_for
from plait.client.config.read import read_options
from plait.errors import ConfigError

_ENDINGS = {
    "limit": Exit.TURNS_USED_UP,
    "timeout": Exit.TIMEOUT,
    "truncated": Exit.INCOMPLETE,
    "refused": Exit.INCOMPLETE,
}
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
    budget = False if value == "off" else int(value) if value.isdecimal() else value
    try:
        read_options({"result_budget": budget})
    except ConfigError as error:
        raise click.BadParameter(f"{error.problems[0].message}; or write off") from error
    return budget


@click.command(cls=ExampleCommand)
@click.argument("task")
@repeatable("--server", "servers", "NAME", "Use this server only")
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
@repeatable("--image", "images", "FILE", "Show this image to the model")
@click.option("--temperature", type=click.FloatRange(min=0), metavar="NUMBER", help="Temperature.")
@click.option(
    "--max-tokens", type=click.IntRange(min=1), metavar="N", help="Maximum tokens of one answer."
)
@click.option(
    "--thinking",
    type=click.IntRange(min=1),
    metavar="N",
    help="Tokens that a model of Anthropic may think.",
)
@click.option("--base-url", metavar="URL", help="URL of the model's API.")
@click.option(
    "--max-total-tokens",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum tokens of the whole run.",
)
@click.option(
    "--max-cost",
    type=click.FloatRange(min=0, min_open=True),
    metavar="USD",
    help="Maximum cost of the run in US dollars, if the price of the model is known.",
)
@click.option(
    "--continue",
    "continued",
    is_flag=False,
    flag_value="",
    metavar="[TRACE]",
    help="Continue the last run of this trace, by default that of --trace.",
)
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
def run(ctx: click.Context, task: str, as_json: bool, **options: Any) -> None:
    """Run an agent on a task with the tools of your servers.

    The task is one argument; "-" reads it from stdin. The answer goes to
    stdout, progress to stderr. Without a configuration the agent has no tools.

    The model is that of --model or $PLAIT_MODEL. Otherwise a key selects it
    (ANTHROPIC_API_KEY, OPENAI_API_KEY), then an endpoint on this machine
    (OPENAI_BASE_URL, Ollama). The first line shows the model and the reason.

    Calls that need approval by the policy are made if you confirm them on the
    terminal, or with --yes. Elicitation requests of servers prompt you on the
    terminal.

    Exits with code 10 at the turn limit, with 11 if the last answer was cut or
    refused, and with 124 after a timeout; the partial answer is printed.
    Ctrl-C stops a run cleanly, too.

    On a terminal the answer appears while the model writes it. Ctrl-C a second
    time stops at once.

    With --json, stdout holds one JSON object a line: the events of the run as
    they happen, and the result last, also if the run fails.

    Examples:
        plait run "What is new in this folder?"
        plait run "Pay the invoice" --server bank --policy policy.toml
        plait run "Sum up" --model anthropic:claude-haiku-5-5 --max-turns 5
        plait run "Sum up" --model ollama:llama3.2 --trace runs.jsonl
        plait run "Sum up" --model http://127.0.0.1:8080/v1#qwen3
        git diff | plait run - --system "Review this" -q > review.md
        plait run "How warm is it?" --model scripted:script.json --json
    """
    from plait.cli.run_agent import plan_run, print_end, print_head, run_agent, screen_for

    shown = not settings_of(ctx).quiet and not (as_json and not sys.stderr.isatty())
    text = _task(task)
    options["stream"] = as_json or (shown and sys.stdout.isatty())
    with session.json_errors(ctx, status="failed"):
        plan = plan_run(ctx, text, options)
        if shown:
            print_head(plan)
        screen = screen_for(ctx, plan, shown=shown)
        outcome = run_agent(plan, screen, as_json=as_json)
    print_end(plan, outcome, screen, as_json=as_json)
    if outcome.error is not None:
        if not as_json:
            raise outcome.error
        ctx.exit(exit_code_for(outcome.error))
    if outcome.stopped_by is not None:
        ctx.exit(_SIGNALS[outcome.stopped_by])
    ctx.exit(_ENDINGS.get(outcome.status, Exit.OK))


def _task(task: str) -> str:
    try:
        text = reader_for([task])("-").strip() if task == "-" else task
    except UnicodeDecodeError as error:
        raise click.BadParameter("stdin is not UTF-8", param_hint="TASK") from error
    if not text.strip():
        raise click.BadParameter("the task is empty", param_hint="TASK")
    return text
