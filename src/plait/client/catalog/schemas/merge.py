"""Merging schemas that must all hold, and the types and values that a schema allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any, Final

from plait.client.catalog.allowance import take_step
from plait.client.catalog.patterns import found
from plait.client.catalog.schemas.describe import join_descriptions
from plait.client.catalog.schemas.keywords import (
    ARRAY_SHAPE,
    CONDITION,
    CONSTRAINTS,
    KEYWORDS_OF,
    OBJECT_SHAPE,
    types_of,
)
from plait.client.catalog.schemas.values import (
    MOST_DEPTH,
    Schema,
    as_list,
    as_schema,
    canonical,
    distinct,
    is_list,
    is_schema,
    json_type,
    same,
)

NEVER: Final[Schema] = {"not": {}}
"""The schema that nothing fits."""
_CONTAINS: Final = frozenset({"contains", "minContains", "maxContains"})
_UNEVALUATED: Final = (
    ("unevaluatedProperties", "additionalProperties"),
    ("unevaluatedItems", "items"),
)
_MOST_COMPARED: Final = 16
_LOOKS_INSIDE: Final = frozenset({"allOf", "anyOf", "oneOf", "if", "dependentSchemas"})


def is_never(schema: Any) -> bool:
    """Return whether nothing can fit a schema, as far as that is easily seen."""
    return schema is False or (is_schema(schema) and schema.get("not") in ({}, True))


def merge_members(schema: Schema, depth: int = 0) -> Schema:
    """Return the schema with the members of `allOf` merged into it.

    What one schema cannot express, such as two patterns, stays in `allOf`.
    """
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for member in as_list(schema.get("allOf")):
        inner = as_schema(member)
        if depth < MOST_DEPTH:
            inner = merge_members(inner, depth + 1)
        merged = merge(merged, inner)
    return evaluated(merged)


def evaluated(schema: Schema) -> Schema:
    """Spell `unevaluated…` as the simpler keyword that means the same, where there is one."""
    if not any(key in schema for key, _ in _UNEVALUATED) or _LOOKS_INSIDE & schema.keys():
        return schema
    changed = dict(schema)
    for key, simpler in _UNEVALUATED:
        rule = changed.pop(key, None)
        if rule is not None and "contains" not in changed:
            changed.setdefault(simpler, rule)
        elif rule is not None:
            changed[key] = rule
    return changed


def merge(first: Any, second: Any, depth: int = 0) -> Schema:
    """Return one schema for the values that fit both; where they only comment, the first wins."""
    take_step()
    first, second = as_schema(first), evaluated(as_schema(second))
    if not second or same(first, second):
        return first
    if not first:
        return second
    if depth > MOST_DEPTH or any(key in second for key, _ in _UNEVALUATED):
        return _with_member(first, second)
    merged, left = dict(first), dict(second)
    behind: Schema = {}
    _merge_objects(merged, left, behind, depth)
    _merge_arrays(merged, left, behind, depth)
    _merge_values(merged, left)
    for group in (CONDITION, _CONTAINS):
        own, other = _taken(merged, left, group)
        if not same(own, other):
            behind.update(other)
    for key, value in left.items():
        _merge_keyword(merged, key, value, behind, depth)
    return _with_member(merged, behind) if behind else merged


def _with_member(schema: Schema, member: Schema) -> Schema:
    return {**schema, "allOf": _union(as_list(schema.get("allOf")), [member])}


def _merge_keyword(merged: Schema, key: str, value: Any, behind: Schema, depth: int) -> None:
    if key not in merged:
        merged[key] = value
    elif same(merged[key], value) or (key not in CONSTRAINTS and key != "description"):
        return
    elif key == "type":
        _merge_types(merged, types_of({"type": value}))
    elif key == "description":
        merged[key] = join_descriptions(merged[key], value)
    elif key == "not":
        merged[key] = {"anyOf": [merged[key], value]}
    elif key == "propertyNames":
        merged[key] = merge(merged[key], value, depth + 1)
    elif key in ("dependentSchemas", "dependentRequired"):
        merged[key] = _merge_maps(merged[key], value, depth)
    elif (rule := _RULES.get(key)) and (both := rule(merged[key], value)) is not None:
        merged[key] = both
    else:
        behind[key] = value


def _merge_types(merged: Schema, others: list[str]) -> None:
    own = types_of(merged)
    both = [name for name in own if name in others]
    if "integer" not in both and (
        ("integer" in own and "number" in others) or ("number" in own and "integer" in others)
    ):
        both.append("integer")
    if "number" in both and "integer" in both:
        both.remove("integer")
    if both:
        merged["type"] = both[0] if len(both) == 1 else both
    else:
        merged.update(NEVER)


def _merge_values(merged: Schema, left: Schema) -> None:
    own, other = values_of(merged), values_of(left)
    if own is None or other is None:
        return
    left.pop("enum", None)
    left.pop("const", None)
    allowed = {canonical(value) for value in other}
    both = [value for value in own if canonical(value) in allowed]
    if both and "const" not in merged:
        merged["enum"] = both
    elif not both:
        merged.update(NEVER)


def values_of(schema: Schema) -> list[Any] | None:
    """Return the only values that a schema allows, if it lists them."""
    listed = as_list(schema.get("enum")) or None
    if "const" not in schema:
        return listed
    only = schema["const"]
    return [only] if listed is None or any(same(only, value) for value in listed) else []


def _merge_objects(merged: Schema, left: Schema, behind: Schema, depth: int) -> None:
    own, other = _taken(merged, left, OBJECT_SHAPE)
    if not other:
        return
    if not (_patterns_fit(own, other) and _patterns_fit(other, own)):
        behind.update(other)
        return
    names = {**as_schema(own.get("properties")), **as_schema(other.get("properties"))}
    if names:
        merged["properties"] = {
            name: merge(_rule_for(own, name), _rule_for(other, name), depth + 1) for name in names
        }
    patterns = _merge_maps(own.get("patternProperties"), other.get("patternProperties"), depth)
    if patterns:
        merged["patternProperties"] = patterns
    rules = [one["additionalProperties"] for one in (own, other) if "additionalProperties" in one]
    if len(rules) == 2 and False not in rules:
        merged["additionalProperties"] = merge(rules[0], rules[1], depth + 1)
    elif rules:
        merged["additionalProperties"] = False if False in rules else rules[0]


def _patterns_fit(first: Schema, second: Schema) -> bool:
    """Return whether the first's rule for other names leaves the patterns of the second alone."""
    if first.get("additionalProperties", True) in (True, {}):
        return True
    patterns = as_schema(second.get("patternProperties")).keys()
    return patterns <= as_schema(first.get("patternProperties")).keys()


