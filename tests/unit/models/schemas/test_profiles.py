"""What each profile makes of a schema, example by example."""

from __future__ import annotations

from typing import Any

import pytest

from plait.models.schemas.describe import ProviderSchema
from plait.models.schemas.for_provider import PROFILES, Profile, schema_for_provider

FREE: Any = {"type": "object", "additionalProperties": {"type": "integer"}}


def _shape(inner: Any, profile: Profile, *, required: bool = True) -> tuple[Any, tuple[str, ...]]:
    """Shape the schema of one argument `x`."""
    schema = {
        "type": "object",
        "properties": {"x": inner},
        "required": ["x"] if required else [],
    }
    shaped = schema_for_provider(schema, profile)
    return shaped.schema["properties"].get("x"), shaped.notes


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": ["string", "null"], "x-own": 1}}},
        {"type": "object", "properties": {}, "oneOf": [{"required": ["a"]}], "not": {}},
        {"type": "object", "properties": {}, "allOf": [{}], "unevaluatedProperties": False},
        {
            "type": "object",
            "properties": {"a": {"oneOf": [{"const": 1}], "if": True}},
            "$comment": "c",
        },
    ],
)
def test_the_default_keeps_everything(schema: Any) -> None:
    assert schema_for_provider(schema) == ProviderSchema(schema)
    assert schema_for_provider(schema, None) == schema_for_provider(schema, "default")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("schema", [{}, True, {"type": "object"}, {"type": ["object", "null"]}])
def test_the_top_is_always_an_object_with_properties(schema: Any, profile: Profile) -> None:
    shaped = schema_for_provider(schema, profile)

    assert shaped.schema["type"] == "object"
    assert shaped.schema["properties"] == {}
    assert shaped.notes == ()


BROKEN: Any = {
    "type": "strnig",
    "minLength": -1,
    "enum": [],
    "anyOf": [],
    "items": 5,
    "required": "a",
}
OLD: Any = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "properties": {
        "age": {"minimum": 0, "exclusiveMinimum": True, "maximum": 9},
        "pair": {"items": [{"type": "string"}, True], "additionalItems": False},
    },
    "dependencies": {"age": ["pair"], "pair": {"required": ["age"]}},
}


@pytest.mark.parametrize(
    ("profile", "schema", "expected", "notes"),
    [
        (None, False, {"not": {}, "properties": {}}, ()),
        (
            None,
            {"allOf": [[]]},
            {"properties": {}, "allOf": [{}]},
            ("allOf[0]: not a schema, so anything is allowed",),
        ),
        (
            None,
            {"properties": {"a": {**BROKEN, "title": "A"}}},
            {"properties": {"a": {"title": "A"}}},
            tuple(f"a: {key} is broken, left out" for key in BROKEN),
        ),
        (
            None,
            OLD,
            {
                "properties": {
                    "age": {"exclusiveMinimum": 0, "maximum": 9},
                    "pair": {"prefixItems": [{"type": "string"}, True], "items": False},
                },
                "dependentRequired": {"age": ["pair"]},
                "dependentSchemas": {"pair": {"required": ["age"]}},
            },
            (),
        ),
        (
            "openai",
            {"not": {"required": ["a", "b"]}, "enum": [{}]},
            {
                "properties": {},
                "description": 'Must be {}. Must not be: {"a": anything, "b": anything}',
            },
            ("(root): enum, not moved to the description",),
        ),
        (
            "anthropic",
            {"properties": {"$top": {"type": "integer"}}},
            {"properties": {"$top": {"type": "integer"}}},
            ("(root): the name '$top' may be refused: letters, digits and _.- only",),
        ),
    ],
)
def test_a_whole_schema_becomes_what_the_profile_can_say(
    profile: Profile | None, schema: Any, expected: Any, notes: tuple[str, ...]
) -> None:
    shaped = schema_for_provider(schema, profile)

    assert (shaped.schema, shaped.notes) == ({"type": "object", **expected}, notes)


