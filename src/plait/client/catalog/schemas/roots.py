"""The root of a tool's schema: an object with properties, optionally without alternatives.

Some schemas name properties only in conditions and alternatives. Read strictly,
`additionalProperties: false` beside them forbids these, and a `oneOf` what fits two of its forms;
servers that publish such schemas take the arguments anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from plait.client.catalog.schemas import describe, keywords
from plait.client.catalog.schemas.keywords import ANNOTATIONS, CONDITION, UNIONS, types_of
from plait.client.catalog.schemas.merge import is_never, merge, merge_members, values_of
from plait.client.catalog.schemas.provider_schema import Notes
from plait.client.catalog.schemas.values import (
    MOST_DEPTH,
    Schema,
    as_list,
    as_schema,
    distinct,
    is_schema,
    json_type,
    same,
)

_IN_PLACE = CONDITION | {*UNIONS, "allOf", "dependentSchemas"}
"""Keywords whose schemas apply to the same object."""
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
    original = object_root(schema, notes)
    schema = opened(original)
    if schema != original:
        notes.add("", "closed objects take what is named beside them", "closed")
    root = _Joiner(notes).join(schema, 0)
    if is_never(root):
        root = {key: value for key, value in root.items() if key != "not"}
        notes.add("", "no arguments can fit the schema", "invalid")
    own = as_schema(original.get("properties"))
    root = object_root(root, notes)
    known = {name: rule for name, rule in root["properties"].items() if rule or name in own}
    root = with_mentioned({**root, "properties": known}, mentions(schema))
    return _describe_at_root(root, ("allOf", *UNIONS), notes)


def bare_root(schema: Schema, notes: Notes) -> Schema:
    """Return a plain root without `enum`, `const` and `not`, too."""
    return _describe_at_root(plain_root(schema, notes), ("enum", "const", "not"), notes)


def _describe_at_root(root: Schema, keys: tuple[str, ...], notes: Notes) -> Schema:
    moved = {key: root[key] for key in keys if key in root}
    if not moved:
        return root
    notes.add_moved("", moved)
    text = describe.with_sentences(root.get("description"), describe.sentences_for(moved))
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
        demands = [as_schema(branch).keys() & keywords.CONSTRAINTS for branch in usable]
        if key == "anyOf" and any(keys <= {"type"} for keys in demands):
            return rest
        self._left -= len(usable)
        if not usable or self._left < 0:
            self._notes.add_moved("", [key])
            text = describe.with_sentences(
                rest.get("description"), [describe.about_union(key, branches)]
            )
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
            text = describe.join_descriptions(about.get("description"), forms[0].get("description"))
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
        "description": describe.with_sentences(about.get("description"), [text]),
    }


def _either(variants: Iterable[Any]) -> Any:
    """Return one schema for what fits any of several, without those that say nothing."""
    kinds = distinct(variants)
    kinds = [kind for kind in kinds if as_schema(kind)] or [{}]
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
        parts.append(
            f"{name} = {describe.listed(values)}" if values and len(values) == 1 else str(name)
        )
    text = ", ".join(parts) or "nothing needed"
    own = {
        key: value
        for key, value in form.items()
        if key not in shared and key not in ("properties", "required", "type", *ANNOTATIONS)
    }
    about = form.get("description") or form.get("title")
    comments = [*describe.sentences_for(own), *([about] if isinstance(about, str) else [])]
    return f"{text} ({'; '.join(comments)})" if comments else text


def _may_be_object(branch: Any) -> bool:
    schema = as_schema(branch)
    values = values_of(schema)
    fits = values is None or "object" in map(json_type, values)
    return not is_never(schema) and "object" in (types_of(schema) or ["object"]) and fits


def mentions(
    schema: Schema, root: Schema | None = None, depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """Yield the properties that conditions and alternatives name.

    References into `root` are followed, but not those inside of their targets.
    """
    for key, part in schema.items():
        if key not in _IN_PLACE or depth > MOST_DEPTH:
            continue
        inside = as_schema(part).values() if key == "dependentSchemas" else as_list(part) or [part]
        for inner in map(as_schema, inside):
            found = _target(inner["$ref"], root) if root and "$ref" in inner else inner
            for name, rule in as_schema(found.get("properties")).items():
                yield name, {} if key == "if" else rule
            yield from ((name, {}) for name in as_list(found.get("required")))
            yield from mentions(found, root if found is inner else None, depth + 1)


def _target(reference: object, root: Schema) -> Schema:
    target: Any = root
    for step in str(reference).removeprefix("#/").split("/"):
        target = as_schema(target).get(step.replace("~1", "/").replace("~0", "~"))
    return as_schema(target)


def with_mentioned(schema: Schema, others: Iterable[tuple[str, Any]] = ()) -> Schema:
    """Return an object schema that has a property for every name in it."""
    own = as_schema(schema.get("properties"))
    unknown = schema.get("additionalProperties")
    rules: dict[str, list[Any]] = {name: [] for name in as_list(schema.get("required"))}
    for name, rule in (*mentions(schema), *others):
        rules.setdefault(name, []).append(rule)
    missing = {
        name: _either(found) if found else as_schema(unknown or True)
        for name, found in rules.items()
        if name not in own
    }
    return {**schema, "properties": {**own, **missing}} if missing else schema


def opened(schema: Schema, *, relax: bool = False) -> Schema:
    """Let closed objects take what is named beside them; with `relax`, ignore conditions, too."""
    return _opened(schema, root=schema, around={}, relax=relax)


def _opened(schema: Any, _step: str = "", *, root: Schema, around: Schema, relax: bool) -> Any:
    if not is_schema(schema):
        return schema
    names = {**around, **as_schema(schema.get("properties"))}
    changed: Schema = {"not": schema["not"]} if "not" in schema else {}
    for key, value in schema.items():
        # One form of a union does not know the others.
        rest: Schema = {**schema, key: None} if key in UNIONS else schema
        known = {**names, **dict(mentions(rest, root))} if key in _IN_PLACE else {}
        place = "properties" if key in keywords.DEFINITIONS else key
        visit = partial(_opened, root=root, around=known, relax=relax)
        changed.setdefault(key, keywords.map_children({place: value}, visit)[place])
    all_names = {**names, **dict(mentions(schema, root))}
    own = as_schema(changed.get("properties"))
    if schema.get("additionalProperties") is False and len(all_names) > len(own):
        # Models that must fill in every property write null for those that they leave out.
        rule: Schema = {"not": {"type": "null"}} if relax else {}
        changed["properties"] = {**dict.fromkeys(all_names, rule), **own}
    if relax and "oneOf" in changed:
        changed["allOf"] = [*as_list(changed.get("allOf")), {"anyOf": changed.pop("oneOf")}]
    return {key: value for key, value in changed.items() if not relax or key not in CONDITION}
