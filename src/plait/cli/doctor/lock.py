"""What is not as it was locked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from plait.cli.doctor.findings import Detail, Examined, Finding
from plait.cli.phrases import some_of
from plait.cli.terminal import count_label
from plait.client.catalog.lock.drift import server_drift
from plait.client.catalog.lock.entries import LockedServer, Lockfile
from plait.client.catalog.lock.identity import identity_of


def check_lock(lockfile: Lockfile, seen: Sequence[Examined], folder: Path) -> Iterator[Finding]:
    """Compare the tools of every server that listed them with the lockfile in this folder."""
    for one in seen:
        if one.listed is None:
            continue
        identity = identity_of(one.config, one.status.server_info, folder)
        now = LockedServer.of(identity, one.listed)
        drift = server_drift(one.name, lockfile.servers.get(one.name), now)
        if not drift:
            yield one.finding("ok", "locked", f"{count_label(len(one.listed), 'tool')} as locked")
            continue
        headlines = [found.headline for found in drift]
        yield one.finding(
            "warn",
            "drift",
            f"not as it was locked: {some_of(headlines)}",
            f"look at it: plait lock --check {one.name}",
            [Detail(text=found.text, tool=found.tool and found.where) for found in drift],
        )
