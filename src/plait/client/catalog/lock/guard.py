"""Checking listed tools against the lockfile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from plait.client.catalog.lock.drift import Drift, server_drift
from plait.client.catalog.lock.entries import LockedServer, Lockfile
from plait.client.catalog.lock.identity import Identity
from plait.client.catalog.tool import Tool

LockMode = Literal["off", "warn", "block"]
"""What happens to tools that differ from the lockfile."""


@dataclass(frozen=True, slots=True)
class LockCheck:
    """The result of comparing one listing with the lockfile."""

    server: str
    drift: tuple[Drift, ...] = ()
    blocks: bool = False
    """Whether tools that differ are not offered."""
    locked: frozenset[str] = frozenset()
    """The names in the lockfile."""

    def refusal(self, wire_name: str) -> str | None:
        """Return why a tool must not be called, or `None` if it may be."""
        if not self.blocks:
            return None
        see = f"see: plait lock --check {self.server}"
        for one in self.drift:
            # A new version alone is no reason to distrust every tool of a server.
            other_server = one.kind == "identity" and one.loud
            if one.tool == wire_name or one.kind == "server_added" or other_server:
                return f"{one.label}; to accept it: plait lock --update {one.where}"
        # One that the server does not list, it may still run.
        return None if wire_name in self.locked else f"it is not in the lockfile; {see}"


UNCHECKED = LockCheck("")


@dataclass(frozen=True, slots=True)
class ToolLock:
    """A lockfile, and its mode."""

    mode: LockMode
    path: Path
    file: Lockfile = field(repr=False)

    def check(self, server: str, identity: Identity, tools: Iterable[Tool]) -> LockCheck:
        """Compare the tools that a server lists with the lockfile."""
        before = self.file.servers.get(server)
        now = LockedServer.of(identity, tools)
        known = frozenset(before.tools if before is not None else ())
        drift = tuple(server_drift(server, before, now))
        return LockCheck(server, drift, self.mode == "block", known)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockReport:
    """How the listed tools differ from the lockfile."""

    mode: LockMode = "off"
    file: str | None = None
    drift: tuple[Drift, ...] = ()
    unchecked: tuple[str, ...] = ()
    """Servers that did not list their tools yet."""

    @property
    def ok(self) -> bool:
        """Whether nothing is known to differ."""
        return not self.drift

    def to_dict(self) -> Mapping[str, Any]:
        """Describe the report as plain data."""
        return {
            "ok": self.ok,
            "mode": self.mode,
            "file": self.file,
            "drift": [one.to_dict() for one in self.drift],
            "unchecked": list(self.unchecked),
        }
