"""One schema for what two demand, and the types and values that a schema allows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, Final

from plait.client.catalog.bounded_work import take_step
from plait.client.catalog.schemas.describe import join_descriptions
from plait.client.catalog.schemas.keywords import (
    CONSTRAINTS,
    KEYWORDS_OF,
    TOGETHER,
    TYPES,
    types_of,
)
from plait.client.catalog.schemas.values import (
    MAX_DEPTH_LEVELS,
    Schema,
    as_list,
    as_schema,
    canonical,
    is_schema,
    json_type,
    same,
)

NEVER: Final[Schema] = {"not": {}}
"""The schema that nothing fits."""
_COMBINED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "description": join_descriptions,
    "required": lambda first, second: list(dict.fromkeys([*first, *second])),
    "allOf": lambda first, second: [*first, *second],
    "not": lambda first, second: {"anyOf": [first, second]},
    "uniqueItems": lambda first, second: first or second,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
"""Combines two values of a keyword into one that demands both."""
MAX_TYPE_LEVELS: Final = 8
"""So deep types are looked for in alternatives, which may be recursive."""
_OF_SOME_TYPE: Final = frozenset[str]().union(*KEYWORDS_OF.values())
_FOREIGN: Final = {
    kind: (_OF_SOME_TYPE - keys) | {"type", "enum", "const"} for kind, keys in KEYWORDS_OF.items()
}
"""The keywords that do not concern one type, and those that are written anew for it."""


def is_never(schema: Any) -> bool:
    """Return whether nothing can fit a schema, as far as that is easily seen."""
    return schema is False or (is_schema(schema) and schema.get("not") in ({}, True))


def allows_anything(schema: Any) -> bool:
    """Return whether a schema allows anything."""
    return schema is True or not (as_schema(schema).keys() & CONSTRAINTS)


def merge_members(schema: Schema, depth: int = 0) -> Schema:
    """Return the schema with the members of `allOf` merged into it."""
    if "allOf" not in schema or depth > MAX_DEPTH_LEVELS:
        return schema
    # `unevaluated…` of the schema itself is about what is left when its members are merged.
    own = {key: value for key, value in schema.items() if key != "allOf"}
    merged = {key: value for key, value in own.items() if not key.startswith("unevaluated")}
    for member in schema["allOf"]:
        merged = merge(merged, merge_members(as_schema(member), depth + 1))
    return {**own, **merged}


def merge(first: Any, second: Any) -> Schema:
    """Return one schema for the values that fit both; where they only comment, the first wins.

    What one schema cannot express, such as two patterns, stays in `allOf`.
    """
    take_step()
    first, second = as_schema(first), as_schema(second)
    if not first or not second or same(first, second):
        return first or second
    if is_never(first) or is_never(second):
        return NEVER
    merged, left, behind = dict(first), dict(second), dict[str, Any]()
    for group in TOGETHER:
        own = {key: first[key] for key in first if key in group}
        other = {key: left.pop(key) for key in list(left) if own and key in group}
        if not other or same(own, other):
            continue
        if {*own, *other} == {"items"}:
            merged["items"] = merge(own["items"], other["items"])
        elif {*own, *other} <= {"properties", "additionalProperties"}:
            rules = [shape.get("additionalProperties", True) for shape in (own, other)]
            known = [as_schema(shape.get("properties")) for shape in (own, other)]
            merged["properties"] = {
                name: merge(known[0].get(name, rules[0]), known[1].get(name, rules[1]))
                for name in {**known[0], **known[1]}
            }
            if rules != [True, True]:
                merged["additionalProperties"] = False if False in rules else merge(*rules)
        else:
            behind |= other
    own_values, other_values = values_of(merged), values_of(left)
    if own_values is not None and other_values is not None:
        left = {key: value for key, value in left.items() if key not in ("enum", "const")}
        allowed = {canonical(value) for value in other_values}
        both = [value for value in own_values if canonical(value) in allowed]
        merged |= NEVER if not both else {} if "const" in merged else {"enum": both}
    for key, value in left.items():
        if key not in merged:
            merged[key] = value
        elif same(merged[key], value):
            continue
        elif key == "type":
            named = types_of(merged), types_of(left)
            kinds = [
                kind
                for kind in dict.fromkeys((*named[0], *named[1]))
                if all(kind in one or (kind == "integer" and "number" in one) for one in named)
            ]
            merged |= {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else NEVER
        elif key in _COMBINED:
            merged[key] = _COMBINED[key](merged[key], value)
        elif key in CONSTRAINTS:
            behind[key] = value
    return {**merged, "allOf": [*as_list(merged.get("allOf")), behind]} if behind else merged


def values_of(schema: Schema) -> list[Any] | None:
    """Return the only values that a schema allows, if it lists them."""
    listed = as_list(schema.get("enum")) or None
    if "const" not in schema:
        return listed
    only = schema["const"]
    return [only] if listed is None or any(same(only, value) for value in listed) else []


def possible_types(schema: Schema, depth: int = 0) -> list[str]:
    """List the types that a schema allows, inferred from keywords if none is declared."""
    named = [kind for kind in types_of(schema) if kind in TYPES]
    values = values_of(schema)
    if values is not None:
        # The values decide: a number that can only be 0 is an integer.
        fitting = [value for value in values if not named or any(_is(value, k) for k in named)]
        kinds = list(dict.fromkeys(map(json_type, fitting)))
    elif named:
        kinds = named
    elif depth < MAX_TYPE_LEVELS and (
        branches := as_list(schema.get("anyOf") or schema.get("oneOf"))
    ):
        found = [possible_types(as_schema(branch), depth + 1) for branch in branches]
        kinds = list(dict.fromkeys(chain.from_iterable(found))) if all(found) else []
    else:
        # A format may apply to a string or to a number, so that it implies little.
        implying = ("object", "array", "string", "number")
        kinds = [kind for kind in implying if (KEYWORDS_OF[kind] - {"format"}) & schema.keys()]
        kinds = kinds or (["string"] if "format" in schema else [])
    if "number" in kinds and "integer" in kinds:
        kinds.remove("integer")
    return kinds


def narrow_to_type(schema: Schema, kind: str) -> Schema:
    """Reduce a schema to the keywords for one type."""
    kept = {key: value for key, value in schema.items() if key not in _FOREIGN[kind]}
    kept["type"] = kind
    values = values_of(schema)
    if values is not None and kind != "null":
        fitting = [value for value in values if _is(value, kind)]
        if not (kind == "boolean" and len(fitting) == 2):  # both that there are
            kept["enum"] = fitting
    return kept


def _is(value: Any, kind: str) -> bool:
    actual = json_type(value)
    return actual == kind or (actual == "integer" and kind == "number")
