"""`plait doctor`: check every server, and show how to fix problems."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli import session
from plait.cli.click_classes import ExampleCommand
from plait.cli.exits import Exit
from plait.cli.options import json_option, server_arguments, settings_of
from plait.cli.terminal import print_json
from plait.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plait.cli.doctor.auth import AuthSeen
    from plait.cli.doctor.costs import Cost
    from plait.cli.doctor.findings import Examined, Finding
    from plait.client.catalog.tool import Tool
    from plait.client.config.read import ClientConfig
    from plait.client.toolbox import Toolbox
    from plait.errors import PlaitError

_ROUND_TRIPS = 5
"""Enough for a median that one outlier does not move."""


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
    from plait.cli.doctor import findings as found_in
    from plait.cli.doctor import report
    from plait.cli.doctor.diagnosis import diagnose

    try:
        config = session.load_config(ctx, servers)
    except ConfigError as error:
        findings = found_in.findings_from_config_error(error)
        if as_json:
            _print_json(findings)
        else:
            report.print_section("configuration", "", findings)
            report.print_summary([], findings)
        ctx.exit(Exit.CONFIG)

    async def examine_all(box: Toolbox) -> list[Examined]:
        answers = await session.query_each(config.servers, partial(_examine, box))
        seen = await _look_at_all(config, answers.errors)
        status = box.status()
        nothing: tuple[None, tuple[float, ...]] = (None, ())
        return [
            found_in.Examined(
                config=server,
                status=status[name],
                listed=answers.results.get(name, nothing)[0],
                round_trips=answers.results.get(name, nothing)[1],
                error=answers.errors.get(name),
                auth=seen[name],
            )
            for name, server in config.servers.items()
        ]

    # The options are checked against the unfiltered tools afterwards.
    seen = session.run_in_toolbox(ctx, session.unfiltered(config), examine_all)
    settings = settings_of(ctx)
    diagnosis = diagnose(config, seen, settings.servers, _lock_findings(config, seen))
    if as_json:
        _print_json(diagnosis.findings, seen, diagnosis.cost)
    else:
        report.print_diagnosis(diagnosis, seen, verbose=bool(settings.verbosity))
    failed = [finding for finding in diagnosis.findings if finding.level == "error"]
    if failed:
        by_server = all(finding.server is not None for finding in failed)
        ctx.exit(Exit.UNREACHABLE if by_server else Exit.CONFIG)


def _lock_findings(config: ClientConfig, seen: Sequence[Examined]) -> Sequence[Finding]:
    """Compare the listed tools with the lockfile, if there is one."""
    from plait.cli.doctor.diagnosis import check_lock
    from plait.cli.doctor.findings import findings_from_config_error
    from plait.client.catalog.lock.entries import read_lockfile
    from plait.client.options import lock_mode, lockfile_path

    path = lockfile_path(config.options, config.source)
    if not path.exists() and lock_mode(config.options) != "block":
        return []
    try:
        return list(check_lock(read_lockfile(path), seen, path.parent))
    except ConfigError as error:
        return findings_from_config_error(error)


async def _examine(box: Toolbox, name: str) -> tuple[tuple[Tool, ...], tuple[float, ...]]:
    """List the tools of a server, then measure a few round trips."""
    tools = tuple(await box.tools(name))
    return tools, tuple([await box.ping(name) for _ in range(_ROUND_TRIPS)])


async def _look_at_all(
    config: ClientConfig, failed: Mapping[str, PlaitError]
) -> dict[str, AuthSeen | None]:
    """Inspect the login of each server, concurrently."""
    from plait.cli.doctor.auth import look_at_auth

    written = _written(config.source)
    looks = (
        look_at_auth(name, server, failed.get(name), written)
        for name, server in config.servers.items()
    )
    return dict(zip(config.servers, await asyncio.gather(*looks), strict=True))


def _written(source: str | None) -> str:
    """Return the text of the configuration, to find secrets in it."""
    try:
        return Path(source).read_text(encoding="utf-8") if source is not None else ""
    except (OSError, ValueError):
        return ""


def _print_json(
    findings: Sequence[Finding], seen: Sequence[Examined] = (), cost: Cost | None = None
) -> None:
    from plait.cli.doctor.findings import worst_level

    servers = [
        {**one.status.to_dict(), "round_trips_seconds": list(one.round_trips)} for one in seen
    ]
    print_json(
        {
            "ok": worst_level(findings) != "error",
            "servers": servers,
            "tokens": None if cost is None else cost.to_dict(),
            "findings": [finding.to_dict() for finding in findings],
        }
    )
