"""`plait doctor`: check every server and say how to fix what is wrong."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from plait.cli.examples import ExampleCommand
from plait.cli.exits import Exit
from plait.cli.options import common_options, json_option, server_arguments, settings_of
from plait.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from plait.cli.findings import Examined, Finding
    from plait.cli.session import Opened
    from plait.config.read import ClientConfig

_ROUND_TRIPS = 5
"""Enough for a median that one hiccup does not move."""


@click.command(
    cls=ExampleCommand,
    examples="""
    plait doctor                   every server
    plait doctor files -v          one server, with its stderr and the log
    plait doctor --json | jq '.findings[] | select(.level == "error")'
    """,
)
@server_arguments
@json_option
@common_options
@click.pass_context
def doctor(ctx: click.Context, servers: tuple[str, ...], as_json: bool) -> None:
    """Check every server and say how to fix what is wrong.

    Looks at the configuration, whether each server can be reached, the
    transport and protocol it speaks, how fast it answers, what it prints, and
    what in its answers had to be mended.
    Ends with code 3 when there is an error, with 4 when the configuration
    cannot be read; warnings alone end with 0.
    """
    from plait.cli import findings as found_in
    from plait.cli import session
    from plait.cli.answers import ask_each

    try:
        config = session.load_config(ctx, servers)
    except ConfigError as error:
        _report(ctx, [], found_in.findings_from_config_error(error), as_json)
        ctx.exit(Exit.CONFIG)

    async def examine_all(opened: Opened) -> list[Examined]:
        async with opened.connecting:
            answers = await ask_each(config.servers, partial(_round_trips, opened))
        status = opened.box.status()
        return [
            found_in.Examined(
                config=server,
                status=status[name],
                round_trips=answers.found.get(name, ()),
                error=answers.failed.get(name),
            )
            for name, server in config.servers.items()
        ]

    seen = session.run_with(ctx, config, examine_all, show_progress=not as_json)
    findings = _config_findings(config)
    for examined in seen:
        findings.extend(found_in.findings_for(examined))
    _report(ctx, seen, findings, as_json)
    if found_in.worst_level(findings) == "error":
        ctx.exit(Exit.UNREACHABLE)


async def _round_trips(opened: Opened, name: str) -> list[float]:
    """List the tools of a server, then measure a few round trips."""
    await opened.box.tools(name)
    return [await opened.box.ping(name) for _ in range(_ROUND_TRIPS)]


def _config_findings(config: ClientConfig) -> list[Finding]:
    from plait.cli.findings import findings_from_problems

    return findings_from_problems(config.warnings, "warn", config.servers)


def _report(
    ctx: click.Context, seen: Sequence[Examined], findings: Sequence[Finding], as_json: bool
) -> None:
    from plait.cli.findings import worst_level
    from plait.cli.terminal import print_json

    if as_json:
        print_json(
            {
                "ok": worst_level(findings) != "error",
                "servers": [_described(examined) for examined in seen],
                "findings": [finding.to_dict() for finding in findings],
            }
        )
        return
    by_server: dict[str | None, list[Finding]] = {None: []}
    for examined in seen:
        by_server[examined.name] = []
    for finding in findings:
        by_server.setdefault(finding.server, []).append(finding)
    if by_server[None]:
        _print_section("configuration", "", by_server[None])
    for examined in seen:
        _print_section(examined.name, _facts(examined), by_server[examined.name])
        if settings_of(ctx).verbosity:
            for line in examined.status.stderr_tail:
                click.echo(f"    | {line}")
    _print_summary(seen, findings)


def _described(examined: Examined) -> dict[str, object]:
    return {**examined.status.to_dict(), "round_trips_seconds": list(examined.round_trips)}


def _facts(examined: Examined) -> str:
    from plait.cli.terminal import count_label, visible

    status = examined.status
    info = status.server_info or {}
    about = " ".join(str(info[key]) for key in ("name", "version") if info.get(key))
    tools = None if status.tool_count is None else count_label(status.tool_count, "tool")
    return visible(" · ".join(fact for fact in (status.transport, about, tools) if fact))


def _print_section(title: str, facts: str, findings: Iterable[Finding]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from plait.cli.terminal import print_rich, visible

    marks = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "error": ("✗", "red")}
    print_rich(Text.assemble((title, "bold"), (f"  {facts}" if facts else "", "dim")))
    for finding in findings:
        mark, style = marks[finding.level]
        message = visible(finding.message).removeprefix(f"{finding.server}: ")
        print_rich(_hanging(f"{mark} ", style, message))
        if finding.fix:
            fix = Text.assemble(("fix: ", "cyan"), visible(finding.fix))
            print_rich(Padding(fix, (0, 0, 0, 6)))
    click.echo()


def _hanging(mark: str, style: str, message: str) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=0)
    grid.add_column(width=4)
    grid.add_column(overflow="fold")
    grid.add_row(Text(f"  {mark}", style), message)
    return grid


def _print_summary(seen: Sequence[Examined], findings: Sequence[Finding]) -> None:
    from plait.cli.terminal import count_label

    ready = sum(examined.status.state == "ready" for examined in seen)
    counts = [
        count_label(number, noun)
        for level, noun in (("error", "error"), ("warn", "warning"))
        if (number := sum(finding.level == level for finding in findings))
    ]
    servers = f"{ready} of {count_label(len(seen), 'server')} ready; " if seen else ""
    click.echo(f"{servers}{', '.join(counts) or 'nothing to fix'}")
