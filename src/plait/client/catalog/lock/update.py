"""Accepting changes into the lockfile: all of them, one server, or single tools."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from plait.client.catalog.lock.drift import Drift, server_drift
from plait.client.catalog.lock.entries import LockedServer, Lockfile
from plait.errors import ConfigError


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
    """Accept only these: `server` with all its tools, or `server/tool`.

    Raises:
        ConfigError: There is no such server or tool.
    """
    servers = dict(lockfile.servers)
    for name in names:
        server, slash, tool = name.partition("/")
        if server not in seen:
            raise ConfigError(f"there is no server {server!r} to update", server=server)
        if not slash:
            servers[server] = seen[server]
            continue
        before = servers.get(server) or replace(seen[server], tools={})
        servers[server] = _with_tool(server, tool, before, seen[server])
    return Lockfile(servers)


def _with_tool(server: str, tool: str, before: LockedServer, now: LockedServer) -> LockedServer:
    if tool not in before.tools and tool not in now.tools:
        raise ConfigError(f"{server} has no tool {tool!r} to update", server=server)
    drift = server_drift(server, before, now)
    meant = [one for one in drift if tool in (one.tool, one.other) and one.tool is not None]
    for one in meant:
        # A renamed tool is updated under both names.
        for name in filter(None, (one.tool, one.other)):
            before = before.with_tool(name, now.tools.get(name))
    return before
