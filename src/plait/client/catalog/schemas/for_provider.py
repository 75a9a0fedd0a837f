"""Convert the schema of a tool's arguments for the models of one provider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, get_args

from plait.client.catalog.schemas.clean import clean
from plait.client.catalog.schemas.profiles import anthropic, default, gemini, openai, openai_strict
from plait.client.catalog.schemas.provider_schema import Notes, ProviderSchema
from plait.client.catalog.schemas.refs import inline_refs
from plait.client.catalog.schemas.values import Schema

Profile = Literal["default", "openai", "openai_strict", "anthropic", "gemini"]
"""What a schema may say, by who reads it."""

PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)

_CONVERTERS: Final[dict[Profile, Callable[[Schema, Notes], Schema]]] = {
    "default": default.convert,
    "openai": openai.convert,
    "openai_strict": openai_strict.convert,
    "anthropic": anthropic.convert,
    "gemini": gemini.convert,
}


def schema_for_provider(schema: object, profile: Profile | None = None) -> ProviderSchema:
    """Return the schema of an object that the models of a profile accept.

    No profile is the default one: references written out, everything else kept. Any input is
    taken; what cannot be said in the profile's subset is said in descriptions, and noted.
    """
    inlined = inline_refs(schema)
    notes = Notes(inlined.notes)
    shaped = _CONVERTERS[profile or "default"](clean(inlined.schema, notes), notes)
    return ProviderSchema(shaped, notes.found())
