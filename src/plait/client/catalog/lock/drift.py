"""How listed tools differ from the lockfile, and what becomes of them.

There is one change for each place that differs, with both values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Literal

from plait._support.sanitize import escaped
from plait.client.catalog.lock.entries import (
    LockedServer,
    LockedTool,
    Lockfile,
    text_of,
)
from plait.client.catalog.lock.identity import Identity
from plait.client.catalog.tool import Tool
from plait.errors import ConfigError
from plait.models.schemas.describe import outline
from plait.models.schemas.json_schema import NAMED_SCHEMAS, is_list, is_mapping

Part = Literal[
    "title", "description", "argument", "result", "annotation", "name", "version", "address"
]
"""The part of a tool or a server that changed."""

How = Literal["changed", "added", "removed"]
"""How it changed."""

_ABSENT: Final[Any] = object()
"""Stands for a keyword or an argument that is not there; `None` is a JSON value."""
MAX_VALUE_CHARS: Final = 120
"""Longer values are cut, so that a change stays one readable line."""
MAX_KEPT_CHARS: Final = 60
"""Characters of an unchanged run that are shown on either side of a change."""
MAX_COMPARED_WORDS: Final = 4_000
"""Longer texts are compared line by line: words would take minutes."""
_WORD = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference from the lockfile."""

    part: Part
    how: How = "changed"
    path: str = ""
    """Which argument or annotation, such as `address.zip` or `tags[]`."""
    before: Any = field(default=None, repr=False)
    after: Any = field(default=None, repr=False)
    loud: bool = False
    """Whether the tool may be more dangerous than before."""

    @property
    def label(self) -> str:
        """What changed, without quoting the server: for errors."""
        of_server = " of the server" if self.part in {"address", "version"} else ""
        return f"{self.part}{of_server} {self.how}"

    @property
    def text(self) -> str:
        """What changed, in one line, with both values, escaped."""
        where = f"{self.part} {escaped(self.path)}".strip()
        if self.how != "changed":
            value = outline(self.after if self.how == "added" else self.before)
            return f"{where} was {self.how} ({_short(value)})"
        values = self.before, self.after
        texts = [value if isinstance(value, str) else text_of(value) for value in values]
        # Cut to their beginnings, long values could look the same.
        is_long = None not in values and max(map(len, texts)) > MAX_VALUE_CHARS
        if self.is_prose or is_long:
            return f"{where}: {text_of_diff(word_diff(*texts))}"
        return f"{where}: {_short(self.before)} → {_short(self.after)}"

    @property
    def is_prose(self) -> bool:
        """Whether both values are texts that a model reads."""
        is_description = self.part == "description" or self.path.endswith("description")
        return is_description and isinstance(self.before, str) and isinstance(self.after, str)

    def to_dict(self) -> dict[str, Any]:
        """Describe the change as plain data."""
        return {**asdict(self), "text": self.text}


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    text = escaped(value if isinstance(value, str) else text_of(value))
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[: MAX_VALUE_CHARS - 1]}…"


def identity_changes(before: Identity, after: Identity) -> list[Change]:
    """Compare name, version and address of a server; only another version is not loud."""
    parts: tuple[Part, ...] = ("name", "version", "address")
    return [
        Change(part=part, before=old, after=new, loud=part != "version")
        for part in parts
        if (old := getattr(before, part)) != (new := getattr(after, part))
    ]


