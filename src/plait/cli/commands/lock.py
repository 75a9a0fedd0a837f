"""`plait lock`: write down what the tools are like, and find out when they change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.padding import Padding
from rich.text import Text

from plait.cli.click_classes import ExampleCommand
from plait.cli.exits import Exit
from plait.cli.options import common_options, json_option, server_arguments, settings_of
from plait.cli.terminal import count_label, print_rich, visible
from plait.client.catalog.lock.changes import Change
from plait.client.catalog.lock.drift import Drift
from plait.client.catalog.lock.entries import LockedServer
from plait.client.catalog.lock.text_diff import word_diff

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plait.cli.ask_servers import Answers
    from plait.cli.session import Opened
    from plait.client.catalog.lock.drift import Drift
    from plait.client.catalog.lock.entries import LockedServer, Lockfile
    from plait.client.config.read import ClientConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What a run of the command came to."""

    path: Path
    seen: Mapping[str, LockedServer]
    found: Sequence[Drift]
    """What was different from the lockfile."""

    written: Lockfile | None = None
    left: Sequence[Drift] = ()
    """What is different still."""


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
    """Write down what the tools are like, and find out when they change.

    The lockfile holds the name, description, schemas and annotations of every
    tool, and who its server is. Commit it: a client with "lockfile": true
    offers only tools that are as they were locked.

    Ends with code 8 when --check finds a difference, with 3 when a server could
    not be asked; what was locked of it is kept.
    """
    from plait.cli import session
    from plait.cli.ask_servers import warn_about
    from plait.client.catalog.lock.entries import Lockfile
    from plait.client.catalog.lock.file import read_lockfile, write_lockfile
    from plait.client.catalog.lock.update import file_drift, relocked, updated

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
    outcome = _Outcome(path=path, seen=answers.found, found=drift)
    if not check:
        accept = (
            partial(updated, names=updates) if updates else partial(relocked, configured=configured)
        )
        new = accept(old, answers.found)
        write_lockfile(new, path)
        left = file_drift(new, answers.found, configured)
        outcome = replace(outcome, written=new, left=left)
    _report(outcome, as_json=as_json)
    warn_about(answers.failed)
    if check and drift:
        ctx.exit(Exit.DRIFT)
    if answers.failed:
        ctx.exit(Exit.UNREACHABLE)


def _path(config: ClientConfig, file: str | None) -> Path:
    """Find the lockfile: the one that is named, the one of the client, or the usual one."""
    from plait.client.options import lockfile_path

    if file is not None:
        return Path(file).expanduser()
    return lockfile_path(config.options, config.source)


def _look(
    ctx: click.Context, config: ClientConfig, folder: Path, *, show_progress: bool
) -> Answers[LockedServer]:
    """List the tools of every server exactly as they come."""
    from plait.cli import session
    from plait.cli.ask_servers import ask_each

    plain = {
        name: replace(server, include=None, exclude=()) for name, server in config.servers.items()
    }
    as_they_are = replace(config, servers=plain, options={"sanitize": False})

    async def look(opened: Opened) -> Answers[LockedServer]:
        async with opened.connecting:
            return await ask_each(config.servers, partial(_look_at, opened, folder))

    return session.run_with(ctx, as_they_are, look, show_progress=show_progress)


async def _look_at(opened: Opened, folder: Path, name: str) -> LockedServer:
    from plait.client.catalog.lock.entries import LockedServer
    from plait.client.catalog.lock.identity import identity_of

    tools = await opened.box.tools(name)
    facts = await opened.box.server_info(name)
    identity = identity_of(opened.config.servers[name], facts.identity, folder)
    return LockedServer.of(identity, tools)


def _report(outcome: _Outcome, *, as_json: bool) -> None:
    from plait.cli.terminal import print_json

    written = outcome.written
    if as_json:
        described = {
            "ok": not outcome.found,
            "file": str(outcome.path),
            "written": written is not None,
            "servers": {name: sorted(server.tools) for name, server in outcome.seen.items()},
            "drift": [one.to_dict() for one in outcome.found],
            "left": [one.to_dict() for one in outcome.left],
        }
        print_json(described)
        return
    from plait.cli.terminal import count_label

    if written is None:
        print_drift(outcome.found, outcome.seen)
        click.echo(summary(outcome.found, outcome.seen.values()))
        if outcome.found:
            click.echo(way_out(outcome.found), err=True)
        return
    # Of a server that is locked for the first time, nothing has changed.
    accepted = [one for one in outcome.found if one.kind != "server_added"]
    print_drift([one for one in accepted if one not in outcome.left], outcome.seen)
    tools = sum(len(server.tools) for server in written.servers.values())
    counts = f"{count_label(len(written.servers), 'server')}, {count_label(tools, 'tool')}"
    click.echo(f"wrote {outcome.path}: {counts}")
    if outcome.left:
        verb = "is" if len(outcome.left) == 1 else "are"
        click.echo(f"{summary(outcome.left, ())} {verb} left: plait lock --check", err=True)


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


def print_drift(drift: Sequence[Drift], seen: Mapping[str, LockedServer]) -> None:
    """Print what changed, server by server."""
    for server in dict.fromkeys(one.server for one in drift):
        tools = count_label(len(seen[server].tools), "tool") if server in seen else ""
        print_rich(Text.assemble((visible(server), "bold"), (f"  {tools}", "dim")))
        for one in drift:
            if one.server == server:
                _print_one(one)
        click.echo()


def _print_one(drift: Drift) -> None:
    mark, style = _MARKS[drift.kind]
    print_rich(Text.assemble((f"  {mark} ", style), visible(drift.headline)))
    if drift.loud and drift.tool is not None:
        alarm = "DANGER: it was said to destroy nothing, and may destroy something now"
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


def summary(drift: Sequence[Drift], seen: Iterable[LockedServer]) -> str:
    """Say in one line how the tools stand to the lockfile."""
    servers = list(seen)
    tools = count_label(sum(len(server.tools) for server in servers), "tool")
    if not drift:
        verb = "is" if tools == "1 tool" else "are"
        return f"{tools} of {count_label(len(servers), 'server')} {verb} as locked"
    return f"{count_label(len(drift), 'difference')} from the lockfile"


def way_out(drift: Sequence[Drift]) -> str:
    """Say how to accept what changed."""
    known = [one for one in drift if one.kind != "server_removed"]
    first = next((one.where for one in sorted(known, key=lambda one: one.tool is None)), None)
    single = "" if first is None else f"one by one: plait lock --update {visible(first)}; "
    return f"to accept them, {single}all: plait lock"
