"""Converting the schema of a tool's arguments for the models of one provider."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, get_args

from plait.client.catalog.allowance import TooMuchWorkError, allowed_seconds
from plait.client.catalog.schemas.keywords import map_children, places_in, types_of
from plait.client.catalog.schemas.plain_schema import shared_if_plain
from plait.client.catalog.schemas.profiles import gemini, openai_strict
from plait.client.catalog.schemas.provider_schema import Notes, ProviderSchema
from plait.client.catalog.schemas.refs import cleaned_schema
from plait.client.catalog.schemas.roots import bare_root, object_root, plain_root
from plait.client.catalog.schemas.values import Schema, as_list, as_schema, plain

Profile = Literal["default", "openai", "openai_strict", "anthropic", "gemini"]
"""A family of models, by what it accepts in a schema."""

PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)
"""Every profile, by name."""

_ANTHROPIC_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_MOST_SECONDS = 0.06
"""Conversions run in event loops, one tool at a time."""
_OPENAI_FLAGS = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems")
"""Keywords that may be booleans; elsewhere a boolean schema is refused."""


def schema_for_provider(schema: object, profile: Profile | None = None) -> ProviderSchema:
    """Convert a schema into one for an object that the models of a profile accept.

    The default profile inlines references and keeps everything else. Any input is accepted; what
    the profile's subset cannot express is moved to descriptions, and noted.
    """
    profile = profile or "default"
    try:
        with allowed_seconds(_MOST_SECONDS):
            return _converted(schema, profile)
    except TooMuchWorkError:
        notes = Notes()
        notes.add("", "too large to be converted, so any arguments are allowed", "size")
        return ProviderSchema(_CONVERTERS[profile]({}, notes), notes.all)


def _converted(schema: object, profile: Profile) -> ProviderSchema:
    if profile == "default" and (shared := shared_if_plain(schema)) is not None:
        return ProviderSchema(plain(shared))
    notes = Notes()
    converted = _CONVERTERS[profile](cleaned_schema(schema, notes), notes)
    return ProviderSchema(converted, notes.all)


def _for_anthropic(schema: Schema, notes: Notes) -> Schema:
    """Remove alternatives at the top level, and note property names that may be refused.

    https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools
    """
    root = plain_root(schema, notes)
    for path, place in places_in(root):
        for name in as_schema(place.get("properties")):
            if not _ANTHROPIC_NAME.fullmatch(name):
                # The server knows the argument by no other name, so it stays.
                text = f"the name {name!r} may be refused: letters, digits and _.- only"
                notes.add(path, text, "names")
    return root


def _for_openai(schema: Schema, notes: Notes) -> Schema:
    """Describe combinators, `enum`, `const` and `not` of the top level; give arrays `items`.

    https://developers.openai.com/api/docs/guides/function-calling
    """
    return _with_items(bare_root(schema, notes))


def _with_items(schema: Schema) -> Schema:
    changed = map_children(_with_max_items(schema), lambda inner, _: _with_items(as_schema(inner)))
    for key in _OPENAI_FLAGS:
        if isinstance(schema.get(key), bool):
            changed[key] = schema[key]
    if "array" in types_of(changed):
        changed.setdefault("items", {})
    return changed


def _with_max_items(schema: Schema) -> Schema:
    """Express `items: false` as `maxItems`."""
    if schema.get("items") is not False:
        return schema
    first = len(as_list(schema.get("prefixItems")))
    return {**schema, "items": {}, "maxItems": min(first, schema.get("maxItems", first))}


_CONVERTERS: Final[dict[Profile, Callable[[Schema, Notes], Schema]]] = {
    "default": object_root,
    "openai": _for_openai,
    "openai_strict": openai_strict.convert,
    "anthropic": _for_anthropic,
    "gemini": gemini.convert,
}
