"""A schema made ready for a model, with notes of what that cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plait.client.catalog.schemas.values import Schema


@dataclass(frozen=True, slots=True)
class ProviderSchema:
    """A schema, and what it no longer says in the way of the original."""

    schema: Schema

    notes: tuple[str, ...] = ()
    """What was lost, or moved to a description, each with its path.

    Without notes, arguments that fit this schema fit the original too, once they are prepared
    for the server: nulls that stand for absent arguments dropped, JSON strings decoded.
    """


class Notes:
    """Collects notes; the same one is kept once."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._texts = dict.fromkeys(known)

    def add(self, path: str, text: str) -> None:
        """Note what happened at a place in the schema."""
        self._texts[f"{path or '(root)'}: {text}"] = None

    def found(self) -> tuple[str, ...]:
        """Return the notes in the order in which they were first made."""
        return tuple(self._texts)
