"""`plait run`: run an agent on a task with the tools of your servers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from plait.cli import session
from plait.cli.arguments import reader_for
from plait.cli.base import ExampleCommand, json_option, settings_of
from plait.cli.run_options import agent_options


@click.command(cls=ExampleCommand)
@click.argument("task", required=False)
@agent_options
@click.option(
    "--tasks",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Run the tasks of this file, one a line: a JSON text, or an object with task, id, system "
    "and images.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    metavar="N",
    help="How many tasks of --tasks run at the same time.",
)
@click.option(
    "--traces",
    metavar="FOLDER",
    help="Folder of the traces of --tasks, by default FILE.runs; what is done there is not "
    "repeated.",
)
@json_option
@click.pass_context
def run(ctx: click.Context, task: str | None, as_json: bool, **options: Any) -> None:
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

    With --tasks, many tasks run at the same time, each with a trace of its own;
    those that are done are not repeated. The exit code is that of the first
    task that did not end well.

    Examples:
        plait run "What is new in this folder?"
        plait run "Pay the invoice" --server bank --policy policy.toml
        plait run "Sum up" --model anthropic:claude-haiku-5-5 --max-turns 5
        plait run "Sum up" --model ollama:llama3.2 --trace runs.jsonl
        plait run "Sum up" --model http://127.0.0.1:8080/v1#qwen3
        plait run --tasks tasks.jsonl --jobs 8 --json > results.jsonl
        git diff | plait run - --system "Review this" -q > review.md
        plait run "How warm is it?" --model scripted:script.json --json
    """
    from plait.cli.run_agent import plan_run, print_end, print_head, run_agent, screen_for

    if options["tasks"] is not None:
        _run_file(ctx, task, options, as_json=as_json)
        return
    shown = not settings_of(ctx).quiet and not (as_json and not sys.stderr.isatty())
    if task is None and options["continued"] and not Path(options["continued"]).is_file():
        # Of `--continue TASK`, click takes the task for the trace.
        task, options["continued"] = options["continued"], ""
    text = _task(task)
    options["stream"] = as_json or (shown and sys.stdout.isatty())
    with session.json_errors(ctx, status="failed"):
        plan = plan_run(ctx, text, options)
        if shown:
            print_head(plan)
        screen = screen_for(ctx, plan, shown=shown)
        outcome = run_agent(plan, screen, as_json=as_json)
    print_end(plan, outcome, screen, as_json=as_json)
    if outcome.error is not None and not as_json:
        raise outcome.error
    ctx.exit(outcome.exit_code)


def _run_file(
    ctx: click.Context, task: str | None, options: dict[str, Any], *, as_json: bool
) -> None:
    from plait.cli.run_agent import plan_run, print_head, screen_for
    from plait.cli.run_tasks import read_tasks, run_tasks

    unused = {"TASK": task, "--trace": options["trace"], "--continue": options["continued"]}
    for name, value in {**unused, "--image": options["images"] or None}.items():
        if value is not None:
            raise click.BadParameter(f"leave {name} out", param_hint="--tasks")
    file = options["tasks"]
    tasks = read_tasks(file)
    shown = not settings_of(ctx).quiet and not (as_json and not sys.stderr.isatty())
    with session.json_errors(ctx, status="failed"):
        plan = plan_run(ctx, None, {**options, "stream": False})
        if shown:
            print_head(plan)
        screen = screen_for(ctx, plan, shown=shown)
        traces = Path(options["traces"] or f"{file}.runs")
        jobs = options["jobs"]
        code = run_tasks(plan, tasks, screen, jobs=jobs, traces=traces, as_json=as_json)
    ctx.exit(code)


def _task(task: str | None) -> str:
    if task is None:
        raise click.MissingParameter(param_hint="TASK", param_type="argument")
    try:
        text = reader_for([task])("-").strip() if task == "-" else task
    except UnicodeDecodeError as error:
        raise click.BadParameter("stdin is not UTF-8", param_hint="TASK") from error
    if not text.strip():
        raise click.BadParameter("the task is empty", param_hint="TASK")
    return text
