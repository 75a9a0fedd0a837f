"""For models of which nothing is known: references written out, everything else kept."""

from __future__ import annotations

from plait.catalog.schemas.roots import object_root
from plait.catalog.schemas.shaped import Notes
from plait.catalog.schemas.values import Schema


def shape(schema: Schema, notes: Notes) -> Schema:
    """Return the schema of an object, with its combinators as they are."""
    return object_root(schema, notes)
