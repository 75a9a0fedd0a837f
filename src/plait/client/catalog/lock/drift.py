"""Differences from the lockfile (added, removed, renamed, swapped, changed), and accepting them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Literal

from plait._support.sanitize import escaped
from plait.client.catalog.lock.changes import (
    Change,
    annotation_changes,
    identity_changes,
    schema_changes,
    text_changes,
)
from plait.client.catalog.lock.entries import LockedServer, LockedTool, Lockfile
from plait.client.catalog.schemas.values import entries_of
from plait.errors import ConfigError

_ToolDriftKind = Literal["added", "removed", "renamed", "swapped", "changed"]

DriftKind = _ToolDriftKind | Literal["identity", "server_added", "server_removed"]
"""What happened to a tool, or to a server."""

_TEXTS: Mapping[DriftKind, tuple[str, str]] = {
    "added": ("it was not there when the tools were locked", "{tool} was added"),
    "removed": ("the server does not list it any more", "{tool} was removed"),
    "renamed": ("it was renamed: it is locked as {other}", "{other} was renamed to {tool}"),
    "swapped": ("it was swapped with {other}", "{tool} was swapped with {other}"),
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
        if self.kind == "changed" and self.other is not None:
            return f"it now has the content of {_quoted(self.other)}"
        changes = ", ".join(dict.fromkeys(change.label for change in self.changes))
        return _TEXTS[self.kind][0].format(other=_quoted(self.other), changes=changes)

    @property
    def headline(self) -> str:
        """What happened, in one line, without the changes."""
        name, other = _quoted(self.tool), _quoted(self.other)
        if self.kind == "changed" and self.other is not None:
            return f"{name} now has the content of {other}"
        if self.kind == "identity" and self.loud:
            return "the server is not the one that was locked"
        more = ", and changed" if self.kind == "renamed" and self.changes else ""
        return _TEXTS[self.kind][1].format(tool=name, other=other) + more

    @property
    def text(self) -> str:
        """What happened, with every change, in one line."""
        details = "; ".join(change.text for change in self.changes)
        alarm = "DANGER, it may destroy something now: " if self.loud and self.tool else ""
        return f"{alarm}{self.headline}{f': {details}' if details else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Describe it as plain data."""
        names = ("server", "kind", "tool", "other", "loud", "text")
        plain = {name: getattr(self, name) for name in names}
        return {**plain, "changes": [change.to_dict() for change in self.changes]}


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
    """Map removed tools to added ones: by equal content and nearest name, then by similarity."""
    pairs: dict[str, str] = {}
    by_essence = {name: tool.essence for name, tool in after.items()}
    for name, tool in before.items():
        essence = tool.essence
        equal = [other for other in after if by_essence[other] == essence]
        if same := [other for other in equal if other not in pairs.values()]:
            pairs[name] = max(
                same, key=lambda one, name=name: SequenceMatcher(None, name, one).ratio()
            )
    rest_before = {name: tool for name, tool in before.items() if name not in pairs}
    rest_after = {name: tool for name, tool in after.items() if name not in pairs.values()}
    for _, name, other in sorted(_similar(rest_before, rest_after), reverse=True):
        if name not in pairs and other not in pairs.values():
            pairs[name] = other
    return pairs


def find_swaps(before: Tools, after: Tools, names: Collection[str]) -> dict[str, str]:
    """Map changed tools to those whose content they have now; `names` are the changed ones."""
    known = {name: before[name] for name in names}
    moved: dict[str, str] = {}
    for name in names:
        tool, features = after[name], features_of(after[name])
        own = similarity(features, features_of(known[name]))
        scores = {
            one: 1.0 if other.essence == tool.essence else similarity(features, features_of(other))
            for one, other in known.items()
            if one != name and one not in moved.values()
        }
        score, nearest = max(((score, one) for one, score in scores.items()), default=(0.0, ""))
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
            if (score := similarity(features, others)) >= _MIN_SIMILARITY:
                yield score, name, other


def similarity(one: Features, other: Features) -> float:
    """Return the similarity of two tools, from 0 to 1."""
    if min(one.total(), other.total()) < _MIN_FEATURES:
        return 0.0
    return 2 * (one & other).total() / (one.total() + other.total())


def features_of(tool: LockedTool) -> Features:
    """Count the words of the description, and the arguments with their types."""
    words = re.findall(r"\w+", tool.description.lower())
    return Counter([*words, *_arguments("", tool.input_schema)])


def _arguments(path: str, schema: Any) -> Iterator[str]:
    for name, one in entries_of(entries_of(schema).get("properties")).items():
        yield f"{path}.{name}"
        yield f"{path}.{name}: {entries_of(one).get('type')}"
        yield from _arguments(f"{path}.{name}", one)


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
    # A renamed tool is updated under both names.
    names = {name for one in meant for name in (one.tool, one.other)}
    kept = {name: known for name, known in before.tools.items() if name not in names}
    accepted = {name: known for name, known in now.tools.items() if name in names}
    return replace(before, tools=kept | accepted)
