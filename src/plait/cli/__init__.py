"""The command line: parse, call one function, print."""

from __future__ import annotations

import click

from plait._version import __version__
from plait.cli.click_classes import LazyCommand, LazyGroup
from plait.cli.options import common_options
from plait.cli.terminal import colour_allowed

COMMANDS = {
    "servers": LazyCommand("servers", "Connect to every server and show how each one is."),
    "tools": LazyCommand("tools", "List the tools the servers offer."),
    "call": LazyCommand("call", "Call a tool and print what it returns."),
    "run": LazyCommand("run", "Have an agent do a task with the tools of your servers."),
    "resources": LazyCommand("resources", "List the resources and templates of the servers."),
    "read": LazyCommand("read", "Read one resource and print it."),
    "prompts": LazyCommand("prompts", "List the prompts the servers offer."),
    "prompt": LazyCommand("prompt", "Fill in one prompt and print its messages."),
    "auth": LazyCommand(
        "auth", "Sign in to servers that want OAuth, and see how the logins stand."
    ),
    "lock": LazyCommand(
        "lock", "Write down what the tools are like, and find out when they change."
    ),
    "reasoning": LazyCommand(
        "reasoning", "Serve tools for structured reasoning, and look at what was thought."
    ),
    "policy": LazyCommand("policy", "See what the policy allows, asks about and denies."),
    "gateway": LazyCommand("gateway", "Manage the tool servers of an agent, and its chat history."),
    "trace": LazyCommand("trace", "Look at the traces that runs of agents leave."),
    "doctor": LazyCommand("doctor", "Check every server and say how to fix what is wrong."),
    "init": LazyCommand("init", "Write an mcp.json: a starter, or your editor's servers."),
}
"""Every command with its one line of help, so that `plait --help` imports none of them."""


@click.group(
    cls=LazyGroup,
    lazy_commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Without --config the first of these is read: $PLAIT_CONFIG, ./mcp.json, ./.mcp.json, "
    "~/.config/plait/mcp.json.",
    examples="""
    plait init                     write a starter mcp.json
    plait servers                  are they up?
    plait tools                    what can they do?
    plait call time get_current_time timezone=Europe/Berlin
    plait run "What time is it in Tokyo?"
    """,
)
@click.version_option(__version__, message="plait %(version)s")
@common_options
@click.pass_context
def main(ctx: click.Context) -> None:
    """Use the tools of your MCP servers from a shell, and see how the servers are."""
    if not colour_allowed():
        ctx.color = False
