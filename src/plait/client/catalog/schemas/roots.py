"""The root of a tool's schema: an object with properties, optionally without alternatives."""

from __future__ import annotations

from typing import Any

from plait.client.catalog.schemas.describe import (
    about_union,
    join_descriptions,
    listed,
    sentences_for,
    with_sentences,
)
from plait.client.catalog.schemas.keywords import ANNOTATIONS, CONSTRAINTS, UNIONS, types_of
from plait.client.catalog.schemas.merge import (
    is_never,
    merge,
    merge_members,
    values_of,
)
from plait.client.catalog.schemas.provider_schema import Notes
from plait.client.catalog.schemas.values import (
    MOST_DEPTH,
    Schema,
    as_list,
    as_schema,
    distinct,
    json_type,
    same,
)

_MOST_FORMS = 256
"""After this many alternatives, the rest is only described: nested ones multiply."""


def object_root(schema: Schema, notes: Notes) -> Schema:
    """Return the schema of an object with properties: arguments are never anything else."""
    named = types_of(schema)
    if named and "object" not in named:
        notes.add("", f"arguments are an object, not {' or '.join(named)}", "invalid")
    return {**schema, "type": "object", "properties": as_schema(schema.get("properties"))}


def plain_root(schema: Schema, notes: Notes) -> Schema:
    """Return an object schema without `allOf`, `anyOf` and `oneOf` at the root.

    Alternatives become one object with the arguments of all; the description says which belong
    together.
    """
    root = _Joiner(notes).join(object_root(schema, notes), 0)
    if is_never(root):
        root = {key: value for key, value in root.items() if key != "not"}
        notes.add("", "no arguments can fit the schema", "invalid")
    return _describe_at_root(object_root(root, notes), ("allOf", *UNIONS), notes)


def bare_root(schema: Schema, notes: Notes) -> Schema:
    """Return a plain root without `enum`, `const` and `not`, too."""
    return _describe_at_root(plain_root(schema, notes), ("enum", "const", "not"), notes)


def _describe_at_root(root: Schema, keys: tuple[str, ...], notes: Notes) -> Schema:
    moved = {key: root[key] for key in keys if key in root}
    if not moved:
        return root
    notes.add_moved("", moved)
    text = with_sentences(root.get("description"), sentences_for(moved))
    kept = {key: value for key, value in root.items() if key not in moved}
    return kept if text is None else {**kept, "description": text}


class _Joiner:
    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._left = _MOST_FORMS

    def join(self, schema: Schema, depth: int) -> Schema:
        node = merge_members(schema)
        for key in UNIONS:
            if key in node and depth < MOST_DEPTH:
                node = self._joined(node, key, depth)
        return node

    def _joined(self, node: Schema, key: str, depth: int) -> Schema:
        branches: list[Any] = node[key]
        rest = {name: value for name, value in node.items() if name != key}
        usable = [branch for branch in branches if _may_be_object(branch)]
        demands = [as_schema(branch).keys() & CONSTRAINTS for branch in usable]
        if key == "anyOf" and any(keys <= {"type"} for keys in demands):
            return rest
        self._left -= len(usable)
        if not usable or self._left < 0:
            self._notes.add_moved("", [key])
            text = with_sentences(rest.get("description"), [about_union(key, branches)])
            return rest if text is None else {**rest, "description": text}
        about = {name: value for name, value in rest.items() if name in ANNOTATIONS}
        base = {name: value for name, value in rest.items() if name not in ANNOTATIONS}
        forms = distinct(
            form
            for branch in usable
            if not is_never(form := self.join(merge(base, branch), depth + 1))
        )
        if not forms:
            return {**rest, "not": {}}
        if len(forms) == 1:
            if key == "oneOf" and len(usable) > 1:
                text = "oneOf left out: its alternatives ask for the same"
                self._notes.add("", text, "alternatives")
            text = join_descriptions(about.get("description"), forms[0].get("description"))
            return {**forms[0], **about, **({} if text is None else {"description": text})}
        text = f"{key} became one object; its description says what goes together"
        self._notes.add("", text, "alternatives")
        return _united(forms, about)


def _united(forms: list[Schema], about: Schema) -> Schema:
    properties = [as_schema(form.get("properties")) for form in forms]
    shared = {
        key: value
        for key, value in forms[0].items()
        if key not in ("properties", "required", *ANNOTATIONS)
        and all(key in form and same(form[key], value) for form in forms)
    }
    required = [as_list(form.get("required")) for form in forms]
    needed = [name for name in required[0] if all(name in names for names in required)]
    text = f"Use one of these forms: {'; '.join(_form(form, shared) for form in forms)}"
    return {
        **about,
        **shared,
        "properties": {
            name: _either([one[name] for one in properties if name in one])
            for name in dict.fromkeys(name for one in properties for name in one)
        },
        **({"required": needed} if needed else {}),
        "description": with_sentences(about.get("description"), [text]),
    }


def _either(variants: list[Any]) -> Any:
    kinds = distinct(variants)
    if len(kinds) == 1:
        return kinds[0]
    lists = [
        values_of(schema)
        for schema in map(as_schema, kinds)
        if schema.keys() <= {"type", "enum", "const", *ANNOTATIONS}
    ]
    if len(lists) == len(kinds) and None not in lists:
        values = distinct(value for found in lists for value in found or [])
        types = list(dict.fromkeys(map(json_type, values)))
        return {"type": types[0] if len(types) == 1 else types, "enum": values}
    return {"anyOf": kinds}


def _form(form: Schema, shared: Schema) -> str:
    properties = as_schema(form.get("properties"))
    parts: list[str] = []
    for name in as_list(form.get("required")):
        values = values_of(as_schema(properties.get(name)))
        parts.append(f"{name} = {listed(values)}" if values and len(values) == 1 else str(name))
    text = ", ".join(parts) or "nothing needed"
    own = {
        key: value
        for key, value in form.items()
        if key not in shared and key not in ("properties", "required", "type", *ANNOTATIONS)
    }
    about = form.get("description") or form.get("title")
    comments = [*sentences_for(own), *([about] if isinstance(about, str) else [])]
    return f"{text} ({'; '.join(comments)})" if comments else text


def _may_be_object(branch: Any) -> bool:
    schema = as_schema(branch)
    values = values_of(schema)
    fits = values is None or "object" in map(json_type, values)
    return not is_never(schema) and "object" in (types_of(schema) or ["object"]) and fits
