"""A schema converted for a provider, with notes on what was lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plait.client.catalog.schemas.values import Schema


@dataclass(frozen=True, slots=True)
class ProviderSchema:
    """A converted schema, and how it differs from the original."""

    schema: Schema
    notes: tuple[str, ...] = ()
    """What was lost, or moved to a description, each with its path.

    Without notes, arguments that are valid here are valid for the original too, once they are
    prepared for the server: nulls of absent arguments dropped, JSON strings decoded.
    """


class Notes:
    """Collects notes without duplicates, in order."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._texts = dict.fromkeys(known)

    def add(self, path: str, text: str) -> None:
        """Add a note about a place in the schema."""
        self._texts[f"{path or '(root)'}: {text}"] = None

    @property
    def texts(self) -> tuple[str, ...]:
        """All notes."""
        return tuple(self._texts)
