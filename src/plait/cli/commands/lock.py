"""`plait lock`: write down what the tools are like, and find out when they change."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.examples import ExampleCommand
from plait.cli.exits import Exit
from plait.cli.options import common_options, json_option, server_arguments, settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plait.catalog.lock.drift import Drift
    from plait.catalog.lock.locked import LockedServer, Lockfile
    from plait.cli.answers import Answers
    from plait.cli.session import Opened
    from plait.config.read import ClientConfig


@click.command(
    cls=ExampleCommand,
    examples="""
    plait lock                     lock the tools of every server
    plait lock --check             has anything changed? (for CI)
    plait lock --update shop/pay   accept what became of one tool
    plait lock --update shop       accept what became of one server
    """,
)
@server_arguments
@click.option("--check", is_flag=True, help="Write nothing; end with code 8 if tools changed.")
@click.option(
    "--update",
    "updates",
    metavar="SERVER[/TOOL]",
    multiple=True,
    help="Accept what became of this one only; may be given several times.",
)
@click.option("--file", "file", metavar="PATH", help="The lockfile; usually plait.lock.json.")
@json_option
@common_options
@click.pass_context
def lock(
    ctx: click.Context,
    servers: tuple[str, ...],
    check: bool,
    updates: tuple[str, ...],
    file: str | None,
    as_json: bool,
) -> None:
    """Write down what the tools of the servers are like, and find out when they change.

    The lockfile holds the name, description, schemas and annotations of every
    tool, and who its server is. Commit it: a client with "lockfile": true
    offers only tools that are as they were locked.

    Ends with code 8 when --check finds a difference, with 3 when a server could
    not be asked; what was locked of it is kept.
    """
    from plait.catalog.lock.file import read_lockfile, write_lockfile
    from plait.catalog.lock.locked import Lockfile
    from plait.catalog.lock.update import file_drift, relocked, updated
    from plait.cli import session
    from plait.cli.answers import warn_about

    if check and updates:
        raise click.UsageError("--check writes nothing, so --update makes no sense with it")
    named = (*servers, *dict.fromkeys(name.partition("/")[0] for name in updates))
    config = session.load_config(ctx, named)
    everything = settings_of(ctx).servers
    path = _path(config, file)
    old = read_lockfile(path) if check or updates or path.exists() else Lockfile({})
    answers = _look(ctx, config, path.parent, show_progress=not as_json)
    configured = {*everything, *config.disabled} if not named else old.servers.keys()
    drift = file_drift(old, answers.found, configured)
    if updates:
        new = updated(old, answers.found, updates)
    else:
        new = old if check else relocked(old, answers.found, configured)
    if not check:
        write_lockfile(new, path)
    _report(path, drift, answers.found, new=None if check else new, as_json=as_json)
    warn_about(answers.failed)
    if check and drift:
        ctx.exit(Exit.DRIFT)
    if answers.failed:
        ctx.exit(Exit.UNREACHABLE)


def _path(config: ClientConfig, file: str | None) -> Path:
    """Find the lockfile: the one that is named, the one of the client, or the usual one."""
    from plait.execution.options import default_lockfile

    if file is not None:
        return Path(file).expanduser()
    configured = config.options.get("lockfile")
    return Path(configured) if isinstance(configured, str) else default_lockfile(config.source)


def _look(
    ctx: click.Context, config: ClientConfig, folder: Path, *, show_progress: bool
) -> Answers[LockedServer]:
    """List the tools of every server exactly as they come."""
    from plait.cli import session
    from plait.cli.answers import ask_each

    plain = {
        name: replace(server, include=None, exclude=()) for name, server in config.servers.items()
    }
    as_they_are = replace(config, servers=plain, options={"sanitize": False})

    async def look(opened: Opened) -> Answers[LockedServer]:
        async with opened.connecting:
            return await ask_each(config.servers, partial(_look_at, opened, folder))

    return session.run_with(ctx, as_they_are, look, show_progress=show_progress)


async def _look_at(opened: Opened, folder: Path, name: str) -> LockedServer:
    from plait.catalog.lock.identity import identity_of
    from plait.catalog.lock.locked import LockedServer

    tools = await opened.box.tools(name)
    facts = await opened.box.server_info(name)
    identity = identity_of(opened.config.servers[name], facts, folder)
    return LockedServer.of(identity, tools)


def _report(
    path: Path,
    drift: Sequence[Drift],
    seen: Mapping[str, LockedServer],
    *,
    new: Lockfile | None,
    as_json: bool,
) -> None:
    from plait.cli.terminal import print_json

    if as_json:
        described = {
            "ok": not drift,
            "file": str(path),
            "written": new is not None,
            "servers": {name: sorted(server.tools) for name, server in seen.items()},
            "drift": [one.to_dict() for one in drift],
        }
        print_json(described)
        return
    from plait.cli.lock_report import print_drift, summary, way_out
    from plait.cli.terminal import count_label

    # In a file that is written for the first time, nothing has changed.
    known = [one for one in drift if new is None or one.kind != "server_added"]
    print_drift(known, seen)
    if new is None:
        click.echo(summary(drift, seen.values()))
        if drift:
            click.echo(way_out(drift), err=True)
        return
    tools = sum(len(server.tools) for server in new.servers.values())
    counts = f"{count_label(len(new.servers), 'server')}, {count_label(tools, 'tool')}"
    click.echo(f"wrote {path}: {counts}")