def test_what_can_have_no_value_is_left_out_or_text() -> None:
    needs = {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    never = {"allOf": [needs, {"anyOf": [{"type": "string"}]}]}
    inner, _ = _shape({"type": "object", "properties": {"a": never}}, "gemini")

    assert _shape(never, "openai_strict", required=False)[0] is None
    assert inner["type"] == "string"


UNION: Any = {
    "description": "Manages things",
    "anyOf": [
        {
            "properties": {"action": {"const": "add"}, "name": {"type": "string"}},
            "required": ["action", "name"],
        },
        {
            "title": "Removal",
            "properties": {"action": {"const": "remove"}, "id": {"type": "integer"}},
            "required": ["action", "id"],
        },
        {"type": "null"},
    ],
}


@pytest.mark.parametrize("profile", ["openai", "anthropic", "gemini"])
def test_alternatives_at_the_top_become_one_object(profile: Profile) -> None:
    shaped = schema_for_provider(UNION, profile)

    assert shaped.schema == {
        "type": "object",
        "description": "Manages things. Use one of these forms: "
        '{"action": "add", "name": string}; {"action": "remove", "id": integer} (Removal).',
        "properties": {
            "action": {"type": "string", "enum": ["add", "remove"]},
            "name": {"type": "string"},
            "id": {"type": "integer"},
        },
        "required": ["action"],
    }
    assert shaped.notes == (
        "(root): anyOf became one object; its description says what goes together",
    )


@pytest.mark.parametrize("profile", ["openai", "anthropic", "openai_strict", "gemini"])
def test_one_alternative_that_is_an_object_loses_nothing(profile: Profile) -> None:
    plain = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}

    assert schema_for_provider(
        {"oneOf": [plain, {"type": "null"}]}, profile
    ) == schema_for_provider(plain, profile)
    assert schema_for_provider({"allOf": [plain]}, profile) == schema_for_provider(plain, profile)


@pytest.mark.parametrize("profile", ["openai", "anthropic"])
def test_what_every_alternative_at_the_top_says_of_an_argument_holds(profile: Profile) -> None:
    forms = [
        {"properties": {"id": {"type": kind}, "mode": {"const": kind}}, "required": ["mode"]}
        for kind in ("string", "integer")
    ]
    own = {"id": {"description": "Which one"}, "mode": {"type": "string"}}

    shaped = schema_for_provider({"properties": own, "oneOf": forms}, profile)

    assert shaped.schema["properties"] == {
        "id": {"description": "Which one", "anyOf": [{"type": "string"}, {"type": "integer"}]},
        "mode": {"type": "string", "enum": ["string", "integer"]},
    }
    assert shaped.schema["required"] == ["mode"]


@pytest.mark.parametrize("profile", ["openai", "anthropic", "gemini"])
def test_alternatives_at_the_top_that_only_need_arguments_are_told(profile: Profile) -> None:
    properties = {"a": {"type": "string"}, "b": {"type": "string"}}
    needs = [{"required": ["a"]}, {"required": ["b"]}]

    shaped = schema_for_provider({"properties": properties, "anyOf": needs}, profile)

    assert shaped.schema == {
        "type": "object",
        "properties": properties,
        "description": "At least one of these is needed: a; b",
    }
    assert shaped.notes == ("(root): anyOf moved to the description",)


@pytest.mark.parametrize("profile", ["openai", "anthropic"])
def test_a_closed_object_takes_what_its_conditions_name(profile: Profile) -> None:
    condition = {"if": {"required": ["a"]}, "then": {"properties": {"b": {"type": "string"}}}}
    closed = {"properties": {"a": {}}, "additionalProperties": False, **condition}

    shaped = schema_for_provider(closed, profile)

    assert shaped.schema["properties"] == {"a": {}, "b": {"type": "string"}}
    assert shaped.notes == ("(root): a closed object takes what is named beside it",)


@pytest.mark.parametrize("profile", ["openai", "anthropic"])
def test_nested_alternatives_are_kept_where_they_are_allowed(profile: Profile) -> None:
    inner = {"oneOf": [{"type": "string"}, {"allOf": [{"type": "integer"}]}], "not": {"const": 1}}

    assert _shape(inner, profile) == (inner, ())


