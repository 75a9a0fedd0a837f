"""Random schemas, sound and strange, and values that fit a schema."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from jsonschema.validators import Draft202012Validator

from tests.unit.models.schemas.subsets import LIST_KEYS, MAP_KEYS, SCHEMA_KEYS

Strategy = st.SearchStrategy[Any]

calmly = settings(
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ]
)
"""Large examples take their time on a busy machine, and that is no failure."""

NAMES = st.sampled_from(["a", "b", "c", "id", "kind", "größe", "with space"])
TEXTS = st.text(st.characters(codec="ascii", exclude_categories=["C"]), max_size=6)
SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.5, 2.5]) | TEXTS
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
REFERENCES = ("#/$defs/A", "#/$defs/B", "#/definitions/C", "#")


def _optional(required: dict[str, Strategy], optional: dict[str, Strategy]) -> Strategy:
    return st.fixed_dictionaries(required, optional=optional)


_ABOUT: dict[str, Strategy] = {
    "title": st.sampled_from(["Title", "Other"]),
    "description": st.sampled_from(["Says something", "Says something.", "Must be >= 1"]),
    "default": SCALARS,
    "examples": st.lists(SCALARS, max_size=2),
}
_SMALL = st.integers(0, 3)
_STRING = _optional(
    {"type": st.just("string")},
    {
        "minLength": _SMALL,
        "maxLength": st.integers(3, 9),
        "pattern": st.sampled_from(["^[a-z]*$", "^(?!x)", "."]),
        "format": st.sampled_from(["uri", "date", "date-time", "email"]),
        **_ABOUT,
    },
)
_NUMBER = _optional(
    {"type": st.sampled_from(["integer", "number"])},
    {
        "minimum": st.integers(-5, 0),
        "maximum": st.integers(0, 5),
        "exclusiveMinimum": st.sampled_from([-6, -5.5]),
        "exclusiveMaximum": st.sampled_from([6, 5.5]),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "format": st.sampled_from(["int32", "double"]),
        **_ABOUT,
    },
)
_PLAIN = _optional({"type": st.sampled_from(["boolean", "null", "string", "integer"])}, _ABOUT)
_VALUES = _optional(
    {"enum": st.lists(SCALARS, min_size=1, max_size=4, unique_by=repr)}, _ABOUT
) | _optional({"const": SCALARS}, _ABOUT)
_TYPE_LIST = _optional(
    {
        "type": st.lists(
            st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"]),
            min_size=1,
            max_size=3,
            unique=True,
        )
    },
    {"minLength": _SMALL, "minimum": _SMALL, **_ABOUT},
)
_REFERENCE = _optional(
    {"$ref": st.sampled_from([*REFERENCES, "#/$defs/Missing", "https://example.com/x"])},
    {"description": st.just("Beside a reference"), "minLength": _SMALL},
)
LEAVES = _STRING | _NUMBER | _PLAIN | _VALUES | _TYPE_LIST


def _objects(inner: Strategy) -> Strategy:
    return _optional(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
        {
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "patternProperties": st.dictionaries(st.sampled_from(["^x", "a"]), inner, max_size=1),
            "minProperties": st.integers(0, 1),
            "dependentRequired": st.just({"a": ["b"]}),
            "propertyNames": st.just({"maxLength": 20}),
            "unevaluatedProperties": st.just(False),
            **_ABOUT,
        },
    )


def _arrays(inner: Strategy) -> Strategy:
    return _optional(
        {"type": st.just("array")},
        {
            "items": inner | st.booleans(),
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "minItems": st.integers(0, 1),
            "maxItems": st.integers(1, 4),
            "uniqueItems": st.booleans(),
            "contains": inner,
            **_ABOUT,
        },
    )


def _combined(inner: Strategy) -> Strategy:
    members = st.lists(inner, min_size=1, max_size=3)
    return (
        _optional({"anyOf": members}, _ABOUT)
        | _optional({"oneOf": members}, _ABOUT)
        | _optional({"allOf": members}, _ABOUT)
        | _optional({"not": inner}, {"type": st.just("string")})
        | _optional({"if": inner}, {"then": inner, "else": inner})
        | _optional(
            {
                "type": st.just("object"),
                "anyOf": st.just([{"required": ["a"]}, {"required": ["b"]}]),
            },
            {"properties": st.dictionaries(NAMES, inner, max_size=2)},
        )
    )


def _nested(leaves: Strategy) -> Strategy:
    return st.recursive(
        leaves, lambda inner: _objects(inner) | _arrays(inner) | _combined(inner), max_leaves=5
    )


SOUND = _nested(LEAVES)
"""Schemas without references."""


@st.composite
def _with_definitions(draw: st.DrawFn) -> Any:
    inner = _nested(LEAVES | _REFERENCE | st.booleans())
    root = draw(_objects(inner) | _combined(inner) | inner)
    if not isinstance(root, dict):
        return root
    return {
        **root,
        "$defs": {"A": draw(inner), "B": draw(inner)},
        "definitions": {"C": draw(inner)},
    }


REFERRING = _with_definitions()
"""Schemas with references, also to themselves and to nowhere."""


def _gentle_objects(inner: Strategy) -> Strategy:
    return _optional(
        {
            "type": st.just("object"),
            "properties": st.dictionaries(NAMES, inner, min_size=1, max_size=3),
        },
        {
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.just(False),
        },
    )


def _gentle_unions(inner: Strategy) -> Strategy:
    members = st.lists(inner, min_size=1, max_size=3)
    return (
        st.fixed_dictionaries({"anyOf": members})
        | st.fixed_dictionaries({"oneOf": members})
        | st.fixed_dictionaries({"allOf": members})
        | st.fixed_dictionaries({"type": st.just("object"), "anyOf": members})
    )


GENTLE = st.recursive(
    _PLAIN
    | st.fixed_dictionaries({"enum": st.lists(st.sampled_from(["a", "b", "x", None]), min_size=1)})
    | _optional({"type": st.just("integer")}, {"minimum": _SMALL, "exclusiveMaximum": st.just(5)})
    | st.fixed_dictionaries(
        {"type": st.lists(st.sampled_from(["string", "integer", "null"]), min_size=1, unique=True)}
    ),
    lambda inner: (
        _gentle_objects(inner)
        | _optional({"type": st.just("array"), "items": inner}, {"maxItems": _SMALL})
        | _gentle_unions(inner)
    ),
    max_leaves=6,
)
"""Schemas of which every profile can say most."""

_OTHER_KEYS = {"type", "enum", "const", "default", "title", "description", "examples", "x-own"}
_NUMBER_KEYS = {"minimum", "exclusiveMinimum", "multipleOf", "minLength", "minItems", "maxItems"}
_OLD_KEYS = {"$ref", "$id", "$anchor", "$schema", "dependencies", "additionalItems", "nullable"}
_NAME_KEYS = {"required", "dependentRequired", "pattern", "format"}
KEYWORDS = st.sampled_from(
    sorted(
        set[str]().union(
            *(SCHEMA_KEYS, LIST_KEYS, MAP_KEYS, _OTHER_KEYS, _NUMBER_KEYS, _OLD_KEYS, _NAME_KEYS)
        )
    )
)
STRANGE = st.recursive(
    SCALARS
    | st.sampled_from([*REFERENCES, "#/", "#/properties/a", "string", "object", "%", "[::"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS | NAMES, inner, max_size=4)
    ),
    max_leaves=12,
)
"""Anything that looks like a schema from afar."""

ANY = SOUND | REFERRING | STRANGE


def values_for(schema: Any, depth: int = 4) -> Strategy:
    """Draw values that have a good chance to fit a schema."""
    if not isinstance(schema, dict) or depth == 0:
        return SCALARS
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            rest = {name: value for name, value in schema.items() if name != key}
            return st.one_of([values_for({**rest, **each}, depth - 1) for each in schema[key]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    named = schema.get("type", ["object", "string", "integer"])
    kinds = [named] if isinstance(named, str) else named
    return st.one_of([_values_of(kind, schema, depth) for kind in kinds])


def _values_of(kind: str, schema: Any, depth: int) -> Strategy:
    match kind:
        case "string":
            return st.text(
                st.sampled_from("abxyz1"), min_size=schema.get("minLength", 0), max_size=9
            )
        case "integer":
            return st.integers(-6, 6)
        case "number":
            return st.integers(-12, 12).map(lambda number: number / 2)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            items = values_for(schema.get("items", {}), depth - 1)
            return st.lists(items, min_size=schema.get("minItems", 0), max_size=3)
        case _:
            properties = schema.get("properties", {})
            required = set(schema.get("required", []))
            inner = {name: values_for(each, depth - 1) for name, each in properties.items()}
            return st.fixed_dictionaries(
                {name: each for name, each in inner.items() if name in required},
                optional={name: each for name, each in inner.items() if name not in required},
            )


def fits(schema: Any, value: Any) -> bool:
    """Say whether a value fits a schema."""
    return Draft202012Validator(schema).is_valid(value)
