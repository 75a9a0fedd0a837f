"""For OpenAI's strict mode: every object closed, every property required, no open maps.

The subset: https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
An optional argument becomes one that may be null; the null is dropped before the server sees it.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final

from plait.client.catalog.schemas.keywords import places_in
from plait.client.catalog.schemas.merge import values_of
from plait.client.catalog.schemas.profiles.narrowing import Narrowing
from plait.client.catalog.schemas.provider_schema import Notes
from plait.client.catalog.schemas.values import Schema, as_list, as_schema, canonical, json_type

_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_MOST_LEVELS: Final = 10
_MOST_PROPERTIES: Final = 5_000
_MOST_VALUES: Final = 1_000
_MOST_CHARACTERS: Final = 120_000
_LOOKS_AROUND: Final = re.compile(r"\(\?[=!<]|\\[1-9]|\\k<")
"""Lookaround and back references, which constrained decoding cannot follow."""

_NUMBERS: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)


def convert(schema: Schema, notes: Notes) -> Schema:
    """Return the schema within the subset of strict mode."""
    strict = _Strict(notes).convert_arguments(schema)
    _note_size(strict, notes)
    return strict


class _Strict(Narrowing):
    keeps: ClassVar[dict[str, frozenset[str]]] = {
        "string": frozenset({"pattern", "format"}),
        "number": _NUMBERS,
        "integer": _NUMBERS,
        "array": frozenset({"minItems", "maxItems"}),
    }

    def convert_root(self, node: Schema) -> Schema:
        return self._closed(node, "", 1)

    def convert_object(self, node: Schema, path: str, level: int) -> Schema:
        is_map = not node.get("properties") and (
            node.get("additionalProperties") is not False or "patternProperties" in node
        )
        if is_map or level > _MOST_LEVELS:
            return self.object_as_text(node, path)
        return self._closed(node, path, level)

    def _closed(self, node: Schema, path: str, level: int) -> Schema:
        names = as_list(node.get("required"))
        required = {name for name in names if isinstance(name, str)}
        properties = {
            name: inner if name in required else self.nullable(inner)
            for name, inner in self.convert_properties(node, path, level).items()
        }
        closed: Schema = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        return self.finish(closed, node, path)

    def may_keep(self, key: str, value: Any, kind: str) -> bool:
        if not super().may_keep(key, value, kind):
            return False
        if key == "format":
            return value in _FORMATS
        return key != "pattern" or not _LOOKS_AROUND.search(value)

    def listed_values(self, kind: str, values: list[Any]) -> Schema | None:
        return None if kind in ("array", "object") else {"enum": values}

    def nullable(self, schema: Schema) -> Schema:
        if "anyOf" in schema:
            if any(member.get("type") == "null" for member in schema["anyOf"]):
                return schema
            return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
        kind = schema["type"]
        if isinstance(kind, list) or kind == "null":
            return schema
        if kind in ("object", "array"):
            about = {key: schema[key] for key in ("title", "description") if key in schema}
            bare = {key: value for key, value in schema.items() if key not in about}
            return {"anyOf": [bare, {"type": "null"}], **about}
        with_null: Schema = {**schema, "type": [kind, "null"]}
        if "enum" in schema:
            with_null["enum"] = [*schema["enum"], None]
        return with_null

    def union(self, members: list[Schema], about: Schema) -> Schema:
        return {"anyOf": _by_discriminator(members), **about}

    def without_null(self, schema: Schema) -> Schema:
        kinds = as_list(schema.get("type"))
        if not kinds:
            return schema
        changed = {**schema, "type": next(kind for kind in kinds if kind != "null")}
        if "enum" in schema:
            changed["enum"] = [value for value in schema["enum"] if value is not None]
        return changed


def _by_discriminator(members: list[Schema]) -> list[Schema]:
    """Put the discriminator of objects first: the decoder looks at the first key.

    The API refuses alternatives with the same first key, unless its values differ.
    """
    objects = [member for member in members if member.get("type") == "object"]
    if len(objects) < 2:
        return members
    return [
        _starting_with(member, _telling(member, [one for one in objects if one is not member]))
        if member.get("type") == "object"
        else member
        for member in members
    ]


def _telling(member: Schema, others: list[Schema]) -> str | None:
    properties: Schema = member["properties"]
    shared = {name for other in others for name in other["properties"]}
    for name, inner in properties.items():
        own = _texts(inner)
        if own and all(
            name in other["properties"] and own.isdisjoint(_texts(other["properties"][name]) or own)
            for other in others
        ):
            return name
    return next((name for name in properties if name not in shared), None)


def _texts(schema: Schema) -> set[str]:
    return {canonical(value) for value in values_of(schema) or []}


def _starting_with(schema: Schema, name: str | None) -> Schema:
    if name is None:
        return schema
    properties = {name: schema["properties"][name], **schema["properties"]}
    return {**schema, "properties": properties, "required": list(properties)}


def _note_size(schema: Schema, notes: Notes) -> None:
    places = [place for _, place in places_in(schema)]
    names = [name for place in places for name in as_schema(place.get("properties"))]
    values = [value for place in places for value in as_list(place.get("enum"))]
    texts = [value for value in values if json_type(value) == "string"]
    characters = sum(map(len, names)) + sum(map(len, texts))
    for count, most, what in (
        (len(names), _MOST_PROPERTIES, "properties"),
        (len(values), _MOST_VALUES, "listed values"),
        (characters, _MOST_CHARACTERS, "characters in names and listed values"),
    ):
        if count > most:
            notes.add("", f"may be refused: {count} {what}, more than {most}", "size")
