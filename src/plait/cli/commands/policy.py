"""`plait policy`: show what a policy decides, and which of its rules match nothing."""

from __future__ import annotations

from dataclasses import replace

import click
from rich.table import Table
from rich.text import Text

from plait.cli import session
from plait.cli.arguments import parse_arguments, reader_for
from plait.cli.base import ExampleGroup, json_option
from plait.cli.commands.call import find_tool
from plait.cli.terminal import print_aside, print_json, print_rich, visible
from plait.client.catalog.tool import Tool
from plait.client.config.policy import Policy, read_policy
from plait.client.config.read import ClientConfig
from plait.errors import ConfigError
from plait.html.pieces import count_label

_STYLES = {"allow": "green", "ask": "yellow", "deny": "red"}


@click.group(cls=ExampleGroup)
def policy() -> None:
    """Show which calls the policy allows, and why.

    The policy is the one under "policy" in the configuration. The first rule
    that matches a call decides: allow, ask or deny.

    Examples:
        plait policy check                  the verdict for each tool
        plait policy check policy.toml      the same with the policy of another file
        plait policy explain bank/pay       the rule that decides about a call
    """


@policy.command()
@click.argument("file", required=False)
@json_option
@click.pass_context
def check(ctx: click.Context, file: str | None, as_json: bool) -> None:
    """Check a policy, and show its verdict for the tools of every server.

    Reports rules that match no tool. If a server cannot be reached these are not
    known, and the exit code is 3; it is 4 for a policy that cannot be read.

    Examples:
        plait policy check
        plait policy check policy.json --json | jq '.idle_rules'
    """
    config, checked = _policy_and_config(ctx, file)
    queried = session.query_servers(ctx, config, lambda box, server: box.tools(server))
    tools = [tool for listed in queried.results.values() for tool in listed]
    idle = [] if queried.errors else checked.idle_rules(tools)
    reached = {tool.full_name: [number for number, _ in checked.reached(tool)] for tool in tools}
    if as_json:
        print_json(
            {
                "policy": checked.source,
                "default": checked.default,
                "tools": [
                    {
                        "server": tool.server,
                        "tool": tool.wire_name,
                        "verdicts": _verdicts(checked, tool),
                        "rules": reached[tool.full_name],
                    }
                    for tool in tools
                ],
                "idle_rules": [
                    {"rule": number, "about": str(checked.rules[number - 1]), "problem": problem}
                    for number, problem in idle
                ],
            }
        )
    else:
        click.echo(
            f"{checked.title}: {count_label(len(checked.rules), 'rule')}, else {checked.default}"
        )
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        for tool in tools:
            verdicts = " or ".join(_verdicts(checked, tool))
            rules = (f"rule {one}" if one else "the default" for one in reached[tool.full_name])
            by = ", ".join(rules)
            verdict = Text(verdicts, _STYLES.get(verdicts, ""))
            table.add_row(verdict, Text(visible(tool.full_name)), Text(by, "dim"))
        if tools:
            print_rich(table)
        for number, problem in idle:
            text = f"rule {number} ({checked.rules[number - 1]}): {problem}"
            print_aside("warning", text, colour="yellow")
    session.exit_if_missing(ctx, queried)


@policy.command()
@click.argument("tool", metavar="SERVER/TOOL")
@click.argument("arguments", nargs=-1, metavar="[JSON | KEY=VALUE]…")
@click.option(
    "--policy", "file", metavar="PATH", help="Use this policy instead of the configured one."
)
@json_option
@click.pass_context
def explain(
    ctx: click.Context, tool: str, arguments: tuple[str, ...], file: str | None, as_json: bool
) -> None:
    """Show the verdict for a call, and the rule that decides.

    The tool is not called. Arguments are written as for plait call; without
    them, rules that depend on arguments are listed separately.

    Examples:
        plait policy explain bank/pay
        plait policy explain files/write_file path=/etc/passwd
        plait policy explain files/write_file --policy policy.toml
    """
    server, slash, name = tool.partition("/")
    if not slash or not name:
        raise click.BadParameter("write SERVER/TOOL", param_hint="SERVER/TOOL")
    read_text = reader_for(arguments)
    config, explained = _policy_and_config(ctx, file)

    only_server = session.narrowed(config, [server], heal=False)
    listed = session.run_in_toolbox(ctx, only_server, lambda box: find_tool(box, server, name))
    values = parse_arguments(arguments, listed.input_schema, read_text)
    decision = explained.decide(listed, values)
    others = [
        f"{rule.do}: rule {number} ({rule})"
        for number, rule in explained.reached(listed)
        if rule is not None and rule.when and number != decision.number and not values
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
        click.echo(f"  depending on arguments, {other}")


def _policy_and_config(ctx: click.Context, file: str | None) -> tuple[ClientConfig, Policy]:
    """Read the policy, and the configuration without it, so that no tool is hidden."""
    named = None if file is None else read_policy(file)
    config = session.load_config(ctx)
    policy = named or config.options.get("policy")
    if not isinstance(policy, Policy):
        raise ConfigError(
            f'{config.source} has no policy: add "policy": "policy.json", or name a file'
        )
    rest = {name: value for name, value in config.options.items() if name != "policy"}
    return replace(config, options=rest), policy


def _verdicts(policy: Policy, tool: Tool) -> list[str]:
    """Return the possible verdicts, in the order of the rules."""
    verdicts = [rule.do if rule else policy.default for _, rule in policy.reached(tool)]
    return list(dict.fromkeys(verdicts))
