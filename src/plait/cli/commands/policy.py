"""`plait policy`: see what a policy decides, and which of its rules decide nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from plait.cli.click_classes import ExampleCommand, ExampleGroup
from plait.cli.exits import Exit
from plait.cli.options import common_options, json_option
from plait.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plait.cli.ask_servers import Answers
    from plait.cli.session import Opened
    from plait.client.catalog.tool import Tool
    from plait.client.config.policy import Policy
    from plait.client.config.read import ClientConfig


@click.group(
    cls=ExampleGroup,
    examples="""
    plait policy check                  what becomes of calls of each tool?
    plait policy check policy.toml      the same with a policy of another file
    plait policy explain bank/pay       which rule decides, and why?
    """,
)
@common_options
def policy() -> None:
    """See what the policy allows, asks about and denies.

    The policy is the one that the configuration names as "policy". The first
    rule that fits a call decides.
    """


@policy.command(
    cls=ExampleCommand,
    examples="""
    plait policy check
    plait policy check policy.json --json | jq '.idle_rules'
    """,
)
@click.argument("file", required=False)
@json_option
@common_options
@click.pass_context
def check(ctx: click.Context, file: str | None, as_json: bool) -> None:
    """Check a policy, and show what it decides about the tools of every server.

    Rules that decide about no tool are named; where a server is missing they
    cannot be known, and the command ends with code 3. A policy that cannot be
    read ends with 4.
    """
    from plait.cli import session
    from plait.cli.ask_servers import ask_each, warn_about

    config, found = _policy_and_config(ctx, file)

    async def list_tools(opened: Opened) -> Answers[list[Tool]]:
        async with opened.connecting:
            return await ask_each(opened.config.servers, opened.box.tools)

    answers = session.run_with(ctx, config, list_tools, show_progress=not as_json)
    tools = [tool for listed in answers.found.values() for tool in listed]
    idle = [] if answers.failed else found.idle_rules(tools)
    if as_json:
        _print_json(found, tools, idle)
    else:
        _print_table(found, tools, idle)
    warn_about(answers.failed)
    if answers.failed:
        ctx.exit(Exit.UNREACHABLE)


@policy.command(
    cls=ExampleCommand,
    examples="""
    plait policy explain bank/pay
    plait policy explain files/write_file path=/etc/passwd
    plait policy explain files/write_file --policy policy.toml
    """,
)
@click.argument("tool", metavar="SERVER/TOOL")
@click.argument("arguments", nargs=-1, metavar="[JSON | KEY=VALUE]…")
@click.option("--policy", "file", metavar="PATH", help="Another policy than the configuration's.")
@json_option
@common_options
@click.pass_context
def explain(
    ctx: click.Context, tool: str, arguments: tuple[str, ...], file: str | None, as_json: bool
) -> None:
    """Say what becomes of a call, and which rule decides.

    The tool is not called. Arguments are written as for plait call; without
    them, rules that look at arguments are shown as those that may decide.
    """
    from plait.cli import session
    from plait.cli.arguments import parse_arguments, reader_for
    from plait.cli.commands.call import find_tool
    from plait.cli.terminal import print_json

    server, slash, name = tool.partition("/")
    if not slash or not name:
        raise click.BadParameter("write SERVER/TOOL", param_hint="SERVER/TOOL")
    read_text = reader_for(arguments)
    config, found = _policy_and_config(ctx, file)

    async def find(opened: Opened) -> Tool:
        async with opened.connecting:
            return await find_tool(opened, server, name)

    wanted = session.narrowed(config, [server], heal=False)
    listed = session.run_with(ctx, wanted, find, show_progress=not as_json)
    given = parse_arguments(arguments, listed.input_schema, read_text)
    decision = found.decide(listed, given)
    others = [
        f"{rule.do}: rule {number} ({rule})"
        for number, rule in found.reached(listed)
        if rule is not None and rule.when and number != decision.number and not given
    ]
    if as_json:
        print_json(
            {
                "tool": listed.full_name,
                "verdict": decision.verdict,
                "rule": decision.number,
                "reason": decision.reason,
                "depending_on_arguments": others,
            }
        )
        return
    click.echo(f"{decision.verdict}: {listed.full_name}, by {decision.reason}")
    for other in others:
        click.echo(f"  but, by its arguments, {other}")


def _policy_and_config(ctx: click.Context, file: str | None) -> tuple[ClientConfig, Policy]:
    """Read the policy, and the configuration without it, so that nothing is hidden."""
    from plait.cli import session
    from plait.client.config.policy import Policy
    from plait.client.config.policy_file import read_policy

    named = None if file is None else read_policy(file)
    config = session.load_config(ctx)
    found = named or config.options.get("policy")
    if not isinstance(found, Policy):
        raise ConfigError(
            f'{config.source} has no policy: add "policy": "policy.json", or name a file'
        )
    rest = {name: value for name, value in config.options.items() if name != "policy"}
    return replace(config, options=rest), found


def _print_table(policy: Policy, tools: Sequence[Tool], idle: Sequence[tuple[int, str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from plait.cli.terminal import count_label, print_aside, print_rich, visible

    click.echo(f"{policy.title}: {count_label(len(policy.rules), 'rule')}, else {policy.default}")
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for tool in tools:
        verdicts = " or ".join(_verdicts(policy, tool))
        by = ", ".join(_named(number) for number, _ in policy.reached(tool))
        table.add_row(
            Text(verdicts, _STYLES.get(verdicts, "")),
            Text(visible(tool.full_name)),
            Text(by, "dim"),
        )
    if tools:
        print_rich(table)
    for number, problem in idle:
        text = f"rule {number} ({policy.rules[number - 1]}): {problem}"
        print_aside("warning", text, colour="yellow")


_STYLES = {"allow": "green", "ask": "yellow", "deny": "red"}


def _print_json(policy: Policy, tools: Sequence[Tool], idle: Sequence[tuple[int, str]]) -> None:
    from plait.cli.terminal import print_json

    print_json(
        {
            "policy": policy.source,
            "default": policy.default,
            "tools": [
                {
                    "server": tool.server,
                    "tool": tool.wire_name,
                    "verdicts": _verdicts(policy, tool),
                    "rules": [number for number, _ in policy.reached(tool)],
                }
                for tool in tools
            ],
            "idle_rules": [
                {"rule": number, "about": str(policy.rules[number - 1]), "problem": problem}
                for number, problem in idle
            ],
        }
    )


def _verdicts(policy: Policy, tool: Tool) -> list[str]:
    """Name what may become of a call, in the order of the rules."""
    found = [rule.do if rule else policy.default for _, rule in policy.reached(tool)]
    return list(dict.fromkeys(found))


def _named(number: int | None) -> str:
    return "the default" if number is None else f"rule {number}"