def tool_changes(before: LockedTool, after: LockedTool) -> tuple[Change, ...]:
    """Compare two tools in everything but the name; if they differ, there is a change."""
    parts: tuple[Part, ...] = ("title", "description")
    changes = [
        Change(part=part, before=old, after=new)
        for part in parts
        if (old := getattr(before, part)) != (new := getattr(after, part))
    ]
    changes += _schema_changes("argument", "", before.input_schema, after.input_schema)
    changes += _schema_changes("result", "", before.output_schema, after.output_schema)
    hints = before.annotations, after.annotations
    was, is_now = (
        Tool(server="", wire_name="", name="", annotations=known).destructive for known in hints
    )
    for name in sorted({*hints[0], *hints[1]}):
        old, new = (known.get(name) for known in hints)
        if text_of(old) != text_of(new):
            # It was declared harmless when somebody reviewed it.
            loud = is_now and not was and name in {"read_only_hint", "destructive_hint"}
            changes.append(Change(part="annotation", path=name, before=old, after=new, loud=loud))
    return tuple(changes)


def _schema_changes(
    part: Literal["argument", "result"],
    path: str,
    before: Any,
    after: Any,
    *,
    names: bool = False,
) -> Iterator[Change]:
    """Compare two schemas; with `names`, two objects of schemas by name."""
    if is_mapping(before) and is_mapping(after):
        for key in sorted({*before, *after}):
            old, new = before.get(key, _ABSENT), after.get(key, _ABSENT)
            where = f"{path}.{key}" if path else key
            if names and (old is _ABSENT or new is _ABSENT):
                how: How = "added" if old is _ABSENT else "removed"
                known = {"before": old, "after": new}
                given = {when: value for when, value in known.items() if value is not _ABSENT}
                yield Change(part=part, how=how, path=where, **given)
            elif names:
                yield from _schema_changes(part, where, old, new)
            elif key == "properties":
                yield from _schema_changes(part, path, old, new, names=True)
            else:
                place = f"{path}[]" if key == "items" else where
                yield from _schema_changes(part, place, old, new, names=key in NAMED_SCHEMAS)
    elif is_list(before) and is_list(after) and any(map(is_mapping, [*before, *after])):
        for number, (old, new) in enumerate(zip_longest(before, after, fillvalue=_ABSENT), 1):
            yield from _schema_changes(part, f"{path}({number})", old, new)
    elif before is _ABSENT or after is _ABSENT or text_of(before) != text_of(after):
        old, new = (None if value is _ABSENT else value for value in (before, after))
        yield Change(part=part, path=path or "schema", before=old, after=new)


Span = tuple[Literal["same", "gone", "new"], str]
"""A run of words, and whether it is unchanged, removed or added."""


def word_diff(before: str, after: str) -> list[Span]:
    """Compare two texts; invisible characters are escaped, and long unchanged runs are cut."""
    old, new = (_WORD.findall(escaped(text)) for text in (before, after))
    if max(len(old), len(new)) > MAX_COMPARED_WORDS:
        old, new = (escaped(text).splitlines(keepends=True) for text in (before, after))
    spans: list[Span] = []
    opcodes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for number, (kind, start, end, new_start, new_end) in enumerate(opcodes):
        text = "".join(old[start:end])
        if kind != "equal":
            if text:
                spans.append(("gone", text))
            if new_start < new_end:
                spans.append(("new", "".join(new[new_start:new_end])))
        elif len(text) <= 2 * MAX_KEPT_CHARS:
            spans.append(("same", text))
        else:
            head = text[:MAX_KEPT_CHARS] if number else ""
            tail = text[-MAX_KEPT_CHARS:] if number < len(opcodes) - 1 else ""
            spans.append(("same", f"{head} … {tail}"))
    return spans


def text_of_diff(spans: Sequence[Span]) -> str:
    """Write a comparison in one line: `Pay [-a bill-]{+any bill+}.`."""
    marks = {"same": ("", ""), "gone": ("[-", "-]"), "new": ("{+", "+}")}
    parts = [f"{marks[kind][0]}{text}{marks[kind][1]}" for kind, text in spans]
    return " ".join("".join(parts).split())


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
        drift, unchecked = [one.to_dict() for one in self.drift], list(self.unchecked)
        known = {"ok": self.ok, "mode": self.mode, "file": self.file}
        return {**known, "drift": drift, "unchecked": unchecked}
