"""The servers of a client, which its user may change at any time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from plait.client.config.file_layouts import is_server_entry
from plait.client.config.read import ClientConfig, ConfigSource, read_config
from plait.client.config.servers import ServerOptions


@dataclass(frozen=True, slots=True)
class Changes:
    """What was changed since the last look."""

    new: Mapping[str, Any]
    gone: tuple[str, ...]


class ServerList:
    """Keeps the dictionary that a user sees, and notices what is done to it."""

    def __init__(self, source: ConfigSource | None) -> None:
        """Read the configuration.

        Raises:
            ConfigError: Anything is wrong with it.
        """
        if not source:
            self.config = ClientConfig(servers={})
            self.connections: dict[str, Any] = source if isinstance(source, dict) else {}
        else:
            self.config = read_config(source)
            self.connections = _as_written(source, self.config)
        self._seen = _copied(self.connections)

    def changes(self) -> Changes:
        """Say what was added, replaced and taken away since the last time."""
        if self._seen == self.connections:
            return Changes({}, ())
        before, self._seen = self._seen, _copied(self.connections)
        new = {
            name: connection
            for name, connection in self.connections.items()
            if name not in before or before[name] != self._seen[name]
        }
        return Changes(new, tuple(name for name in before if name not in self.connections))


def _as_written(source: ConfigSource, config: ClientConfig) -> dict[str, Any]:
    """Return the user's own dictionary of servers, where there is one."""
    if isinstance(source, dict):
        entries = cast("dict[str, Any]", source)
        if set(entries) == set(config.servers) and all(map(_is_server, entries.values())):
            return entries
    return dict(config.servers)


def _is_server(value: object) -> bool:
    return (
        isinstance(value, ServerOptions) or is_server_entry(value) or not isinstance(value, Mapping)
    )


def _copied(connections: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {key: _inner(entry) for key, entry in cast("Mapping[str, Any]", one).items()}
        if isinstance(one, Mapping)
        else one
        for name, one in connections.items()
    }


def _inner(value: Any) -> Any:
    if isinstance(value, dict):
        return dict(cast("dict[str, Any]", value))
    return list(cast("list[Any]", value)) if isinstance(value, list) else value
