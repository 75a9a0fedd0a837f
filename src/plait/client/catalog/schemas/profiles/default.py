"""For models of which nothing is known: references written out, everything else kept."""

from __future__ import annotations

from plait.client.catalog.schemas.provider_schema import Notes
from plait.client.catalog.schemas.roots import object_root
from plait.client.catalog.schemas.values import Schema


def convert(schema: Schema, notes: Notes) -> Schema:
    """Return the schema of an object, with its combinators as they are."""
    return object_root(schema, notes)
