"""`plait run` and `plait chat`: an agent that has the tools of your servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from plait.cli import session
from plait.cli.arguments import reader_for
from plait.cli.base import ExampleCommand, json_option
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
    from plait.cli.run_agent import begin, print_end, read_tasks, run_agent, run_tasks

    if (file := options["tasks"]) is not None:
        unused = {"TASK": task, "--trace": options["trace"], "--continue": options["continued"]}
        for name, value in {**unused, "--image": options["images"] or None}.items():
            if value is not None:
                raise click.BadParameter(f"leave {name} out", param_hint="--tasks")
        tasks, traces = read_tasks(file), Path(options["traces"] or f"{file}.runs")
        with session.json_errors(ctx, status="failed"):
            plan, screen = begin(ctx, None, options, as_json=as_json, is_batch=True)
            jobs = options["jobs"]
            code = run_tasks(plan, tasks, screen, jobs=jobs, traces=traces, as_json=as_json)
        ctx.exit(code)
    if task is None and options["continued"] and not Path(options["continued"]).is_file():
        # Of `--continue TASK`, click takes the task for the trace.
        task, options["continued"] = options["continued"], ""
    if task is None:
        raise click.MissingParameter(param_hint="TASK", param_type="argument")
    try:
        text = reader_for([task])("-").strip() if task == "-" else task
    except UnicodeDecodeError as error:
        raise click.BadParameter("stdin is not UTF-8", param_hint="TASK") from error
    if not text.strip():
        raise click.BadParameter("the task is empty", param_hint="TASK")
    with session.json_errors(ctx, status="failed"):
        plan, screen = begin(ctx, text, options, as_json=as_json)
        outcome = run_agent(plan, screen, as_json=as_json)
    print_end(plan, outcome, screen, as_json=as_json)
    if outcome.error is not None and not as_json:
        raise outcome.error
    ctx.exit(outcome.exit_code)


@click.command(cls=ExampleCommand)
@agent_options
@click.option("--no-trace", is_flag=True, help="Keep no trace of the conversation.")
@json_option
@click.pass_context
def chat(ctx: click.Context, as_json: bool, **options: Any) -> None:
    r"""Converse with an agent that has the tools of your servers.

    Each line is a message; the agent knows what came before, and its servers
    stay open. Model, tools, policy and limits are those of "plait run". Answers
    go to stdout, everything else to stderr. Messages may be piped in, too.

    /tools, /servers and /trace show what the agent has and did; /help lists all
    commands. Ctrl-C stops an answer and keeps the conversation, twice ends the
    program; Ctrl-D or /exit ends the conversation.

    The trace is kept for --continue: in the file of --trace, or in a file of
    its own in $XDG_STATE_HOME/plait/chats.

    Examples:
        plait chat
        plait chat --continue          the last conversation in this folder
        plait chat --model ollama:llama3.2 --server files
        plait chat --model claude-haiku-5-5 --max-cost 0.50 --image plan.png
        printf 'Hello\nAnd now?\n' | plait chat -q
    """
    from plait.cli.chat import run_chat
    from plait.cli.conversations import new_conversation
    from plait.cli.run_agent import begin

    if options["no_trace"] and options["trace"] is not None:
        raise click.BadParameter("leave one of --trace and --no-trace out", param_hint="--no-trace")
    keeps = not options["no_trace"] and options["continued"] is None and not options["trace"]
    with session.json_errors(ctx, status="failed"):
        if keeps:
            options["trace"] = str(new_conversation())
        plan, screen = begin(ctx, None, options, as_json=as_json, is_chat=True)
        code = run_chat(ctx, plan, screen, as_json=as_json)
    ctx.exit(code)
