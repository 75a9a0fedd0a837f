"""JSON values, and the keywords, types and values of JSON Schema 2020-12."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from math import isfinite
from typing import Any, Final, TypeGuard, cast

from plait._support.bounded_work import take_step

Schema = dict[str, Any]
"""A JSON Schema that is not a boolean."""

MAX_DEPTH_LEVELS = 64
"""Deeper levels allow anything, because Python's stack is finite."""
MAX_SHOWN_CHARS = 400
"""Longer JSON is cut in a text."""
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_NO_MAPPINGS = _SCALARS | {list}
"""Recognized at once: asking the abstract class of mappings takes ten times as long."""


def is_schema(value: object) -> TypeGuard[Schema]:
    """Return whether a value is an object, and so may be a schema."""
    return isinstance(value, dict)


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is a mapping of any kind, as long as its keys are texts."""
    return type(value) is dict or (type(value) not in _NO_MAPPINGS and isinstance(value, Mapping))


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value is a list."""
    return isinstance(value, list)


def as_schema(value: object) -> Schema:
    """Return a schema as an object: `True` allows anything, `False` nothing."""
    if is_schema(value):
        return value
    return {"not": {}} if value is False else {}


def entries_of(value: object) -> Mapping[str, Any]:
    """Return a mapping as it is, and anything else as an empty one."""
    return value if is_mapping(value) else {}


def as_list(value: object) -> list[Any]:
    """Return a list as it is, and anything else as an empty one."""
    return value if is_list(value) else []


def holds_ref(value: object, depth: int = 0) -> bool:
    """Return whether there is a key `$ref` in a value that is not a schema."""
    if depth > MAX_DEPTH_LEVELS:
        return False
    if is_mapping(value):
        return "$ref" in value or any(holds_ref(inner, depth + 1) for inner in value.values())
    return is_list(value) and any(holds_ref(inner, depth + 1) for inner in value)


def json_type(value: object) -> str:
    """Name the JSON type of a value; a whole number is an integer, however it is written."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def plain(value: Any, above: tuple[int, ...] = ()) -> Any:
    """Copy a JSON value, so that the copy can be changed; what lies too deep is left out."""
    if not isinstance(value, list | tuple) and not is_mapping(value):
        return value
    address = id(cast("object", value))
    if len(above) > MAX_DEPTH_LEVELS or address in above:
        return None
    inside = (*above, address)
    if isinstance(value, list | tuple):
        return [plain(inner, inside) for inner in cast("Iterable[Any]", value)]
    return {
        key: inner if type(inner) in _SCALARS else plain(inner, inside)
        for key, inner in value.items()
        if isinstance(key, str)  # pyright: ignore[reportUnnecessaryIsInstance]  # not JSON
    }


def canonical(value: Any) -> str:
    """Write a value so that equal JSON values, and only they, are written alike."""
    return json.dumps(_comparable(value, 0), sort_keys=True, default=repr)


def same(first: Any, second: Any) -> bool:
    """Return whether two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    return first is second or canonical(first) == canonical(second)


def distinct(values: Iterable[Any]) -> list[Any]:
    """Keep the first of each group of equal JSON values."""
    first: dict[str, Any] = {}
    for value in values:
        first.setdefault(canonical(value), value)
    return list(first.values())


def short_json(value: Any) -> str:
    """Write a value as JSON for a reader, cut where it gets long."""
    try:
        text = json.dumps(plain(value), ensure_ascii=False, default=str)
    except ValueError:  # Python refuses to write an integer of thousands of digits
        return "…"
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"


