"""Flattening a schema: each place has one type, or a plain list of alternatives.

The result has neither `allOf` nor `oneOf`, no `const` and no lists of types.
A schema in it is one of three things: `{"anyOf": [...]}` of schemas with a type; a schema with one
`type` and only the keywords of that type; or a schema without a type, which allows anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plait.client.catalog.schemas.describe import (
    about_union,
    join_descriptions,
    notes_for,
    only_needs,
    with_sentences,
)
from plait.client.catalog.schemas.keywords import CONSTRAINTS, UNIONS, step_into
from plait.client.catalog.schemas.merge import (
    NEVER,
    allows_anything,
    are_disjoint,
    evaluated,
    is_never,
    merge,
    merge_members,
    narrowed,
    possible_types,
)
from plait.client.catalog.schemas.values import (
    MOST_DEPTH,
    Schema,
    as_list,
    as_schema,
    distinct,
    is_schema,
)

if TYPE_CHECKING:
    from plait.client.catalog.schemas.provider_schema import Notes

_MOST_COPIES = 200
"""Keywords beside alternatives are copied into each; after this many, they are described."""
_MOST_PLACES = 20_000
"""After this many places, the rest allows anything."""


def flatten(schema: Schema, notes: Notes) -> Schema:
    """Return a flattened schema; losses are noted."""
    return _Flattener(notes).flatten(schema, "", 0)


def alternatives(schema: Schema) -> list[Schema]:
    """List the alternatives of a flattened schema, each with the common description."""
    if "anyOf" not in schema:
        return [schema]
    description = with_sentences(schema.get("description"), notes_for(schema))
    return [
        described(member, join_descriptions(description, member.get("description")))
        for member in schema["anyOf"]
    ]


def described(schema: Schema, description: str | None) -> Schema:
    """Return the schema with another description, or without one."""
    kept = {key: value for key, value in schema.items() if key != "description"}
    return kept if description is None else {**kept, "description": description}


class _Flattener:
    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._places = 0
        self._copies = 0

    def flatten(self, schema: Any, path: str, depth: int) -> Schema:
        self._places += 1
        if depth > MOST_DEPTH or self._places > _MOST_PLACES:
            self._notes.add(path, "too large or too deep, left open", "recursion")
            return {}
        node = merge_members(as_schema(schema))
        if is_never(node):
            return dict(NEVER)
        for key in UNIONS:
            if key in node:
                return self._union(node, key, path, depth)
        kinds = possible_types(node)
        if not kinds:
            return dict(NEVER) if "type" in node or "enum" in node or "const" in node else node
        if len(kinds) == 1:
            return self._plain(narrowed(node, kinds[0]), path, depth)
        about, rest = _split_annotations(node)
        members = [self._plain(narrowed(rest, kind), path, depth) for kind in kinds]
        return one_of(members, about)

    def _union(self, node: Schema, key: str, path: str, depth: int) -> Schema:
        branches: list[Any] = node[key]
        rest = {name: value for name, value in node.items() if name != key}
        if key == "anyOf" and any(allows_anything(branch) for branch in branches):
            return self.flatten(rest, path, depth + 1)
        about, base = _split_annotations(rest)
        self._copies += len(branches) if base else 0
        if only_needs(branches) or (base and self._copies > _MOST_COPIES):
            self._notes.add_moved(path, [key])
            text = with_sentences(rest.get("description"), [about_union(key, branches)])
            return self.flatten(described(rest, text), path, depth + 1)
        if key == "oneOf" and not are_disjoint(branches):
            text = "oneOf became anyOf: several alternatives may fit at once"
            self._notes.add(path, text, "alternatives")
        members: list[Schema] = []
        for index, branch in enumerate(branches):
            inner = step_into(path, f".{key}[{index}]")
            members += alternatives(self.flatten(merge(base, branch), inner, depth + 1))
        return one_of(members, about)

    def _plain(self, node: Schema, path: str, depth: int) -> Schema:
        node = evaluated(node)
        if node["type"] == "object":
            return self._object(node, path, depth)
        if node["type"] == "array":
            return self._array(node, path, depth)
        return node

    def _object(self, node: Schema, path: str, depth: int) -> Schema:
        properties = dict(as_schema(node.get("properties")))
        others = node.get("additionalProperties", True)
        for name in as_list(node.get("required")):
            properties.setdefault(name, others)
        flat: Schema = {}
        for name, inner in properties.items():
            place = step_into(path, f".{name}")
            schema = self.flatten(inner, place, depth + 1)
            if is_never(schema):
                self._notes.add(place, "no value is valid, left out", "alternatives")
            else:
                flat[name] = schema
        changed = {**node, "properties": flat}
        if "required" in node:
            changed["required"] = [name for name in node["required"] if name in flat]
        return changed

    def _array(self, node: Schema, path: str, depth: int) -> Schema:
        changed = dict(node)
        if "items" in node:
            changed["items"] = self.flatten(node["items"], step_into(path, "[]"), depth + 1)
        if "prefixItems" in node:
            changed["prefixItems"] = [
                self.flatten(inner, step_into(path, f"[{index}]"), depth + 1)
                for index, inner in enumerate(node["prefixItems"])
            ]
        return changed


def _split_annotations(node: Schema) -> tuple[Schema, Schema]:
    about = {key: value for key, value in node.items() if key not in CONSTRAINTS}
    return about, {key: value for key, value in node.items() if key in CONSTRAINTS}


def one_of(members: list[Schema], about: Schema) -> Schema:
    """Join flattened schemas, none of which is a union, with their common annotations."""
    possible = [member for member in members if not is_never(member)]
    if len(possible) > 1:  # nulls are all the same, whatever their annotations
        possible = distinct(
            {"type": "null"} if member.get("type") == "null" else member for member in possible
        )
    if any(is_schema(member) and allows_anything(member) for member in possible):
        return about
    if not possible:
        return dict(NEVER)
    if len(possible) > 1:
        return {**about, "anyOf": possible}
    (only,) = possible
    text = join_descriptions(about.get("description"), only.get("description"))
    return described({**only, **about}, text)
