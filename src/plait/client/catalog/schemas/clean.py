"""Converting the keywords of any schema into valid ones of JSON Schema 2020-12."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from plait.client.catalog.schemas import keywords
from plait.client.catalog.schemas.plain_schema import DIALECT
from plait.client.catalog.schemas.provider_schema import Notes
from plait.client.catalog.schemas.values import (
    Schema,
    as_list,
    distinct,
    holds_ref,
    is_list,
    is_number,
    is_schema,
)

_BROKEN: Final = object()
_VALUES: Final = frozenset({"default", "const", "enum", "examples"})


def clean(schema: Schema, path: str, notes: Notes) -> Schema:
    """Return a schema with older keywords converted and invalid ones removed, but not its parts."""
    kept: Schema = {}
    for key, value in _without_ref_name(_modernized(schema), path, notes).items():
        repaired = _CHECKS[key](value) if key in _CHECKS else value
        if repaired is _BROKEN:
            notes.add(path, f"{key} is broken, left out", "invalid")
        elif key in _VALUES and holds_ref(value):
            notes.add(path, f"{key} has a value that looks like a reference, left out", "invalid")
        else:
            kept[key] = repaired
    return kept


def _without_ref_name(schema: Schema, path: str, notes: Notes) -> Schema:
    """Describe a property named `$ref` by a pattern: converters take the name for a reference."""
    properties = schema.get("properties")
    if not is_schema(properties) or "$ref" not in properties:
        return schema
    notes.add(path, "the property $ref is described by a pattern", "names")
    patterns = schema.get("patternProperties")
    known: Schema = patterns if is_schema(patterns) else {}
    others = {name: inner for name, inner in properties.items() if name != "$ref"}
    pattern = {**known, r"^\$ref$": properties["$ref"]}
    return {**schema, "properties": others, "patternProperties": pattern}


def _modernized(schema: Schema) -> Schema:
    """Convert keywords of earlier drafts to 2020-12."""
    modern = dict(schema)
    if modern.get("$schema") != DIALECT:
        modern.pop("$schema", None)
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(flag := modern.get(exclusive), bool):
            del modern[exclusive]
            if flag and is_number(modern.get(bound)):
                modern[exclusive] = modern.pop(bound)
    rest = modern.pop("additionalItems", None)
    if isinstance(modern.get("items"), list):
        first = modern.pop("items")
        if first:
            modern["prefixItems"] = first
        if rest is not None:
            modern["items"] = rest
    if is_schema(dependencies := modern.pop("dependencies", None)):
        for name, needed in dependencies.items():
            key = "dependentRequired" if isinstance(needed, list) else "dependentSchemas"
            if is_schema(known := modern.setdefault(key, {})):
                modern[key] = {**known, name: needed}
    return modern


def _count(value: Any) -> Any:
    return int(value) if is_number(value) and value >= 0 and value == int(value) else _BROKEN


def _if_is(*kinds: type) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, kinds) else _BROKEN


def _names(value: Any) -> Any:
    if not is_list(value):
        return _BROKEN
    return list(dict.fromkeys(name for name in value if isinstance(name, str)))


def _name_lists(value: Any) -> Any:
    if not is_schema(value):
        return _BROKEN
    return {name: _names(needed) for name, needed in value.items() if isinstance(needed, list)}


def _type(value: Any) -> Any:
    if isinstance(value, str):
        return value.lower() if value.lower() in keywords.TYPES else _BROKEN
    return [name for name in _names(as_list(value)) if name in keywords.TYPES] or _BROKEN


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(keywords.HOLD_SCHEMA, _if_is(bool, dict, Mapping)),
    **dict.fromkeys(keywords.HOLD_LIST, lambda value: as_list(value) or _BROKEN),
    **dict.fromkeys(keywords.HOLD_MAP, _if_is(dict)),
    "type": _type,
    "enum": lambda value: distinct(as_list(value)) or _BROKEN,
    "examples": _if_is(list),
    "required": _names,
    "dependentRequired": _name_lists,
    "multipleOf": lambda value: value if is_number(value) and value > 0 else _BROKEN,
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        lambda value: value if is_number(value) else _BROKEN,
    ),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _count),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _count),
    **dict.fromkeys(("title", "description", "$schema", "$comment"), _if_is(str)),
    **dict.fromkeys(("pattern", "format", "contentEncoding", "contentMediaType"), _if_is(str)),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _if_is(bool)),
}
"""Checks and repairs the value of each keyword; `_BROKEN` if that is impossible."""
