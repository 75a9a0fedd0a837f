"""The command line: parse, call one function, print."""

from __future__ import annotations

import click

from plait._version import __version__
from plait.cli.base import LazyCommand, LazyGroup
from plait.cli.terminal import colour_allowed

GROUPS = {
    "Start": {
        "demo": LazyCommand(
            "demo", "Kill servers of two clients, and see which one goes on (15 seconds)."
        ),
        "init": LazyCommand("init", "Write an mcp.json: a starter, or the servers of your editor."),
        "doctor": LazyCommand("doctor", "Check every server, and show how to fix problems."),
    },
    "Servers": {
        "servers": LazyCommand("lists", "Connect to every server and show its status."),
        "tools": LazyCommand("lists", "List the tools of the servers."),
        "call": LazyCommand("call", "Call a tool and print its result."),
        "resources": LazyCommand("lists", "List the resources and templates of the servers."),
        "read": LazyCommand("lists", "Read one resource and print it."),
        "prompts": LazyCommand("lists", "List the prompts of the servers."),
        "prompt": LazyCommand("lists", "Fill in one prompt and print its messages."),
        "auth": LazyCommand("auth", "Sign in to servers with OAuth, and show login status."),
        "serve": LazyCommand("serve", "Serve all servers as one MCP server, whose sessions heal."),
    },
    "Agents": {
        "run": LazyCommand("run", "Run an agent on a task with the tools of your servers."),
        "chat": LazyCommand("run", "Converse with an agent that has the tools of your servers."),
        "solve": LazyCommand("solve", "Solve a problem of choices and constraints exactly."),
        "model": LazyCommand("model", "Get, list and remove models that run on this machine."),
        "reasoning": LazyCommand("reasoning", "Serve the reasoning tools, and inspect sessions."),
    },
    "Look": {
        "view": LazyCommand(
            "view", "Look at runs, servers, reasoning sessions and reports in a browser."
        ),
        "trace": LazyCommand("trace", "List, show and compare traces of agent runs."),
    },
    "Verify": {
        "verify": LazyCommand("verify", "Run a suite of cases, and report how often they pass."),
        "replay": LazyCommand("replay", "Play recorded MCP traffic."),
        "lock": LazyCommand("lock", "Record the tools in a lockfile, and detect changes."),
        "policy": LazyCommand("policy", "Show which calls the policy allows, and why."),
    },
    "More": {
        "gateway": LazyCommand(
            "gateway", "Manage the tool servers of an agent, and its chat history."
        ),
        "trust": LazyCommand("trust", "Approve the mcp.json of a folder, and list approvals."),
        "completion": LazyCommand(
            "completion", "Print the script that completes commands, servers and tools."
        ),
    },
}
"""Every command with its short help, so that `plait --help` imports none of them."""

COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


@click.group(
    cls=LazyGroup,
    lazy_commands=GROUPS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Without --config, the first of these files is read: $PLAIT_CONFIG, ./mcp.json, "
    "./.mcp.json, ~/.config/plait/mcp.json.",
)
@click.version_option(__version__, message="plait %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Use, check and manage MCP servers from a shell.

    Examples:
        plait demo                     see what happens when servers are killed
        plait init                     write a starter mcp.json
        plait tools                    list the tools
        plait call time get_current_time timezone=Europe/Berlin
        plait run "What time is it in Tokyo?"
    """
    if not colour_allowed():
        ctx.color = False
    if ctx.invoked_subcommand is None:
        from plait.cli.greeting import print_greeting

        print_greeting(ctx)
