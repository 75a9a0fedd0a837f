"""`plait lock`: record the tools in a lockfile, and detect changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.padding import Padding
from rich.text import Text

from plait.cli import session
from plait.cli.base import ExampleCommand, json_option, repeatable, server_arguments, settings_of
from plait.cli.exits import Exit
from plait.cli.terminal import print_heading, print_json, print_rich, visible
from plait.client.catalog.lock import (
    Change,
    Drift,
    LockedServer,
    Lockfile,
    file_drift,
    identity_of,
    relocked,
    updated,
    word_diff,
)
from plait.html.pieces import count_label

if TYPE_CHECKING:
    from plait.client.toolbox import Toolbox

_MARKS: Final = {
    "added": ("+", "green"),
    "removed": ("-", "red"),
    "changed": ("~", "yellow"),
    "identity": ("!", "yellow"),
    "server_added": ("+", "green"),
    "server_removed": ("-", "red"),
}
_DIFF: Final = {"same": ("", "", ""), "gone": ("[-", "-]", "red"), "new": ("{+", "+}", "green")}


@click.command(cls=ExampleCommand)
@server_arguments
@click.option("--check", is_flag=True, help="Write nothing; exit with code 8 if tools changed.")
@repeatable(
    "--update", "updates", "SERVER[/TOOL]", "Accept the changes of this server or tool only"
)
@click.option("--file", "file", metavar="PATH", help="The lockfile; by default plait.lock.json.")
@json_option
@click.pass_context
def lock(
    ctx: click.Context,
    servers: tuple[str, ...],
    check: bool,
    updates: tuple[str, ...],
    file: str | None,
    as_json: bool,
) -> None:
    """Record the tools in a lockfile, and detect changes.

    The lockfile holds the name, description, schemas and annotations of every
    tool, and the identity of its server. Commit it: a client with
    "lockfile": true offers only tools that match it.

    Exits with code 8 if --check finds a difference, with 3 if a server cannot be
    reached; its entries are kept.

    Examples:
        plait lock                     lock the tools of every server
        plait lock --check             detect changes (for CI)
        plait lock --update shop/pay   accept the changes of one tool
        plait lock --update shop       accept the changes of one server
    """
    from plait.client.catalog.lock import read_lockfile, write_lockfile
    from plait.client.options import lockfile_path

    if check and updates:
        raise click.UsageError("--check writes nothing: it cannot be combined with --update")
    named = (*servers, *dict.fromkeys(name.partition("/")[0] for name in updates))
    config = session.load_config(ctx, named)
    path = Path(file).expanduser() if file else lockfile_path(config.options, config.source)
    old = read_lockfile(path) if check or updates or path.exists() else Lockfile({})

    async def lock_server(box: Toolbox, name: str) -> LockedServer:
        tools = await box.tools(name)
        info = await box.server_info(name)
        identity = identity_of(config.servers[name], info.identity, path.parent)
        return LockedServer.of(identity, tools)

    # The tools are locked unchanged: no filters, overrides or sanitizing.
    queried = session.query_servers(ctx, session.unfiltered(config), lock_server)
    listed = queried.results
    configured = old.servers.keys() if named else {*settings_of(ctx).servers, *config.disabled}
    drift = file_drift(old, listed, configured)
    new, remaining = None, []
    if not check:
        new = updated(old, listed, updates) if updates else relocked(old, listed, configured)
        write_lockfile(new, path)
        remaining = file_drift(new, listed, configured)
    if as_json:
        print_json(
            {
                "ok": not drift,
                "file": str(path),
                "written": not check,
                "servers": {name: sorted(server.tools) for name, server in listed.items()},
                "drift": [one.to_dict() for one in drift],
                "left": [one.to_dict() for one in remaining],
            }
        )
    elif new is not None:
        # A server that is locked for the first time has no changes.
        changed = [one for one in drift if one.kind != "server_added" and one not in remaining]
        _print_drift(changed, listed)
        total = count_label(len(new.servers), "server")
        click.echo(f"wrote {path}: {total}, {_tools_label(new.servers.values())}")
        if remaining:
            verb = "remains" if len(remaining) == 1 else "remain"
            differences = f"{count_label(len(remaining), 'difference')} from the lockfile"
            click.echo(f"{differences} {verb}: plait lock --check", err=True)
    elif drift:
        _print_drift(drift, listed)
        click.echo(f"{count_label(len(drift), 'difference')} from the lockfile")
        known = [one for one in drift if one.kind != "server_removed"]
        known.sort(key=lambda one: one.tool is None)
        single = f"one: plait lock --update {visible(known[0].where)}; " if known else ""
        click.echo(f"to accept {single}all: plait lock", err=True)
    else:
        locked = _tools_label(listed.values())
        verb = "matches" if locked == "1 tool" else "match"
        click.echo(f"{locked} of {count_label(len(listed), 'server')} {verb} the lockfile")
    if check and drift:
        session.print_errors(queried.errors)
        ctx.exit(Exit.DRIFT)
    session.exit_if_missing(ctx, queried)


def _tools_label(servers: Collection[LockedServer]) -> str:
    return count_label(sum(len(server.tools) for server in servers), "tool")


def _print_drift(changes: Sequence[Drift], listed: Mapping[str, LockedServer]) -> None:
    for server in dict.fromkeys(drift.server for drift in changes):
        tools = count_label(len(listed[server].tools), "tool") if server in listed else ""
        print_heading(server, tools)
        for drift in changes:
            if drift.server != server:
                continue
            mark, style = _MARKS[drift.kind]
            print_rich(Text.assemble((f"  {mark} ", style), visible(drift.headline)))
            if drift.loud and drift.tool is not None:
                alarm = "DANGER: it was declared non-destructive, and may now be destructive"
                print_rich(Padding(Text(alarm, "bold red"), (0, 0, 0, 6)))
            for change in drift.changes:
                print_rich(Padding(_change_text(change), (0, 0, 0, 6)))
        click.echo()


def _change_text(change: Change) -> Text:
    if not change.is_prose:
        return Text(visible(change.text))
    text = Text(visible(f"{change.part} {change.path}".strip()) + ": ")
    for kind, words in word_diff(change.before, change.after):
        start, end, style = _DIFF[kind]
        text.append(f"{start}{' '.join(words.split(' '))}{end}".replace("\n", " "), style)
    return text
