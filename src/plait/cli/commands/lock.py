"""`plait lock`: record the tools in a lockfile, and detect changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.padding import Padding
from rich.text import Text

from plait.cli import session
from plait.cli.click_classes import ExampleCommand
from plait.cli.exits import Exit
from plait.cli.options import json_option, server_arguments, settings_of
from plait.cli.terminal import count_label, print_heading, print_json, print_rich, visible
from plait.client.catalog.lock.changes import Change, word_diff
from plait.client.catalog.lock.drift import Drift
from plait.client.catalog.lock.entries import LockedServer, identity_of

if TYPE_CHECKING:
    from plait.client.catalog.lock.entries import Lockfile
    from plait.client.config.read import ClientConfig
    from plait.client.toolbox import Toolbox


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """The result of the command."""

    path: Path
    listed: Mapping[str, LockedServer]
    drift: Sequence[Drift]
    """The differences from the lockfile."""

    written: Lockfile | None = None
    remaining: Sequence[Drift] = ()
    """The differences that were not accepted."""


@click.command(cls=ExampleCommand)
@server_arguments
@click.option("--check", is_flag=True, help="Write nothing; exit with code 8 if tools changed.")
@click.option(
    "--update",
    "updates",
    metavar="SERVER[/TOOL]",
    multiple=True,
    help="Accept the changes of this server or tool only; may be repeated.",
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
    from plait.client.catalog.lock.drift import file_drift, relocked, updated
    from plait.client.catalog.lock.entries import Lockfile, read_lockfile, write_lockfile
    from plait.client.options import lockfile_path

    if check and updates:
        raise click.UsageError("--check writes nothing: it cannot be combined with --update")
    named = (*servers, *dict.fromkeys(name.partition("/")[0] for name in updates))
    config = session.load_config(ctx, named)
    path = Path(file).expanduser() if file else lockfile_path(config.options, config.source)
    old = read_lockfile(path) if check or updates or path.exists() else Lockfile({})
    queried = _list_tools(ctx, config, path.parent)
    listed = queried.results
    all_servers = {*settings_of(ctx).servers, *config.disabled}
    configured = old.servers.keys() if named else all_servers
    drift = file_drift(old, listed, configured)
    outcome = _Outcome(path=path, listed=listed, drift=drift)
    if not check:
        new = updated(old, listed, updates) if updates else relocked(old, listed, configured)
        write_lockfile(new, path)
        remaining = file_drift(new, listed, configured)
        outcome = replace(outcome, written=new, remaining=remaining)
    _report(outcome, as_json=as_json)
    if check and drift:
        session.print_errors(queried.errors)
        ctx.exit(Exit.DRIFT)
    session.exit_if_missing(ctx, queried)


def _list_tools(
    ctx: click.Context, config: ClientConfig, folder: Path
) -> session.ServerResults[LockedServer]:
    """List the tools of every server unchanged: no filters, overrides or sanitizing."""

    async def lock_server(box: Toolbox, name: str) -> LockedServer:
        tools = await box.tools(name)
        info = await box.server_info(name)
        return LockedServer.of(identity_of(config.servers[name], info.identity, folder), tools)

    return session.query_servers(ctx, session.unfiltered(config), lock_server)


def _report(outcome: _Outcome, *, as_json: bool) -> None:
    written = outcome.written
    if as_json:
        described = {
            "ok": not outcome.drift,
            "file": str(outcome.path),
            "written": written is not None,
            "servers": {name: sorted(server.tools) for name, server in outcome.listed.items()},
            "drift": [drift.to_dict() for drift in outcome.drift],
            "left": [drift.to_dict() for drift in outcome.remaining],
        }
        print_json(described)
        return

    if written is None:
        print_drift(outcome.drift, outcome.listed)
        click.echo(summary(outcome.drift, outcome.listed.values()))
        if outcome.drift:
            click.echo(accept_hint(outcome.drift), err=True)
        return
    # A server that is locked for the first time has no changes.
    accepted = [drift for drift in outcome.drift if drift.kind != "server_added"]
    accepted = [drift for drift in accepted if drift not in outcome.remaining]
    print_drift(accepted, outcome.listed)
    tools = sum(len(server.tools) for server in written.servers.values())
    counts = f"{count_label(len(written.servers), 'server')}, {count_label(tools, 'tool')}"
    click.echo(f"wrote {outcome.path}: {counts}")
    if outcome.remaining:
        verb = "remains" if len(outcome.remaining) == 1 else "remain"
        click.echo(f"{summary(outcome.remaining, ())} {verb}: plait lock --check", err=True)


_MARKS: Final = {
    "added": ("+", "green"),
    "removed": ("-", "red"),
    "renamed": ("→", "yellow"),
    "swapped": ("⇄", "red"),
    "changed": ("~", "yellow"),
    "identity": ("!", "yellow"),
    "server_added": ("+", "green"),
    "server_removed": ("-", "red"),
}

_DIFF: Final = {"same": ("", "", ""), "gone": ("[-", "-]", "red"), "new": ("{+", "+}", "green")}


def print_drift(changes: Sequence[Drift], listed: Mapping[str, LockedServer]) -> None:
    """Print the changes by server."""
    for server in dict.fromkeys(drift.server for drift in changes):
        tools = count_label(len(listed[server].tools), "tool") if server in listed else ""
        print_heading(server, tools)
        for drift in changes:
            if drift.server == server:
                _print_change(drift)
        click.echo()


def _print_change(drift: Drift) -> None:
    mark, style = _MARKS[drift.kind]
    print_rich(Text.assemble((f"  {mark} ", style), visible(drift.headline)))
    if drift.loud and drift.tool is not None:
        alarm = "DANGER: it was declared non-destructive, and may now be destructive"
        print_rich(Padding(Text(alarm, "bold red"), (0, 0, 0, 6)))
    for change in drift.changes:
        print_rich(Padding(_change_text(change), (0, 0, 0, 6)))


def _change_text(change: Change) -> Text:
    if not change.is_prose:
        return Text(visible(change.text))
    text = Text(visible(f"{change.part} {change.path}".strip()) + ": ")
    for kind, words in word_diff(change.before, change.after):
        start, end, style = _DIFF[kind]
        text.append(f"{start}{' '.join(words.split(' '))}{end}".replace("\n", " "), style)
    return text


def summary(drift: Sequence[Drift], listed: Iterable[LockedServer]) -> str:
    """Summarize the differences from the lockfile in one line."""
    servers = list(listed)
    tools = count_label(sum(len(server.tools) for server in servers), "tool")
    if not drift:
        verb = "matches" if tools == "1 tool" else "match"
        return f"{tools} of {count_label(len(servers), 'server')} {verb} the lockfile"
    return f"{count_label(len(drift), 'difference')} from the lockfile"


def accept_hint(changes: Sequence[Drift]) -> str:
    """Describe how to accept the changes."""
    known = [drift for drift in changes if drift.kind != "server_removed"]
    known.sort(key=lambda drift: drift.tool is None)
    single = f"one: plait lock --update {visible(known[0].where)}; " if known else ""
    return f"to accept {single}all: plait lock"