def _rule_for(shape: Schema, name: str) -> Any:
    properties = as_schema(shape.get("properties"))
    if name in properties:
        return properties[name]
    for pattern in as_schema(shape.get("patternProperties")):
        if found(pattern, name) is not False:
            return True  # the pattern itself stays
    return shape.get("additionalProperties", True)


def _merge_arrays(merged: Schema, left: Schema, behind: Schema, depth: int) -> None:
    own, other = _taken(merged, left, ARRAY_SHAPE)
    if not other:
        return
    if "unevaluatedItems" in own:
        behind.update(other)
        return
    firsts = as_list(own.get("prefixItems")), as_list(other.get("prefixItems"))
    rests = own.get("items", True), other.get("items", True)
    length = max(map(len, firsts))
    if length:
        merged["prefixItems"] = [
            merge(_at(firsts[0], rests[0], index), _at(firsts[1], rests[1], index), depth + 1)
            for index in range(length)
        ]
    if "items" in own or "items" in other:
        merged["items"] = False if False in rests else merge(*rests, depth + 1)


def _at(first: list[Any], rest: Any, index: int) -> Any:
    return first[index] if index < len(first) else rest


def _merge_maps(first: Any, second: Any, depth: int) -> Schema:
    merged = dict(as_schema(first))
    for name, inner in as_schema(second).items():
        if name not in merged:
            merged[name] = inner
        elif is_list(inner):
            merged[name] = distinct([*as_list(merged[name]), *inner])
        else:
            merged[name] = merge(merged[name], inner, depth + 1)
    return merged


def _taken(merged: Schema, left: Schema, group: frozenset[str]) -> tuple[Schema, Schema]:
    """Return the keywords of a group in both, removed from `left`, if both have some."""
    own = {key: value for key, value in merged.items() if key in group}
    if not own:
        return {}, {}
    return own, {key: left.pop(key) for key in list(left) if key in group}


def _common_multiple(first: Any, second: Any) -> Any:
    if isinstance(first, int) and isinstance(second, int):
        return math.lcm(first, second)
    if first % second == 0:
        return first
    return second if second % first == 0 else None


def _union(first: list[Any], second: list[Any]) -> list[Any]:
    both = [*first, *second]
    # Long lists only arise from schemas made to be long, and repetition does no harm.
    return distinct(both) if len(both) <= _MOST_COMPARED else both


_RULES: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "required": lambda first, second: list(dict.fromkeys([*first, *second])),
    "allOf": _union,
    "multipleOf": _common_multiple,
    "uniqueItems": lambda first, second: first or second,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
"""Combines two values of a keyword into one."""

_MOST_BRANCHES: Final = 24
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
        # The values decide: a number that can only be 0 is an integer.
        fitting = [v for v in values if not named or any(_is_kind(v, kind) for kind in named)]
        kinds = list(dict.fromkeys(map(json_type, fitting)))
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
    if len(branches) > _MOST_BRANCHES:
        return False
    merged = [merge_members(as_schema(branch)) for branch in branches]
    return all(_apart(first, second) for first, second in combinations(merged, 2))


def _apart(first: Schema, second: Schema) -> bool:
    if is_never(first) or is_never(second):
        return True
    own, other = types_of(first), types_of(second)
    kinds = [{"number" if kind == "integer" else kind for kind in named} for named in (own, other)]
    if (all(kinds) and kinds[0].isdisjoint(kinds[1])) or _no_common_value(first, second):
        return True
    if own != ["object"] or other != ["object"]:
        return False
    needed = set(as_list(first.get("required"))) & set(as_list(second.get("required")))
    one, two = as_schema(first.get("properties")), as_schema(second.get("properties"))
    return (
        _leaves_out(first, second)
        or _leaves_out(second, first)
        or any(_no_common_value(as_schema(one.get(n)), as_schema(two.get(n))) for n in needed)
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


def _is_kind(value: Any, kind: str) -> bool:
    actual = json_type(value)
    return actual == kind or (actual == "integer" and kind == "number")