def _comparable(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH_LEVELS:
        return "…"
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[object, Any]", value).items()
        return {str(key): _comparable(inner, depth + 1) for key, inner in items}
    if isinstance(value, list | tuple):
        return [_comparable(inner, depth + 1) for inner in cast("Iterable[Any]", value)]
    return value


TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")

HOLD_SCHEMA: Final = frozenset(
    {"additionalProperties", "unevaluatedProperties", "propertyNames", "contentSchema"}
    | {"items", "additionalItems", "unevaluatedItems", "contains", "not", "if", "then", "else"}
)
HOLD_LIST: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
HOLD_MAP: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
"""The last one is of earlier drafts, and may hold lists of names, too."""
HOLD_SCHEMAS: Final = HOLD_SCHEMA | HOLD_LIST | HOLD_MAP
HOLD_VALUE: Final = frozenset({"enum", "const", "default", "examples", "example"})
"""Their values are data; a `$ref` in it is no reference."""
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
DEFINITIONS: Final = ("$defs", "definitions")
NAMED_SCHEMAS: Final = (HOLD_MAP - {"dependencies"}).union(DEFINITIONS)
"""Keywords whose keys are names, and whose values are schemas."""
ADDRESSES: Final = frozenset(
    {"$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", *DEFINITIONS}
)
"""Keywords that only references need."""

ANNOTATIONS: Final = frozenset(
    {"title", "description", "default", "examples", "deprecated"}
    | {"readOnly", "writeOnly", "$comment", "$schema"}
)
"""Keywords that describe values without restricting them."""

TEXTS: Final = frozenset(
    {"title", "description", "$comment", "pattern", "format"}
    | {"contentEncoding", "contentMediaType"}
)
FLAGS: Final = frozenset({"uniqueItems", "deprecated", "readOnly", "writeOnly"})
COUNTS: Final = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems"}
    | {"minProperties", "maxProperties", "minContains", "maxContains"}
)
BOUNDS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})

UNIONS: Final = ("anyOf", "oneOf")

_STRING: Final = frozenset(
    {"minLength", "maxLength", "pattern", "format"}
    | {"contentEncoding", "contentMediaType", "contentSchema"}
)
_NUMBER: Final = BOUNDS | {"multipleOf", "format"}
ARRAY_SHAPE: Final = frozenset({"items", "prefixItems", "unevaluatedItems"})
OBJECT_SHAPE: Final = frozenset(
    {"properties", "patternProperties", "additionalProperties", "unevaluatedProperties"}
)

KEYWORDS_OF: Final[dict[str, frozenset[str]]] = {
    "string": _STRING,
    "number": _NUMBER,
    "integer": _NUMBER,
    "boolean": frozenset(),
    "null": frozenset(),
    "array": ARRAY_SHAPE
    | {"minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"},
    "object": OBJECT_SHAPE
    | {"required", "minProperties", "maxProperties", "propertyNames"}
    | {"dependentRequired", "dependentSchemas"},
}
"""The keywords that apply to values of one type."""

CONDITION: Final = frozenset({"if", "then", "else"})
TOGETHER: Final = (
    OBJECT_SHAPE,
    ARRAY_SHAPE,
    CONDITION,
    frozenset({"contains", "minContains", "maxContains"}),
)
"""Keywords that depend on each other, so that they cannot come from two schemas."""
CONSTRAINTS: Final = CONDITION.union(
    ("type", "enum", "const", "not", "allOf", "anyOf", "oneOf"), *KEYWORDS_OF.values()
)


def types_of(schema: Schema) -> list[str]:
    """List the types that a schema declares; empty if it does not."""
    named = schema.get("type")
    if isinstance(named, str):
        return [named]
    return [name for name in as_list(named) if isinstance(name, str)]


def map_children(schema: Schema, visit: Callable[[Any, str], Any]) -> Schema:
    """Return the schema with every inner schema replaced by `visit(inner, step)`."""
    take_step()
    changed: Schema = {}
    for key, value in schema.items():
        if key in HOLD_SCHEMA and not is_list(value):
            changed[key] = visit(value, "[]" if key == "items" else f".{key}")
        # In earlier drafts, `items` may be a list, too.
        elif is_list(value) and (key in HOLD_LIST or key in HOLD_SCHEMA):
            start = "" if key in ("items", "prefixItems") else f".{key}"
            changed[key] = [visit(inner, f"{start}[{index}]") for index, inner in enumerate(value)]
        elif key in HOLD_MAP and is_schema(value):
            start = "" if key == "properties" else f".{key}"
            changed[key] = {name: visit(inner, f"{start}.{name}") for name, inner in value.items()}
        else:
            changed[key] = value
    return changed