def test_openai_wants_items_and_no_booleans() -> None:
    inner, notes = _shape(
        {
            "anyOf": [
                {"type": ["array", "null"]},
                {"type": "array", "prefixItems": [True], "items": False},
                {"type": "object", "properties": {"a": False}, "additionalProperties": False},
            ]
        },
        "openai",
    )

    assert inner["anyOf"] == [
        {"type": ["array", "null"], "items": {}},
        {"type": "array", "prefixItems": [{}], "items": {}, "maxItems": 1},
        {"type": "object", "properties": {"a": {"not": {}}}, "additionalProperties": False},
    ]
    assert notes == ()


@pytest.mark.parametrize(
    ("inner", "required", "expected"),
    [
        ({"type": "string"}, False, {"type": ["string", "null"]}),
        ({"enum": ["a", "b"]}, False, {"type": ["string", "null"], "enum": ["a", "b", None]}),
        ({"const": 1}, True, {"type": "integer", "enum": [1]}),
        ({"type": ["string", "null"]}, True, {"type": ["string", "null"]}),
        (
            {"type": "array", "items": {"type": "string"}},
            False,
            {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        ),
        (
            {"type": "integer", "minimum": 1, "default": 5, "description": "How many"},
            False,
            {"type": ["integer", "null"], "minimum": 1, "description": "How many. Default: 5."},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "null"}}},
            True,
            {
                "type": "object",
                "properties": {"a": {"type": "null"}},
                "required": ["a"],
                "additionalProperties": False,
            },
        ),
        (
            {"anyOf": [{"type": "string", "title": "Text"}, {"type": "number"}], "title": "Either"},
            True,
            {"anyOf": [{"type": "string", "title": "Text"}, {"type": "number"}], "title": "Either"},
        ),
        (
            {
                "type": "array",
                "prefixItems": [{"type": "number"}] * 2,
                "minItems": 2,
                "maxItems": 2,
            },
            True,
            {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
        ),
        (
            {"allOf": [{"type": "number", "minimum": 1}, {"maximum": 3}]},
            True,
            {"type": "number", "minimum": 1, "maximum": 3},
        ),
    ],
)
def test_strict_mode_says_the_same_in_its_own_way(
    inner: Any, required: bool, expected: Any
) -> None:
    assert _shape(inner, "openai_strict", required=required) == (expected, ())


@pytest.mark.parametrize(
    ("inner", "expected", "notes"),
    [
        (
            {"type": "string", "minLength": 1, "maxLength": 100, "description": "The name"},
            {"type": "string", "description": "The name. Must be >= 1 and <= 100 characters."},
            ("x: minLength, maxLength moved to the description",),
        ),
        (
            {"type": "string", "format": "uri", "pattern": "^(?!x)"},
            {"type": "string", "description": "Must match the pattern ^(?!x). Format: uri"},
            ("x: format, pattern moved to the description",),
        ),
        (
            FREE,
            {
                "type": "string",
                "description": "A JSON object, written as a string: {<name>: integer}",
            },
            ("x: an object that cannot be described, written as a JSON string",),
        ),
        (
            {"oneOf": [{"type": "integer", "minimum": 1}, {"type": "number", "maximum": 1}]},
            {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "number", "maximum": 1}]},
            ("x: oneOf became anyOf: several alternatives may fit at once",),
        ),
        (
            {"oneOf": [{"type": "string", "title": "Text"}, {"type": "number"}], "title": "Either"},
            {"anyOf": [{"type": "string", "title": "Text"}, {"type": "number"}], "title": "Either"},
            ("x: oneOf became anyOf: several alternatives may fit at once",),
        ),
        (
            {
                "type": "array",
                "prefixItems": [{"type": "string"}, {"type": "null"}],
                "items": False,
            },
            {
                "type": "array",
                "items": {"type": ["string", "null"]},
                "maxItems": 2,
                "description": "Items in this order: [string, null]",
            },
            ("x: the places in a list moved to the description",),
        ),
        (
            {"title": "X"},
            {
                "anyOf": [
                    {"type": "string"},
                    {"type": "number"},
                    {"type": "boolean"},
                    {"type": "null"},
                ],
                "title": "X",
                "description": "Any value; an object or a list as JSON text",
            },
            ("x: any value, but objects and lists only as JSON text",),
        ),
    ],
)
def test_strict_mode_has_the_rest_in_words(inner: Any, expected: Any, notes: Any) -> None:
    assert _shape(inner, "openai_strict") == (expected, notes)


