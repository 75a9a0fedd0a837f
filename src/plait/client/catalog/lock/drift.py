"""Differences of listed tools from the lockfile, and accepting them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from plait._support.sanitize import escaped
from plait.client.catalog.lock.changes import Change, identity_changes, tool_changes
from plait.client.catalog.lock.entries import LockedServer, Lockfile
from plait.errors import ConfigError

DriftKind = Literal["added", "removed", "changed", "identity", "server_added", "server_removed"]
"""What happened to a tool, or to a server."""

_TEXTS: Mapping[DriftKind, tuple[str, str]] = {
    "added": ("it was not there when the tools were locked", "{tool} was added"),
    "removed": ("the server does not list it any more", "{tool} was removed"),
    "changed": ("it is not as it was locked: {changes}", "{tool} changed"),
    "identity": (
        "its server is not the one that was locked: {changes}",
        "the server has another version",
    ),
    "server_added": ("its server was not locked", "the server is not in the lockfile"),
    "server_removed": (
        "its server is not configured any more",
        "the server is in the lockfile, but not configured",
    ),
}
"""The label and the headline of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One tool, or one server, that differs from the lockfile."""

    server: str
    kind: DriftKind
    tool: str | None = None
    """The server's name for the tool; `None` for a server."""
    changes: tuple[Change, ...] = ()

    @property
    def loud(self) -> bool:
        """Whether it may be more dangerous than before."""
        return any(change.loud for change in self.changes)

    @property
    def where(self) -> str:
        """The tool or server, as `plait lock --update` takes it."""
        return self.server if self.tool is None else f"{self.server}/{self.tool}"

    @property
    def label(self) -> str:
        """What happened, without quoting the server."""
        changes = ", ".join(dict.fromkeys(change.label for change in self.changes))
        return _TEXTS[self.kind][0].format(changes=changes)

    @property
    def headline(self) -> str:
        """What happened, in one line, without the changes."""
        if self.kind == "identity" and self.loud:
            return "the server is not the one that was locked"
        return _TEXTS[self.kind][1].format(tool=f"`{escaped(self.tool or '')}`")

    @property
    def text(self) -> str:
        """What happened, with every change, in one line."""
        details = "; ".join(change.text for change in self.changes)
        alarm = "DANGER, it may destroy something now: " if self.loud and self.tool else ""
        return f"{alarm}{self.headline}{f': {details}' if details else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Describe it as plain data."""
        plain = {name: getattr(self, name) for name in ("server", "kind", "tool", "loud", "text")}
        return {**plain, "changes": [change.to_dict() for change in self.changes]}


def server_drift(server: str, before: LockedServer | None, after: LockedServer) -> list[Drift]:
    """Compare a server with its entry in the lockfile, tool by tool."""
    if before is None:
        return [Drift(server=server, kind="server_added")]
    drift: list[Drift] = []
    if changes := identity_changes(before.identity, after.identity):
        drift.append(Drift(server=server, kind="identity", changes=tuple(changes)))
    for name, tool in before.tools.items():
        now = after.tools.get(name)
        if now is None:
            drift.append(Drift(server=server, kind="removed", tool=name))
        elif now.hash != tool.hash:
            changed = tool_changes(tool, now)
            drift.append(Drift(server=server, kind="changed", tool=name, changes=changed))
    added = (name for name in after.tools if name not in before.tools)
    return [*drift, *(Drift(server=server, kind="added", tool=name) for name in added)]


def file_drift(
    lockfile: Lockfile, seen: Mapping[str, LockedServer], configured: Collection[str]
) -> list[Drift]:
    """Compare all listed servers; servers that are no longer configured are drift too."""
    drift = [
        one
        for name, server in seen.items()
        for one in server_drift(name, lockfile.servers.get(name), server)
    ]
    gone = [name for name in lockfile.servers if name not in configured]
    return [*drift, *(Drift(server=name, kind="server_removed") for name in gone)]


def relocked(
    lockfile: Lockfile, seen: Mapping[str, LockedServer], configured: Collection[str]
) -> Lockfile:
    """Accept all listed servers; those that could not be listed stay unchanged."""
    kept = {name: one for name, one in lockfile.servers.items() if name in configured}
    return Lockfile({**kept, **seen})


def updated(lockfile: Lockfile, seen: Mapping[str, LockedServer], names: Iterable[str]) -> Lockfile:
    """Accept only these: `server` with all its tools, or `server/tool`."""
    servers = dict(lockfile.servers)
    for name in names:
        server, slash, tool = name.partition("/")
        if server not in seen:
            raise ConfigError(f"there is no server {server!r} to update", server=server)
        now = seen[server]
        before = servers.get(server) or replace(now, tools={})
        if not slash:
            servers[server] = now
        elif tool in before.tools or tool in now.tools:
            tools = {known: one for known, one in before.tools.items() if known != tool}
            accepted = {tool: now.tools[tool]} if tool in now.tools else {}
            servers[server] = replace(before, tools=tools | accepted)
        else:
            raise ConfigError(f"{server} has no tool {tool!r} to update", server=server)
    return Lockfile(servers)
