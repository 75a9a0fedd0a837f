"""The types that a schema allows, and whether two schemas can have a common value."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Final

from plait.client.catalog.schemas.keywords import CONSTRAINTS, KEYWORDS_OF, types_of
from plait.client.catalog.schemas.merge import is_never, merge_members, values_of
from plait.client.catalog.schemas.values import Schema, as_list, as_schema, canonical, json_type

_MOST_COMPARED: Final = 24
"""More alternatives count as overlapping: there are too many pairs."""

_IMPLYING_KEYWORDS: Final = {
    kind: KEYWORDS_OF[kind] - {"format"} for kind in ("object", "array", "string", "number")
}
"""Keywords that imply a type; a format may apply to a string or a number."""


def possible_types(schema: Schema) -> list[str]:
    """List the types that a schema allows, inferred from keywords if none is declared."""
    named = types_of(schema)
    values = values_of(schema)
    if values is not None:
        inferred = list(dict.fromkeys(json_type(value) for value in values))
        kinds = [
            kind for kind in named or inferred if any(_is_kind(value, kind) for value in values)
        ]
    elif named:
        kinds = list(named)
    else:
        kinds = [kind for kind, keys in _IMPLYING_KEYWORDS.items() if keys & schema.keys()]
        kinds = kinds or (["string"] if "format" in schema else [])
    if "number" in kinds and "integer" in kinds:
        kinds.remove("integer")
    return kinds


def narrowed(schema: Schema, kind: str) -> Schema:
    """Reduce a schema to the keywords for one type."""
    foreign = frozenset[str]().union(*KEYWORDS_OF.values()) - KEYWORDS_OF[kind]
    kept = {
        key: value
        for key, value in schema.items()
        if key not in foreign and key not in ("type", "enum", "const")
    }
    kept["type"] = kind
    values = values_of(schema)
    if values is not None and kind != "null":
        fitting = [value for value in values if _is_kind(value, kind)]
        if not (kind == "boolean" and len(fitting) == 2):  # both that there are
            kept["enum"] = fitting
    return kept


def allows_anything(schema: Any) -> bool:
    """Return whether a schema allows anything."""
    return schema is True or not (as_schema(schema).keys() & CONSTRAINTS)


def are_disjoint(branches: list[Any]) -> bool:
    """Return whether no value can match two of the schemas, as far as is easy to see."""
    if len(branches) > _MOST_COMPARED:
        return False
    merged = [merge_members(as_schema(branch)) for branch in branches]
    return all(_apart(first, second) for first, second in combinations(merged, 2))


def _apart(first: Schema, second: Schema) -> bool:
    if is_never(first) or is_never(second):
        return True
    own, other = types_of(first), types_of(second)
    if own and other and not _overlap(own, other):
        return True
    if _no_common_value(first, second):
        return True
    if own != ["object"] or other != ["object"]:
        return False
    if _leaves_out(first, second) or _leaves_out(second, first):
        return True
    needed = set(as_list(first.get("required"))) & set(as_list(second.get("required")))
    properties = as_schema(first.get("properties")), as_schema(second.get("properties"))
    return any(
        _no_common_value(as_schema(properties[0].get(name)), as_schema(properties[1].get(name)))
        for name in needed
    )


def _leaves_out(first: Schema, second: Schema) -> bool:
    """Return whether the first object forbids a property that the second requires."""
    if first.get("additionalProperties") is not False or "patternProperties" in first:
        return False
    known = as_schema(first.get("properties"))
    return any(name not in known for name in as_list(second.get("required")))


def _no_common_value(first: Schema, second: Schema) -> bool:
    own, other = values_of(first), values_of(second)
    if own is None or other is None:
        return False
    return {canonical(value) for value in own}.isdisjoint(canonical(value) for value in other)


def _overlap(own: list[str], other: list[str]) -> bool:
    numbers = {"number", "integer"}
    return bool(set(own) & set(other)) or bool(numbers & set(own) and numbers & set(other))


def _is_kind(value: Any, kind: str) -> bool:
    actual = json_type(value)
    return actual == kind or (actual == "integer" and kind == "number")
