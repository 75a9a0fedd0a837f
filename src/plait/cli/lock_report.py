"""How drift from a lockfile is shown to a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import click
from rich.padding import Padding
from rich.text import Text

from plait.cli.terminal import count_label, print_rich, visible
from plait.client.catalog.lock.changes import Change
from plait.client.catalog.lock.drift import Drift
from plait.client.catalog.lock.entries import LockedServer
from plait.client.catalog.lock.text_diff import word_diff

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
