"""What of a server is not as it was locked: added, removed, renamed, exchanged, changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from plait._support.sanitize import escaped
from plait.client.catalog.lock.changes import (
    Change,
    annotation_changes,
    identity_changes,
    text_changes,
)
from plait.client.catalog.lock.entries import LockedServer, LockedTool
from plait.client.catalog.lock.renames import find_renames, find_swaps
from plait.client.catalog.lock.schema_changes import schema_changes

DriftKind = Literal[
    "added",
    "removed",
    "renamed",
    "swapped",
    "changed",
    "identity",
    "server_added",
    "server_removed",
]
"""What became of a tool, or of a server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One tool, or one server, that is not as it was locked."""

    server: str
    kind: DriftKind
    tool: str | None = None
    """What it is called now; for one that is gone, what it was called; `None` for a server."""

    other: str | None = None
    """For one that was renamed, what it was called; else whose content it has now."""

    changes: tuple[Change, ...] = ()

    @property
    def loud(self) -> bool:
        """Whether it may do more harm than before."""
        return any(change.loud for change in self.changes)

    @property
    def where(self) -> str:
        """The tool or server, as `plait lock --update` takes it."""
        return self.server if self.tool is None else f"{self.server}/{self.tool}"

    @property
    def label(self) -> str:
        """What happened, in a few words that quote nothing that the server chose."""
        parts = ", ".join(dict.fromkeys(change.label for change in self.changes))
        match self.kind:
            case "added":
                return "it was not there when the tools were locked"
            case "removed":
                return "the server does not list it any more"
            case "renamed":
                return f"it was renamed: it is locked as {_quoted(self.other)}"
            case "swapped":
                return f"it was swapped with {_quoted(self.other)}"
            case "changed" if self.other is not None:
                return f"it now has the content of {_quoted(self.other)}"
            case "changed":
                return f"it is not as it was locked: {parts}"
            case "identity":
                return f"its server is not the one that was locked: {parts}"
            case "server_added":
                return "its server was not locked"
            case "server_removed":
                return "its server is not configured any more"

    @property
    def headline(self) -> str:
        """What happened, in one line, without the changes."""
        name, other = _quoted(self.tool), _quoted(self.other)
        match self.kind:
            case "added" | "removed":
                return f"{name} was {self.kind}"
            case "renamed":
                more = ", and changed" if self.changes else ""
                return f"{other} was renamed to {name}{more}"
            case "swapped":
                return f"{name} was swapped with {other}"
            case "changed" if self.other is not None:
                return f"{name} now has the content of {other}"
            case "changed":
                return f"{name} changed"
            case "identity" if self.loud:
                return "the server is not the one that was locked"
            case "identity":
                return "the server has another version"
            case "server_added":
                return "the server is not in the lockfile"
            case "server_removed":
                return "the server is in the lockfile, but not configured"

    @property
    def text(self) -> str:
        """What happened, with every change, in one line."""
        details = "; ".join(change.text for change in self.changes)
        alarm = "DANGER, it may destroy something now: " if self.loud and self.tool else ""
        return f"{alarm}{self.headline}{f': {details}' if details else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Describe it as plain data."""
        return {
            "server": self.server,
            "kind": self.kind,
            "tool": self.tool,
            "other": self.other,
            "loud": self.loud,
            "text": self.text,
            "changes": [change.to_dict() for change in self.changes],
        }


def tool_changes(before: LockedTool, after: LockedTool) -> tuple[Change, ...]:
    """Compare two tools in everything but the name."""
    return (
        *text_changes(before, after),
        *schema_changes("argument", before.input_schema, after.input_schema),
        *schema_changes("result", before.output_schema, after.output_schema),
        *annotation_changes(before, after),
    )


def server_drift(server: str, before: LockedServer | None, after: LockedServer) -> list[Drift]:
    """Compare a server with what was locked of it; nothing is missed, whatever it is called."""
    if before is None:
        return [Drift(server=server, kind="server_added")]
    found = list(identity_changes(before.identity, after.identity))
    drift = [Drift(server=server, kind="identity", changes=tuple(found))] if found else []
    return [*drift, *_tool_drift(server, before, after)]


def _tool_drift(server: str, before: LockedServer, after: LockedServer) -> Iterator[Drift]:
    old, new = before.tools, after.tools
    yield from _drift_of_names(server, before, after)
    differing = [name for name in old if name in new and old[name].hash != new[name].hash]
    moved = find_swaps(old, new, differing)
    for name in differing:
        other = moved.get(name)
        if other is None:
            changes = tool_changes(old[name], new[name])
            yield Drift(server=server, kind="changed", tool=name, changes=changes)
            continue
        kind = "swapped" if moved.get(other) == name else "changed"
        alarms = [one for one in annotation_changes(old[name], new[name]) if one.loud]
        changes = (*_besides_name(old[other], new[name]), *alarms)
        yield Drift(server=server, kind=kind, tool=name, other=other, changes=changes)


def _drift_of_names(server: str, before: LockedServer, after: LockedServer) -> Iterator[Drift]:
    gone = {name: tool for name, tool in before.tools.items() if name not in after.tools}
    new = {name: tool for name, tool in after.tools.items() if name not in before.tools}
    pairs = find_renames(gone, new)
    for name, other in pairs.items():
        changes = _besides_name(gone[name], new[other])
        yield Drift(server=server, kind="renamed", tool=other, other=name, changes=changes)
    for name in gone:
        if name not in pairs:
            yield Drift(server=server, kind="removed", tool=name)
    for name in new:
        if name not in pairs.values():
            yield Drift(server=server, kind="added", tool=name)


def _besides_name(before: LockedTool, after: LockedTool) -> tuple[Change, ...]:
    """Compare two tools in what has nothing to do with their names, as titles have."""
    return tuple(
        change
        for change in tool_changes(before, after)
        if change.part != "title" and change.path != "title"
    )


def _quoted(name: str | None) -> str:
    return f"`{escaped(name or '')}`"
