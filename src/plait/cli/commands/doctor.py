"""`plait doctor`: check every server, and show how to fix problems."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli import session
from plait.cli.click_classes import ExampleCommand
from plait.cli.exits import Exit
from plait.cli.options import json_option, server_arguments, settings_of
from plait.cli.query_servers import query_each
from plait.cli.terminal import print_json
from plait.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plait.cli.doctor.auth import AuthSeen
    from plait.cli.doctor.diagnosis import Diagnosis
    from plait.cli.doctor.findings import Examined, Finding
    from plait.cli.session import Opened
    from plait.client.catalog.tool import Tool
    from plait.client.config.read import ClientConfig
    from plait.errors import PlaitError

_ROUND_TRIPS = 5
"""Enough for a median that one outlier does not move."""


@click.command(
    cls=ExampleCommand,
    examples="""
    plait doctor                   every server
    plait doctor files -v          one server, with details, stderr and log
    plait doctor --json | jq '.findings[] | select(.level == "error")'
    plait doctor --json | jq '.tokens.servers'
    """,
)
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
    """
    from plait.cli.doctor import findings as found_in
    from plait.cli.doctor.diagnosis import diagnose

    try:
        config = session.load_config(ctx, servers)
    except ConfigError as error:
        _report_config(found_in.findings_from_config_error(error), as_json)
        ctx.exit(Exit.CONFIG)

    async def examine_all(opened: Opened) -> list[Examined]:
        async with opened.connecting:
            answers = await query_each(config.servers, partial(_examine, opened))
            seen = await _look_at_all(config, answers.errors)
        status = opened.box.status()
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

    seen = session.run_with(ctx, _without_options(config), examine_all, show_progress=not as_json)
    locked = _lock_findings(config, seen)
    diagnosis = diagnose(config, seen, settings_of(ctx).servers, [*locked])
    _report(ctx, seen, diagnosis, as_json)
    failed = [finding for finding in diagnosis.findings if finding.level == "error"]
    if failed:
        by_server = all(finding.server is not None for finding in failed)
        ctx.exit(Exit.UNREACHABLE if by_server else Exit.CONFIG)


def _without_options(config: ClientConfig) -> ClientConfig:
    """Return the configuration without filters and other options, to list every tool.

    The options are checked against the result afterwards.
    """
    servers = {
        name: replace(server, include=None, exclude=()) for name, server in config.servers.items()
    }
    return replace(config, servers=servers, options={"sanitize": False})


def _lock_findings(config: ClientConfig, seen: Sequence[Examined]) -> Sequence[Finding]:
    """Compare the listed tools with the lockfile, if there is one."""
    from plait.cli.doctor.diagnosis import check_lock
    from plait.cli.doctor.findings import findings_from_config_error
    from plait.client.catalog.lock.file import read_lockfile
    from plait.client.options import lock_mode, lockfile_path

    path = lockfile_path(config.options, config.source)
    if not path.exists() and lock_mode(config.options) != "block":
        return []
    try:
        return list(check_lock(read_lockfile(path), seen, path.parent))
    except ConfigError as error:
        return findings_from_config_error(error)


async def _examine(opened: Opened, name: str) -> tuple[tuple[Tool, ...], tuple[float, ...]]:
    """List the tools of a server, then measure a few round trips."""
    tools = tuple(await opened.box.tools(name))
    return tools, tuple([await opened.box.ping(name) for _ in range(_ROUND_TRIPS)])


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


def _report_config(findings: Sequence[Finding], as_json: bool) -> None:
    """Print why the configuration cannot be read."""
    if as_json:
        described = [finding.to_dict() for finding in findings]
        print_json({"ok": False, "servers": [], "tokens": None, "findings": described})
        return
    from plait.cli.doctor.report import print_section, print_summary

    print_section("configuration", "", findings)
    print_summary([], findings)


def _report(
    ctx: click.Context, seen: Sequence[Examined], diagnosis: Diagnosis, as_json: bool
) -> None:
    from plait.cli.doctor.findings import worst_level

    if as_json:
        print_json(
            {
                "ok": worst_level(diagnosis.findings) != "error",
                "servers": [_described(examined) for examined in seen],
                "tokens": diagnosis.cost.to_dict(),
                "findings": [finding.to_dict() for finding in diagnosis.findings],
            }
        )
        return
    from plait.cli.doctor.report import print_diagnosis

    print_diagnosis(diagnosis, seen, verbose=bool(settings_of(ctx).verbosity))


def _described(examined: Examined) -> dict[str, object]:
    return {**examined.status.to_dict(), "round_trips_seconds": list(examined.round_trips)}