def test_strict_mode_puts_first_what_tells_objects_apart() -> None:
    def form(kind: str) -> Any:
        properties = {"id": {"type": "string"}, "kind": {"const": kind}}
        return {"type": "object", "properties": properties, "required": ["id", "kind"]}

    inner, _ = _shape({"anyOf": [form("a"), form("b")]}, "openai_strict")

    assert [list(member["properties"]) for member in inner["anyOf"]] == [["kind", "id"]] * 2


def test_strict_mode_writes_what_is_nested_too_deep_as_text() -> None:
    schema: Any = {"type": "string"}
    for _ in range(12):
        schema = {"type": "object", "properties": {"n": schema}, "required": ["n"]}

    shaped = schema_for_provider(schema, "openai_strict")

    here, levels = shaped.schema, 0
    while here["type"] == "object":
        here, levels = here["properties"]["n"], levels + 1
    assert levels == 10
    assert here["description"].startswith("A JSON object, written as a string")


def test_strict_mode_notes_what_is_too_large() -> None:
    values = [f"value {number}" for number in range(1_001)]
    shaped = schema_for_provider(
        {"properties": {"a": {"enum": values}}, "required": ["a"]}, "openai_strict"
    )

    assert shaped.notes == ("(root): may be refused: 1001 listed values, more than 1000",)


def test_strict_mode_lists_arguments_that_are_only_required() -> None:
    shaped = schema_for_provider({"properties": {}, "required": ["a"]}, "openai_strict")

    assert shaped.schema["required"] == ["a"]
    assert "a" in shaped.schema["properties"]


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Name", "default": None},
            {"type": "string", "nullable": True, "description": "Name"},
        ),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"type": "string", "nullable": True}, {"type": "string", "nullable": True}),
        (
            {"type": "string", "nullable": True, "enum": ["a"]},
            {"type": "string", "nullable": True, "enum": ["a"]},
        ),
        (
            {"type": ["string", "integer", "null"], "minLength": 2, "description": "Either"},
            {
                "anyOf": [
                    {"type": "string", "minLength": 2, "description": "Either", "nullable": True},
                    {"type": "integer", "description": "Either"},
                ]
            },
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "null"}},
                "additionalProperties": False,
            },
            {"type": "object", "properties": {"a": {"type": "null"}}},
        ),
        (
            {"type": "string", "format": "date-time", "title": "When", "examples": ["now"]},
            {"type": "string", "format": "date-time", "description": 'When. Examples: "now".'},
        ),
    ],
)
def test_gemini_says_the_same_in_its_own_way(inner: Any, expected: Any) -> None:
    assert _shape(inner, "gemini") == (expected, ())


@pytest.mark.parametrize(
    ("inner", "expected", "notes"),
    [
        (
            {"type": "integer", "enum": [1, 2], "description": "Level"},
            {"type": "integer", "description": "Level. Must be one of: 1, 2."},
            ("x: enum moved to the description",),
        ),
        (
            {"type": "string", "enum": ["", "a"]},
            {"type": "string", "description": 'Must be one of: "", "a"'},
            ("x: enum moved to the description",),
        ),
        (
            {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 5, "maximum": 9},
            {
                "type": "integer",
                "maximum": 9,
                "description": "Must be > 0. Must be a multiple of 5",
            },
            ("x: exclusiveMinimum, multipleOf moved to the description",),
        ),
        (
            {"type": "object", "properties": {}},
            {"type": "string", "description": "A JSON object, written as a string"},
            ("x: an object that cannot be described, written as a JSON string",),
        ),
    ],
)
def test_gemini_has_the_rest_in_words(inner: Any, expected: Any, notes: Any) -> None:
    assert _shape(inner, "gemini") == (expected, notes)
