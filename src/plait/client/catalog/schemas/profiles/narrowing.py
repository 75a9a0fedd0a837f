"""Converting a schema into a small subset of JSON Schema, with the rest in descriptions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from plait.client.catalog.schemas.describe import (
    join_descriptions,
    notes_for,
    outline,
    sentences_for,
    with_sentences,
)
from plait.client.catalog.schemas.flatten import alternatives, described, one_of
from plait.client.catalog.schemas.keywords import ANNOTATIONS, CONSTRAINTS, step_into
from plait.client.catalog.schemas.merge import is_never
from plait.client.catalog.schemas.values import Schema, as_list, as_schema, distinct, is_schema

if TYPE_CHECKING:
    from plait.client.catalog.schemas.provider_schema import Notes

_SCALARS: Final = ("string", "number", "boolean")
_SHAPE: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "prefixItems", "enum"}
)
"""Keywords that are converted, and never just moved to the description."""


class Narrowing(ABC):
    """Converts a flattened schema into a smaller subset."""

    keeps: ClassVar[dict[str, frozenset[str]]]
    """The keywords of each type that stay unchanged."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

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
        return key in self.keeps[kind] and value is not None

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
        if len(members) == 1:
            text = join_descriptions(about.get("description"), members[0].get("description"))
            joined = described({**members[0], **about}, text)
        else:
            joined = self.union(members, about)
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
    joined = one_of([member for schema in schemas for member in alternatives(schema)], {})
    return {} if is_never(joined) else joined