def places_in(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield a schema and all inside of it, each with its path."""
    yield path, schema
    inside: list[tuple[str, Schema]] = []
    map_children(
        schema, lambda inner, step: inside.append((step_into(path, step), as_schema(inner)))
    )
    for step, inner in inside:
        yield from places_in(inner, step)


def step_into(path: str, step: str) -> str:
    """Extend a path: `filter` and `.tags` give `filter.tags`."""
    return path + step if path else step.removeprefix(".")


NEVER: Final[Schema] = {"not": {}}
"""The schema that nothing fits."""
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


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

MAX_PLAIN_LEVELS: Final = 16
"""Deeper schemas are converted, which is bounded in every way."""
_TYPES: Final = frozenset(TYPES)
_TEXT: Final = frozenset({str})
_FLAG: Final = frozenset({bool})
_PLAIN: Final[dict[str, frozenset[type]]] = {
    **dict.fromkeys((*HOLD_SCHEMAS, *ADDRESSES, *REFERENCES), frozenset[type]()),
    **dict.fromkeys(("dependentRequired", "multipleOf", "$schema"), frozenset()),
    **dict.fromkeys(("type", "required", "enum", "examples", "nullable"), frozenset()),
    **dict.fromkeys(TEXTS, _TEXT),
    **dict.fromkeys((*FLAGS, "items", "additionalProperties"), _FLAG),
    **dict.fromkeys(COUNTS, frozenset({int})),
    **dict.fromkeys(BOUNDS, frozenset({int, float})),
}
"""The types of a keyword's value with which nothing has to be done; of others, any scalar."""


def shared_if_plain(schema: object) -> Schema | None:
    """Return the schema of an object without copying it, if nothing in it has to be converted.

    Only its root may be new. `None` means that it may have to be converted.
    """
    if not is_schema(schema) or schema.get("type") != "object":
        return None
    root: Schema = schema
    if "$schema" in root and root["$schema"] != DIALECT:
        root = {key: value for key, value in root.items() if key != "$schema"}
    if "properties" not in root:
        root = {**root, "properties": cast("Schema", {})}
    return root if plain_size(root) else None


def plain_size(schema: object, depth: int = 0) -> int:
    """Count the schemas in a schema in which nothing has to be converted.

    0 means that something may have to be.
    """
    # Binding a tool takes not much longer than this, so that it avoids generators and calls.
    if not is_schema(schema):
        return int(type(schema) is bool)
    if depth > MAX_PLAIN_LEVELS:
        return 0
    size = 1
    for key, value in schema.items():
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        inner: Any = ()
        if key == "type" and kind is str:
            if value not in _TYPES:
                return 0
        elif kind in _SCALARS:
            if kind not in _PLAIN.get(key, _SCALARS):
                if key != "$schema" or value != DIALECT:
                    return 0
            elif key in COUNTS:
                if value < 0:
                    return 0
            elif kind is float and key in _PLAIN and not isfinite(value):
                return 0
        elif key == "properties" and kind is dict:
            if "$ref" in value:
                return 0
            inner = value.values()
        elif kind is dict and (key == "items" or key == "additionalProperties"):
            inner = (value,)
        elif kind is list and (key == "anyOf" or key == "oneOf" or key == "allOf"):
            if not value:
                return 0
            inner = value
        elif kind is list and (key == "required" or key == "enum" or key == "type"):
            if not (_SCALARS if key == "enum" else _TEXT).issuperset(map(type, value)):
                return 0
            names = set(value)  # 1 and true are one there, and then told apart by the long way
            if len(names) < len(value) or not (names or key == "required"):
                return 0
            if key == "type" and not names <= _TYPES:
                return 0
        else:
            is_data = key == "default" or key == "const" or (key == "examples" and kind is list)
            if not is_data or kind not in (dict, list) or holds_ref(value):
                return 0
        for part in inner:
            part_size = plain_size(part, depth + 1)
            if not part_size:
                return 0
            size += part_size
    return size
