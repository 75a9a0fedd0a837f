"""`plait doctor`: check every server, and show how to fix problems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import click
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from plait.cli import session
from plait.cli.base import ExampleCommand, json_option, server_arguments, settings_of
from plait.cli.exits import Exit
from plait.cli.terminal import print_json, print_rich, visible
from plait.errors import ConfigError, UntrustedConfigError
from plait.html.pieces import count_label

if TYPE_CHECKING:
    from plait.cli.diagnosis import Examined, Finding

_MARKS: Final = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "error": ("✗", "red")}
_REMARKS: Final = ("schema_", "stderr", "renamed")
"""Prefixes of the codes of neutral findings."""


@click.command(cls=ExampleCommand)
@server_arguments
@json_option
@click.pass_context
def doctor(ctx: click.Context, servers: tuple[str, ...], as_json: bool) -> None:
    """Check every server, and show how to fix problems.

    Checks the configuration; then for each server the connection, transport and
    protocol, latency, output on stdout and stderr, malformed responses, and
    login status (without signing in or printing secrets).
    Then the tools: what each provider loses of their schemas, conflicting and
    changed names, the size in a model's context, and filters, overrides,
    fallbacks and policy rules that match no tool. Token counts are estimates:
    four bytes per token.
    If there is a lockfile, differences from it.

    Exits with code 3 if a server has an error, with 4 if the configuration has
    one or cannot be read; warnings alone exit with 0.

    Examples:
        plait doctor                   every server
        plait doctor files -v          one server, with details, stderr and log
        plait doctor --json | jq '.findings[] | select(.level == "error")'
        plait doctor --json | jq '.tokens.servers'
    """
    from plait.cli.diagnosis import (
        Diagnosis,
        diagnose,
        examine_servers,
        findings_from_config_error,
        lock_findings,
    )

    settings = settings_of(ctx)
    try:
        config = session.load_config(ctx, servers)
    except UntrustedConfigError:
        raise
    except ConfigError as error:
        diagnosis = Diagnosis(configuration=findings_from_config_error(error))
    else:
        # The options are checked against the unfiltered tools afterwards.
        everything, examine = session.unfiltered(config), partial(examine_servers, config)
        seen = session.run_in_toolbox(ctx, everything, examine)
        diagnosis = diagnose(config, seen, settings.servers, lock_findings(config, seen))
    if as_json:
        print_json(diagnosis.to_dict())
    else:
        verbose = bool(settings.verbosity)
        if diagnosis.configuration:
            print_section("configuration", "", diagnosis.configuration, verbose=verbose)
        for server in diagnosis.examined:
            status = server.status
            info = status.server_info or {}
            about = " ".join(str(info[key]) for key in ("name", "version") if info.get(key))
            count = status.tool_count
            tools = None if count is None else count_label(count, "tool")
            facts = visible(" · ".join(one for one in (status.transport, about, tools) if one))
            findings = diagnosis.servers[server.name]
            stderr = status.stderr_tail if verbose else ()
            print_section(server.name, facts, findings, verbose=verbose, stderr=stderr)
        if diagnosis.together:
            print_section("all tools", "", diagnosis.together, verbose=verbose)
        print_summary(diagnosis.examined, diagnosis.findings)
    failed = [finding for finding in diagnosis.findings if finding.level == "error"]
    if failed:
        by_server = all(finding.server is not None for finding in failed)
        ctx.exit(Exit.UNREACHABLE if by_server else Exit.CONFIG)


def print_section(
    title: str,
    facts: str,
    findings: Iterable[Finding],
    *,
    verbose: bool = False,
    stderr: Iterable[str] = (),
) -> None:
    """Print findings under a title, followed by an empty line."""
    print_rich(Text.assemble((title, "bold"), (f"  {facts}" if facts else "", "dim")))
    for finding in findings:
        message = visible(finding.message).removeprefix(f"{finding.server}: ")
        # A message hangs from the mark of its level.
        is_neutral = finding.level == "ok" and finding.code.startswith(_REMARKS)
        mark, style = ("·", "dim") if is_neutral else _MARKS[finding.level]
        grid = Table.grid(padding=0)
        grid.add_column(width=4)
        grid.add_column(overflow="fold")
        grid.add_row(Text(f"  {mark} ", style), message)
        print_rich(grid)
        if finding.fix:
            fix = Text.assemble(("fix: ", "cyan"), visible(finding.fix))
            print_rich(Padding(fix, (0, 0, 0, 6)))
        for detail in finding.details if verbose else ():
            profiles = f" ({', '.join(detail.profiles)})" if detail.profiles else ""
            case = f"{detail.tool}: {detail.text}{profiles}" if detail.tool else detail.text
            print_rich(Padding(Text(visible(case), "dim"), (0, 0, 0, 6)))
    for line in stderr:
        click.echo(f"    | {visible(line)}")
    click.echo()


def print_summary(examined: Sequence[Examined], findings: Sequence[Finding]) -> None:
    """Print how many servers are ready, and how many problems there are."""
    ready = sum(server.status.state == "ready" for server in examined)
    counts = [
        count_label(number, noun)
        for level, noun in (("error", "error"), ("warn", "warning"))
        if (number := sum(finding.level == level for finding in findings))
    ]
    servers = f"{ready} of {count_label(len(examined), 'server')} ready; " if examined else ""
    click.echo(f"{servers}{', '.join(counts) or 'nothing to fix'}")
