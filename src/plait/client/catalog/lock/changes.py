"""What changed about one tool, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from plait._support.sanitize import escaped
from plait.client.catalog.lock.canonical import text_of
from plait.client.catalog.lock.entries import Identity, Json, LockedTool
from plait.client.catalog.lock.text_diff import text_of_diff, word_diff
from plait.client.catalog.tool import Tool

Part = Literal[
    "title", "description", "argument", "result", "annotation", "name", "version", "address"
]
"""What of a tool or a server changed."""

How = Literal["changed", "added", "removed", "type", "required", "optional"]
"""In which way."""

_LONGEST_VALUE = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that is not as it was locked."""

    part: Part
    how: How = "changed"
    path: str = ""
    """Which argument or annotation, such as `address.zip` or `tags[]`."""

    before: Any = field(default=None, repr=False)
    after: Any = field(default=None, repr=False)
    loud: bool = False
    """Whether the tool may do more harm than it could before."""

    @property
    def label(self) -> str:
        """What changed, in a few words that quote nothing of the server: for errors."""
        noun = {"address": "address of the server", "version": "version of the server"}.get(
            self.part, self.part
        )
        match self.how:
            case "added" | "removed":
                return f"{noun} {self.how}"
            case "required" | "optional":
                return f"{noun} now {self.how}"
            case "type" | "changed":
                return f"{noun} changed"

    @property
    def text(self) -> str:
        """What changed, in one line, with both values; nothing in it is hidden."""
        where = f"{self.part} {escaped(self.path)}".strip()
        match self.how:
            case "added" | "removed":
                value = self.after if self.how == "added" else self.before
                return f"{where} was {self.how}{_brief(value)}"
            case "required" | "optional":
                return f"{where} is now {self.how}"
            case "type" | "changed":
                return f"{where}: {self._difference()}"

    def _difference(self) -> str:
        if isinstance(self.before, str) and isinstance(self.after, str) and self.is_prose:
            return text_of_diff(word_diff(self.before, self.after))
        return f"{_shown(self.before)} → {_shown(self.after)}"

    @property
    def is_prose(self) -> bool:
        """Whether both values are texts that are read by a model."""
        return (
            isinstance(self.before, str)
            and isinstance(self.after, str)
            and self.how == "changed"
            and (self.part == "description" or self.path.endswith("description"))
        )

    def to_dict(self) -> dict[str, Any]:
        """Describe the change as plain data."""
        return {
            "part": self.part,
            "how": self.how,
            "path": self.path,
            "before": self.before,
            "after": self.after,
            "loud": self.loud,
            "text": self.text,
        }


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    text = escaped(value if isinstance(value, str) else text_of(value))
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _brief(value: Any) -> str:
    return "" if value is None else f" ({_shown(value)})"


def annotation_changes(before: LockedTool, after: LockedTool) -> Iterator[Change]:
    """Compare the hints; those that make a tool more dangerous are loud."""
    old, new = before.annotations, after.annotations
    louder = is_destructive(new) and not is_destructive(old)
    for name in sorted({*old, *new}):
        if text_of(old.get(name)) == text_of(new.get(name)):
            continue
        loud = louder and name in {"read_only_hint", "destructive_hint"}
        yield Change(
            part="annotation", path=name, before=old.get(name), after=new.get(name), loud=loud
        )


def is_destructive(annotations: Json) -> bool:
    """Say whether a tool with these hints may destroy something, as the client reads them."""
    return Tool(server="", wire_name="", name="", annotations=annotations).destructive


def identity_changes(before: Identity, after: Identity) -> Iterator[Change]:
    """Compare who a server says it is, and where it is."""
    if before.name != after.name:
        yield Change(part="name", before=before.name, after=after.name, loud=True)
    if before.version != after.version:
        yield Change(part="version", before=before.version, after=after.version)
    addresses = [f"{one.transport} {one.target}".strip() for one in (before, after)]
    if addresses[0] != addresses[1]:
        yield Change(part="address", before=addresses[0], after=addresses[1], loud=True)


def text_changes(before: LockedTool, after: LockedTool) -> Iterator[Change]:
    """Compare title and description."""
    texts: Mapping[Part, tuple[str | None, str | None]] = {
        "title": (before.title, after.title),
        "description": (before.description, after.description),
    }
    for part, (old, new) in texts.items():
        if old != new:
            yield Change(part=part, before=old, after=new)
