"""Differences of a server from the lockfile: added, removed, renamed, swapped, changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal, cast

from plait._support.sanitize import escaped
from plait.client.catalog.lock.changes import (
    Change,
    annotation_changes,
    identity_changes,
    schema_changes,
    text_changes,
)
from plait.client.catalog.lock.entries import LockedServer, LockedTool

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
"""What happened to a tool, or to a server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One tool, or one server, that differs from the lockfile."""

    server: str
    kind: DriftKind
    tool: str | None = None
    """Its current name; for a removed tool, its old one; `None` for a server."""

    other: str | None = None
    """For a renamed tool, its old name; else the tool whose content it has now."""

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
    """Compare a server with its entry in the lockfile."""
    if before is None:
        return [Drift(server=server, kind="server_added")]
    identity = list(identity_changes(before.identity, after.identity))
    drift = [Drift(server=server, kind="identity", changes=tuple(identity))] if identity else []
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
    """Compare two tools without titles, which often repeat the name."""
    return tuple(
        change
        for change in tool_changes(before, after)
        if change.part != "title" and change.path != "title"
    )


def _quoted(name: str | None) -> str:
    return f"`{escaped(name or '')}`"


_MIN_SIMILARITY = 0.8
"""The share of common words and arguments at which two tools count as one."""

_MIN_FEATURES = 4
"""Tools with fewer features are too similar to compare."""

_MAX_PAIRS = 40_000

Tools = Mapping[str, LockedTool]

Features = Counter[str]


def find_renames(before: Tools, after: Tools) -> dict[str, str]:
    """Pair removed tools with added ones: the new name by the old one.

    Identical content comes first, with the nearest name; then similar content.
    """
    pairs: dict[str, str] = {}
    by_essence = {name: tool.essence for name, tool in after.items()}
    for name, tool in before.items():
        essence = tool.essence
        same = [
            one for one in by_essence if by_essence[one] == essence and one not in pairs.values()
        ]
        if same:
            pairs[name] = max(same, key=lambda other, name=name: _similarity_of_names(name, other))
    rest_before = {name: tool for name, tool in before.items() if name not in pairs}
    rest_after = {name: tool for name, tool in after.items() if name not in pairs.values()}
    for _, name, other in sorted(_similar(rest_before, rest_after), reverse=True):
        if name not in pairs and other not in pairs.values():
            pairs[name] = other
    return pairs


def find_swaps(before: Tools, after: Tools, names: Collection[str]) -> dict[str, str]:
    """Find tools that now have the content of another: the other's name by their own.

    `names` are tools in both lists that changed.
    """
    known = {name: before[name] for name in names}
    moved: dict[str, str] = {}
    for name in names:
        tool, features = after[name], features_of(after[name])
        own = similarity(features, features_of(known[name]))
        others = [
            (
                1.0 if other.essence == tool.essence else similarity(features, features_of(other)),
                one,
            )
            for one, other in known.items()
            if one != name and one not in moved.values()
        ]
        score, nearest = max(others, default=(0.0, ""))
        if score >= _MIN_SIMILARITY and score > own:
            moved[name] = nearest
    return moved


def _similar(before: Tools, after: Tools) -> Iterator[tuple[float, str, str]]:
    if len(before) * len(after) > _MAX_PAIRS:
        return
    known = {name: features_of(tool) for name, tool in after.items()}
    for name, tool in before.items():
        features = features_of(tool)
        for other, others in known.items():
            score = similarity(features, others)
            if score >= _MIN_SIMILARITY:
                yield score, name, other


def similarity(one: Features, other: Features) -> float:
    """Return the similarity of two tools, from 0 to 1."""
    size = one.total() + other.total()
    if min(one.total(), other.total()) < _MIN_FEATURES:
        return 0.0
    return 2 * (one & other).total() / size


def features_of(tool: LockedTool) -> Features:
    """Count the words of the description, and the arguments with their types."""
    words = re.findall(r"\w+", tool.description.lower())
    return Counter([*words, *_arguments("", tool.input_schema)])


def _arguments(path: str, schema: Any) -> Iterator[str]:
    for name, one in _entries(_entries(schema).get("properties")).items():
        yield f"{path}.{name}"
        yield f"{path}.{name}: {_entries(one).get('type')}"
        yield from _arguments(f"{path}.{name}", one)


def _entries(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _similarity_of_names(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()
