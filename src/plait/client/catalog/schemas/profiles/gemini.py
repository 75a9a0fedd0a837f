"""For Gemini: the subset of OpenAPI 3.0 that function declarations accept.

The fields: https://ai.google.dev/api/caching#Schema
A place has one type or alternatives, and beside alternatives nothing else may stand; an object
has properties; only strings can be enumerated; null is expressed by `nullable`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from plait.client.catalog.schemas.keywords import map_children
from plait.client.catalog.schemas.profiles.narrowing import Narrowing, annotated
from plait.client.catalog.schemas.provider_schema import Notes
from plait.client.catalog.schemas.values import Schema, as_list, is_number, is_schema

_FORMATS: Final = {
    "string": ("date-time", "enum"),
    "integer": ("int32", "int64"),
    "number": ("float", "double"),
}


def convert(schema: Schema, notes: Notes) -> Schema:
    """Return the schema within the subset of function declarations."""
    return _Gemini(notes).convert_arguments(_read_nullable(schema))


class _Gemini(Narrowing):
    keeps: ClassVar[dict[str, frozenset[str]]] = {
        "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
        "number": frozenset({"minimum", "maximum", "format"}),
        "integer": frozenset({"minimum", "maximum", "format"}),
        "array": frozenset({"minItems", "maxItems"}),
        "object": frozenset({"minProperties", "maxProperties"}),
    }

    def convert_root(self, node: Schema) -> Schema:
        # The title of the root is the name of a class, which does not help a model.
        untitled = {key: value for key, value in node.items() if key != "title"}
        return self._with_properties(untitled, "", 1)

    def convert_object(self, node: Schema, path: str, level: int) -> Schema:
        if not node.get("properties"):
            return self.object_as_text(node, path)
        return self._with_properties(node, path, level)

    def _with_properties(self, node: Schema, path: str, level: int) -> Schema:
        properties = self.convert_properties(node, path, level)
        started: Schema = {"type": "object", "properties": properties}
        if required := [name for name in as_list(node.get("required")) if name in properties]:
            started["required"] = required
        return self.finish(started, node, path)

    def may_keep(self, key: str, value: Any, kind: str) -> bool:
        if key == "format":
            return value in _FORMATS.get(kind, ())
        return super().may_keep(key, value, kind)

    def listed_values(self, kind: str, values: list[Any]) -> Schema | None:
        # The API refuses an empty string among the values.
        return {"enum": values} if kind == "string" and "" not in values else None

    def rewritten(self, node: Schema) -> Schema:
        if node.get("type") != "integer":
            return node
        changed = dict(node)
        if is_number(above := changed.pop("exclusiveMinimum", None)):
            least = math.floor(above) + 1
            changed["minimum"] = max(least, changed.get("minimum", least))
        if is_number(below := changed.pop("exclusiveMaximum", None)):
            most = math.ceil(below) - 1
            changed["maximum"] = min(most, changed.get("maximum", most))
        return changed

    def commented(self, done: Schema, node: Schema, path: str, sentences: Iterable[str]) -> Schema:
        if "description" not in node and "title" in node:
            node = {**node, "description": node["title"]}
        untitled = {key: value for key, value in node.items() if key != "title"}
        return super().commented(done, untitled, path, sentences)

    def nullable(self, schema: Schema) -> Schema:
        if "anyOf" not in schema:
            return schema if schema["type"] == "null" else {**schema, "nullable": True}
        first, *others = schema["anyOf"]
        return {**schema, "anyOf": [{**first, "nullable": True}, *others]}

    def without_null(self, schema: Schema) -> Schema:
        return {key: value for key, value in schema.items() if key != "nullable"}

    def union(self, members: list[Schema], about: Schema) -> Schema:
        # No keyword is allowed beside `anyOf`, so each alternative gets the description.
        description = {"description": about.get("description")}
        return {"anyOf": [annotated(member, description) for member in members]}


def _read_nullable(schema: Any) -> Any:
    """Convert OpenAPI's `nullable` to JSON Schema."""
    if not is_schema(schema):
        return schema
    changed = map_children(schema, lambda inner, _: _read_nullable(inner))
    if changed.pop("nullable", None) is not True:
        return changed
    if isinstance(kind := changed.get("type"), str):
        changed["type"] = [kind, "null"]
        if "enum" in changed:
            changed["enum"] = [*changed["enum"], None]
    elif "anyOf" in changed:
        changed["anyOf"] = [*changed["anyOf"], {"type": "null"}]
    return changed
