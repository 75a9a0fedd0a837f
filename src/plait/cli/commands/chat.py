"""`plait chat`: converse with an agent that has the tools of your servers."""

from __future__ import annotations

import sys
from typing import Any

import click

from plait.cli import session
from plait.cli.base import ExampleCommand, json_option, settings_of
from plait.cli.run_options import agent_options


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
    from plait.cli.run_agent import plan_run, print_head, screen_for

    if options["no_trace"] and options["trace"] is not None:
        raise click.BadParameter("leave one of --trace and --no-trace out", param_hint="--no-trace")
    shown = not settings_of(ctx).quiet and not (as_json and not sys.stderr.isatty())
    options["stream"] = as_json or (shown and sys.stdout.isatty())
    keeps = not options["no_trace"] and options["continued"] is None and not options["trace"]
    with session.json_errors(ctx, status="failed"):
        if keeps:
            options["trace"] = str(new_conversation())
        plan = plan_run(ctx, None, options)
        if shown:
            print_head(plan)
        screen = screen_for(ctx, plan, shown=shown, brief=True)
        code = run_chat(ctx, plan, screen, as_json=as_json)
    ctx.exit(code)
