"""Converting a schema into a small subset of JSON Schema, with the rest in descriptions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from plait.client.catalog.schemas.describe import (
    about_union,
    join_descriptions,
    notes_for,
    only_needs,
    outline,
    sentences_for,
    with_sentences,
)
from plait.client.catalog.schemas.keywords import ANNOTATIONS, CONSTRAINTS, UNIONS, step_into
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
from plait.client.catalog.schemas.provider_schema import Notes
from plait.client.catalog.schemas.roots import bare_root, with_mentioned
from plait.client.catalog.schemas.values import (
    MOST_DEPTH,
    Schema,
    as_list,
    as_schema,
    distinct,
    is_schema,
)

_SCALARS: Final = ("string", "number", "boolean")
_SHAPE: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "prefixItems", "enum"}
)
"""Keywords that are converted, and never just moved to the description."""
_MOST_COPIES: Final = 200
"""Keywords beside alternatives are copied into each; after this many, they are described."""
_MOST_PLACES: Final = 20_000
"""After this many places, the rest allows anything."""


def alternatives(schema: Schema) -> list[Schema]:
    """List the alternatives of a flattened schema, each with the common description."""
    if "anyOf" not in schema:
        return [schema]
    about = {"description": with_sentences(schema.get("description"), notes_for(schema))}
    return [annotated(member, about) for member in schema["anyOf"]]


def annotated(schema: Schema, about: Schema) -> Schema:
    """Return the schema with further annotations; the descriptions are joined."""
    text = join_descriptions(about.get("description"), schema.get("description"))
    return described({**schema, **about}, text)


def described(schema: Schema, description: str | None) -> Schema:
    """Return the schema with another description, or without one."""
    kept = {key: value for key, value in schema.items() if key != "description"}
    return kept if description is None else {**kept, "description": description}


class _Flattener:
    """Flattens a schema: each place has one type, or a plain list of alternatives.

    The result has neither `allOf` nor `oneOf`, no `const` and no lists of types. A schema in it is
    one of three things: `{"anyOf": [...]}` of schemas with a type; a schema with one `type` and
    only the keywords of that type; or a schema without a type, which allows anything.
    """

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
            return node if node.keys().isdisjoint({"type", "enum", "const"}) else dict(NEVER)
        if len(kinds) == 1:
            return self._plain(narrowed(node, kinds[0]), path, depth)
        about, rest = _split_annotations(node)
        members = [self._plain(narrowed(rest, kind), path, depth) for kind in kinds]
        return _one_of(members, about)

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
        return _one_of(members, about)

    def _plain(self, node: Schema, path: str, depth: int) -> Schema:
        node = evaluated(node)
        convert = {"object": self._object, "array": self._array}.get(node["type"])
        return node if convert is None else convert(node, path, depth)

    def _object(self, node: Schema, path: str, depth: int) -> Schema:
        flat: Schema = {}
        for name, inner in as_schema(with_mentioned(node).get("properties")).items():
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


def _one_of(members: list[Schema], about: Schema) -> Schema:
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
    return annotated(possible[0], about)


class Narrowing(ABC):
    """Converts a flattened schema into a smaller subset."""

    keeps: ClassVar[dict[str, frozenset[str]]]
    """The keywords of each type that stay unchanged."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def convert_arguments(self, schema: Schema) -> Schema:
        """Translate the schema of a tool's arguments."""
        flat = _Flattener(self.notes).flatten(bare_root(schema, self.notes), "", 0)
        return self.convert_root(flat)

    @abstractmethod
    def convert_root(self, node: Schema) -> Schema:
        """Translate the object of all arguments."""

    def convert(self, node: Schema, path: str, level: int) -> Schema:
        """Translate a schema; `level` counts the objects around it."""
        if "anyOf" in node:
            return self._alternatives(node, path, level)
        match node.get("type"):
            case "object":
                return self.convert_object(node, path, level + 1)
            case "array":
                return self._array(node, path, level)
            case None:
                return self._anything(node, path)
            case _:
                return self.finish({"type": node["type"]}, node, path)

    @abstractmethod
    def convert_object(self, node: Schema, path: str, level: int) -> Schema:
        """Translate an object."""

    @abstractmethod
    def nullable(self, schema: Schema) -> Schema:
        """Return a translated schema that allows null, too."""

    @abstractmethod
    def without_null(self, schema: Schema) -> Schema:
        """Return a translated schema that does not allow null, unless it allows nothing else."""

    @abstractmethod
    def union(self, members: list[Schema], about: Schema) -> Schema:
        """Join several translated schemas, none of which is null."""

    @abstractmethod
    def listed_values(self, kind: str, values: list[Any]) -> Schema | None:
        """Return the keywords for enumerated values; `None` if the subset has none."""

    def may_keep(self, key: str, value: Any, kind: str) -> bool:
        """Return whether this value of a keyword, of those that are kept, can be passed on."""
        return key in self.keeps.get(kind, ()) and value is not None

    def rewritten(self, node: Schema) -> Schema:
        """Return the schema with keywords replaced by others that mean the same."""
        return node

    def finish(
        self, started: Schema, node: Schema, path: str, sentences: Iterable[str] = ()
    ) -> Schema:
        """Add the keywords that can be kept to a converted schema, and describe the rest."""
        kind: str = started["type"]
        node = self.rewritten(node)
        done, moved = dict(started), dict[str, Any]()
        if "enum" in node:
            values = self.listed_values(kind, node["enum"])
            done.update(values or {})
            moved.update({} if values else {"enum": node["enum"]})
        for key, value in node.items():
            if key in _SHAPE or key in ANNOTATIONS:
                continue
            if self.may_keep(key, value, kind):
                done[key] = value
            elif key in CONSTRAINTS:
                moved[key] = value
        if moved:
            self.notes.add_moved(path, moved)
        return self.commented(done, node, path, [*sentences, *sentences_for(moved)])

    def commented(self, done: Schema, node: Schema, path: str, sentences: Iterable[str]) -> Schema:
        """Copy title and description, with further sentences."""
        for key in node:
            if key not in CONSTRAINTS and key not in ANNOTATIONS:
                self.notes.add(path, f"{key} left out", "keywords")
        if "title" in node:
            done = {**done, "title": node["title"]}
        text = with_sentences(node.get("description"), [*sentences, *notes_for(node)])
        return described(done, text)

    def object_as_text(self, node: Schema, path: str) -> Schema:
        """Convert an object into a JSON string, since the subset cannot describe its content."""
        note = "an object that cannot be described, written as a JSON string"
        self.notes.add(path, note, "json_text")
        drawing = outline({key: value for key, value in node.items() if key not in ANNOTATIONS})
        sentence = "A JSON object, written as a string"
        if drawing != "object":
            sentence += f": {drawing}"
        drawn = _SHAPE | {"patternProperties"}
        moved = {key: node[key] for key in node if key in CONSTRAINTS and key not in drawn}
        return self.commented({"type": "string"}, node, path, [sentence, *sentences_for(moved)])

    def _anything(self, node: Schema, path: str) -> Schema:
        self.notes.add(path, "any value, but objects and lists only as JSON text", "json_text")
        moved = {key: value for key, value in node.items() if key in CONSTRAINTS}
        if moved:
            self.notes.add_moved(path, moved)
        words = ["Any value; an object or a list as JSON text", *sentences_for(moved)]
        about = self.commented({}, node, path, words)
        return self.nullable(self.union([{"type": kind} for kind in _SCALARS], about))

    def _alternatives(self, node: Schema, path: str, level: int) -> Schema:
        converted: list[Schema] = []
        for index, member in enumerate(node["anyOf"]):
            place = step_into(path, f".anyOf[{index}]")
            converted += alternatives(self.convert(member, place, level))
        bare = [self.without_null(member) for member in converted]
        members = distinct(member for member in bare if member["type"] != "null")
        about = self.commented({}, node, path, [])
        joined = annotated(members[0], about) if len(members) == 1 else self.union(members, about)
        has_null = bare != converted or len(members) < len(distinct(bare))
        return self.nullable(joined) if has_null else joined

    def _array(self, node: Schema, path: str, level: int) -> Schema:
        node, words = _without_tuple(node)
        if words:
            self.notes.add(path, "the places in a list moved to the description", "limits")
        items = self.convert(as_schema(node.get("items")), step_into(path, "[]"), level)
        return self.finish({"type": "array", "items": items}, node, path, words)

    def convert_properties(self, node: Schema, path: str, level: int) -> Schema:
        """Translate the properties of an object."""
        others = node.get("additionalProperties")
        if others is True or is_schema(others):
            self.notes.add(path, "other properties cannot be passed", "closed")
        return {
            name: self.convert(inner, step_into(path, f".{name}"), level)
            for name, inner in as_schema(node.get("properties")).items()
        }


def _without_tuple(node: Schema) -> tuple[Schema, list[str]]:
    """Convert a tuple into a list whose items match any of its positions."""
    first, rest = as_list(node.get("prefixItems")), node.get("items", {})
    most = node.get("maxItems", len(first) + 1)
    ends = is_never(rest) or most <= len(first)
    changed = {key: value for key, value in node.items() if key not in ("prefixItems", "items")}
    if ends:
        changed["maxItems"] = min(len(first), most)
    if not first:
        return (changed if ends else {**changed, "items": rest}), []
    places = distinct(first if ends else [*first, rest])
    changed["items"] = _any_of(places)
    if len(places) == 1:
        return changed, []
    drawn: Schema = {"type": "array", "prefixItems": first, "items": False if ends else rest}
    return changed, [f"Items in this order: {outline(drawn)}"]


def _any_of(schemas: list[Schema]) -> Schema:
    joined = _one_of([member for schema in schemas for member in alternatives(schema)], {})
    return {} if is_never(joined) else joined
