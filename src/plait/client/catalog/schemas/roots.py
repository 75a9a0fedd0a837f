"""The root of a tool's schema: an object with properties, optionally without alternatives.

Some schemas name properties only in conditions and alternatives. Read strictly,
`additionalProperties: false` beside them forbids these, and a `oneOf` what fits two of its forms;
servers that publish such schemas take the arguments anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from plait.client.catalog.schemas import describe, keywords
from plait.client.catalog.schemas.keywords import ANNOTATIONS, CONDITION, UNIONS, types_of
from plait.client.catalog.schemas.merge import is_never, merge, merge_members, values_of
from plait.client.catalog.schemas.provider_schema import Notes
from plait.client.catalog.schemas.values import (
    MAX_DEPTH_LEVELS,
    Schema,
    as_list,
    as_schema,
    distinct,
    is_list,
    is_schema,
    json_type,
)

_IN_PLACE: Final = CONDITION | {*UNIONS, "allOf", "dependentSchemas"}
"""Keywords whose schemas apply to the same object."""
MAX_FORMS: Final = 256
"""More alternatives are only described: nobody reads such a long list of arguments."""


def object_root(schema: Schema, notes: Notes) -> Schema:
    """Return the schema of an object with properties: arguments are never anything else."""
    named = types_of(schema)
    if named and "object" not in named:
        notes.add("", f"arguments are an object, not {' or '.join(named)}", "invalid")
    return {**schema, "type": "object", "properties": as_schema(schema.get("properties"))}


def plain_root(schema: Schema, notes: Notes, *, bare: bool = False) -> Schema:
    """Return an object schema without `allOf`, `anyOf` and `oneOf` at the root.

    Alternatives become one object with the arguments of all; the description says which belong
    together. With `bare`, the root has no `enum`, `const` and `not` either.
    """
    original = object_root(schema, notes)
    schema = open_objects(original)
    if schema != original:
        notes.add("", "closed objects take what is named beside them", "closed")
    root = merge_members(schema)
    for key in UNIONS:
        if key in root:
            root = _without_union(root, key, notes)
    if is_never(root):
        root = {key: value for key, value in root.items() if key != "not"}
        notes.add("", "no arguments can fit the schema", "invalid")
    own = as_schema(original.get("properties"))
    root = object_root(root, notes)
    known = {name: rule for name, rule in root["properties"].items() if rule or name in own}
    root = with_mentioned({**root, "properties": known}, mentions(schema))
    refused = ("allOf", *UNIONS, *(("enum", "const", "not") if bare else ()))
    moved = {key: root.pop(key) for key in refused if key in root}
    if "unevaluatedProperties" in root:
        # Nothing is left beside it whose properties it would spare.
        root.setdefault("additionalProperties", root.pop("unevaluatedProperties"))
    if not moved:
        return root
    notes.add_moved("", moved)
    return describe.add_sentences(root, describe.sentences_for(moved))


def _without_union(node: Schema, key: str, notes: Notes) -> Schema:
    """Replace alternatives at the root by the properties of all, and say what each needs."""
    branches: list[Any] = node[key]
    rest = {name: value for name, value in node.items() if name != key}
    forms = [
        form
        for form in (merge_members(as_schema(branch)) for branch in branches)
        if not is_never(form) and "object" in (types_of(form) or ["object"])
    ]
    if len(forms) == 1:
        return merge_members({**rest, "allOf": [*as_list(rest.get("allOf")), forms[0]]})
    if not forms or len(forms) > MAX_FORMS or describe.only_needs(branches):
        notes.add_moved("", [key])
        return describe.add_sentences(rest, [describe.about_union(key, branches)])
    text = f"{key} became one object; its description says what goes together"
    notes.add("", text, "alternatives")
    texts: list[str] = []
    for form in forms:
        parts: list[str] = []
        for name in as_list(form.get("required")):
            values = values_of(as_schema(as_schema(form.get("properties")).get(name))) or []
            # What has one value tells the forms apart.
            parts.append(f"{name} = {describe.listed(values)}" if len(values) == 1 else name)
        shape = ("properties", "required", "type", "additionalProperties", *ANNOTATIONS)
        comments = describe.sentences_for({one: form[one] for one in form if one not in shape})
        if comment := form.get("description") or form.get("title"):
            comments.append(comment)
        text = ", ".join(parts) or "nothing needed"
        texts.append(f"{text} ({'; '.join(comments)})" if comments else text)
    shapes = [as_schema(form.get("properties")) for form in forms]
    own = as_schema(rest.get("properties"))
    united = {
        name: merge(own.get(name, True), _either(one[name] for one in shapes if name in one))
        for name in dict.fromkeys(name for one in shapes for name in one)
        if name not in own or all(name in one for one in shapes)
    }
    required = [as_list(form.get("required")) for form in forms]
    always = [name for name in required[0] if all(name in names for names in required)]
    rest["properties"] = {**own, **united}
    if needed := list(dict.fromkeys((*as_list(rest.get("required")), *always))):
        rest["required"] = needed
    if all(form.get("additionalProperties") is False for form in forms):
        rest["additionalProperties"] = False
    return describe.add_sentences(
        rest, [f"Use one of these forms: {'; '.join(dict.fromkeys(texts))}"]
    )


def _either(variants: Iterable[Any]) -> Schema:
    """Return one schema for what fits any of several, without those that say nothing."""
    kinds = [kind for kind in map(as_schema, distinct(variants)) if kind]
    if len(kinds) < 2:
        return kinds[0] if kinds else {}
    only_values = {"type", "enum", "const", *ANNOTATIONS}
    lists = [values_of(kind) if kind.keys() <= only_values else None for kind in kinds]
    if None not in lists:
        values = distinct(value for listed in lists for value in listed or [])
        types = list(dict.fromkeys(map(json_type, values)))
        return {"type": types[0] if len(types) == 1 else types, "enum": values}
    return {"anyOf": kinds}


def mentions(
    schema: Schema, root: Schema | None = None, depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """Yield the properties that conditions and alternatives name.

    References into `root` are followed, but not those inside of their targets.
    """
    for key, part in schema.items():
        if key not in _IN_PLACE or depth > MAX_DEPTH_LEVELS:
            continue
        inside = as_schema(part).values() if key == "dependentSchemas" else as_list(part) or [part]
        for inner in map(as_schema, inside):
            found, beyond = inner, root
            if root and "$ref" in inner:
                found, beyond = root, None
                for step in str(inner["$ref"]).removeprefix("#/").split("/"):
                    name = step.replace("~1", "/").replace("~0", "~")
                    found = as_schema(found.get(name))
            for name, rule in as_schema(found.get("properties")).items():
                yield name, {} if key == "if" else rule
            yield from ((name, {}) for name in as_list(found.get("required")))
            yield from mentions(found, beyond, depth + 1)


def with_mentioned(schema: Schema, others: Iterable[tuple[str, Any]] = ()) -> Schema:
    """Return an object schema that has a property for every name in it."""
    own = as_schema(schema.get("properties"))
    rules: dict[str, list[Any]] = {name: [] for name in as_list(schema.get("required"))}
    for name, rule in (*mentions(schema), *others):
        rules.setdefault(name, []).append(rule)
    unknown = as_schema(schema.get("additionalProperties") or True)
    missing = {
        name: _either(found) if found else unknown
        for name, found in rules.items()
        if name not in own
    }
    return {**schema, "properties": {**own, **missing}} if missing else schema


def open_objects(schema: Schema, *, relax: bool = False) -> Schema:
    """Let closed objects take what is named beside them; with `relax`, ignore conditions, too."""
    if not _names_beside(schema):  # most schemas
        return schema
    return _open_objects(schema, root=schema, around={}, relax=relax)


def _names_beside(value: Any) -> bool:
    """Return whether conditions or alternatives anywhere in a schema may name properties."""
    if is_schema(value):
        return not _IN_PLACE.isdisjoint(value) or any(map(_names_beside, value.values()))
    return is_list(value) and any(map(_names_beside, value))


def _open_objects(
    schema: Any, _step: str = "", *, root: Schema, around: Schema, relax: bool
) -> Any:
    if not is_schema(schema):
        return schema
    names = {**around, **as_schema(schema.get("properties"))}
    changed: Schema = {"not": schema["not"]} if "not" in schema else {}
    for key, value in schema.items():
        # One form of a union does not know the others.
        rest: Schema = {**schema, key: None} if key in UNIONS else schema
        known = {**names, **dict(mentions(rest, root))} if key in _IN_PLACE else {}
        place = "properties" if key in keywords.DEFINITIONS else key
        visit = partial(_open_objects, root=root, around=known, relax=relax)
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
