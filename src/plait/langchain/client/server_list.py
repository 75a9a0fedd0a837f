"""The servers of a client, as a dictionary that the user may change at any time."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, cast

from plait.client.config.read import ClientConfig, ConfigSource, is_server_entry, read_config
from plait.client.config.servers import ServerOptions


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes since the last check."""

    new: Mapping[str, Any]
    removed: tuple[str, ...]


class ServerList:
    """Holds the dictionary of connections, and detects changes to it."""

    def __init__(self, source: ConfigSource | None) -> None:
        if not source:
            self.config = ClientConfig(servers={})
            self.connections: dict[str, Any] = source if isinstance(source, dict) else {}
        else:
            self.config = read_config(source)
            self.connections = _user_dict(source, self.config)
        self._seen = _copy(self.connections)

    def changes(self) -> Changes:
        """Return what was added, replaced and removed since the last call."""
        if self._seen == self.connections:
            return Changes({}, ())
        before, self._seen = self._seen, _copy(self.connections)
        new = {
            name: connection
            for name, connection in self.connections.items()
            if name not in before or before[name] != self._seen[name]
        }
        return Changes(new, tuple(name for name in before if name not in self.connections))


def _user_dict(source: ConfigSource, config: ClientConfig) -> dict[str, Any]:
    """Return the user's own dictionary of servers if it is one, else a new dictionary."""
    if isinstance(source, dict):
        entries = cast("dict[str, Any]", source)
        if set(entries) == set(config.servers) and all(map(_is_server, entries.values())):
            return entries
    return dict(config.servers)


def _is_server(value: object) -> bool:
    return (
        isinstance(value, ServerOptions) or is_server_entry(value) or not isinstance(value, Mapping)
    )


def _copy(connections: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {
            key: copy(cast("Any", value)) if isinstance(value, dict | list) else value
            for key, value in cast("Mapping[str, Any]", entry).items()
        }
        if isinstance(entry, Mapping)
        else entry
        for name, entry in connections.items()
    }
