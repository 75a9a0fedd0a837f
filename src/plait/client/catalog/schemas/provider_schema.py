"""A schema converted for a provider, with notes on what was lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self

from plait.client.catalog.schemas.values import Schema

NoteKind = Literal[
    "invalid",
    "refs",
    "names",
    "size",
    "recursion",
    "alternatives",
    "limits",
    "patterns",
    "json_text",
    "closed",
    "keywords",
]
"""The kinds of losses that notes report."""


class Note(str):
    """A note with its path, and its kind."""

    kind: NoteKind

    def __new__(cls, text: str, kind: NoteKind) -> Self:
        """Make a note of this kind."""
        note = super().__new__(cls, text)
        note.kind = kind
        return note


@dataclass(frozen=True, slots=True)
class ProviderSchema:
    """A converted schema, and how it differs from the original."""

    schema: Schema
    notes: tuple[Note, ...] = ()
    """What was lost, or moved to a description, each with its path.

    Without notes, arguments that are valid here are valid for the original too, once they are
    prepared for the server: nulls of absent arguments dropped, JSON strings decoded.
    """


_ALTERNATIVES = frozenset({"anyOf", "oneOf", "allOf"})


class Notes:
    """Collects notes without duplicates, in order."""

    def __init__(self) -> None:
        self._notes: dict[Note, None] = {}

    def add(self, path: str, text: str, kind: NoteKind) -> None:
        """Add a note about a place in the schema."""
        self._notes.setdefault(Note(f"{path or '(root)'}: {text}", kind), None)

    def add_moved(self, path: str, keywords: Iterable[str]) -> None:
        """Note which keywords moved to the description."""
        names = list(keywords)
        kind = "limits" if _ALTERNATIVES.isdisjoint(names) else "alternatives"
        self.add(path, f"{', '.join(names)} moved to the description", kind)

    @property
    def all(self) -> tuple[Note, ...]:
        """All notes."""
        return tuple(self._notes)
