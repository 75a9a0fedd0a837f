"""What a model gives becomes what a server takes, or a sentence that the model can act on."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from plait.client.calls.arguments import Prepared, argument_error_text, prepare_arguments
from plait.client.catalog.validation import validator_for_schema

Json = dict[str, Any]

INTEGER: Json = {"type": "integer"}
NUMBER: Json = {"type": "number"}
STRING: Json = {"type": "string"}
BOOLEAN: Json = {"type": "boolean"}
OBJECT: Json = {"type": "object"}
ARRAY: Json = {"type": "array"}
NULL: Json = {"type": "null"}
CLOSED: Json = {"additionalProperties": False}
UNNAMED = "arguments: has an argument or a name that is not allowed"
MODEL: Json = {
    "type": "object",
    "properties": {"id": INTEGER, "label": STRING},
    "required": ["id"],
}
SHAPES: Json = {
    "oneOf": [
        {
            "properties": {"kind": {"const": "circle"}, "radius": NUMBER},
            "required": ["kind", "radius"],
        },
        {
            "properties": {"kind": {"const": "square"}, "side": NUMBER, "note": STRING},
            "required": ["kind", "side"],
        },
    ]
}
TREE: Json = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": INTEGER,
                "left": {"anyOf": [{"$ref": "#/$defs/node"}, NULL]},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
        }
    },
    "$ref": "#/$defs/node",
}


def an_object(*required: str, **properties: Json | bool) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


def prepared(schema: Json, arguments: Mapping[str, Any]) -> Prepared:
    return prepare_arguments(validator_for_schema(schema), arguments, tool="search")


LEFT_OUT, SAME = object(), object()

SENT_VALUES: list[tuple[Any, Any, Any]] = [
    # Nulls of optional arguments that do not allow them.
    (STRING, None, LEFT_OUT),
    ({"enum": ["x", "y"]}, None, LEFT_OUT),
    ({"const": "x"}, None, LEFT_OUT),
    ({"anyOf": [STRING, INTEGER]}, None, LEFT_OUT),
    ({"allOf": [STRING]}, None, LEFT_OUT),
    ({"not": NULL}, None, LEFT_OUT),
    ({"type": ["string", "integer"]}, None, LEFT_OUT),
    ({"type": ["string", "null"], "enum": ["x"]}, None, LEFT_OUT),
    (MODEL, {"id": 1, "label": None}, {"id": 1}),
    (
        {"type": "array", "items": MODEL},
        [{"id": 1, "label": None}, {"id": 2, "label": "x"}],
        [{"id": 1}, {"id": 2, "label": "x"}],
    ),
    ({"anyOf": [MODEL, NULL]}, {"id": 1, "label": None}, {"id": 1}),
    ({"anyOf": [STRING, NULL]}, None, SAME),
    ({"oneOf": [STRING, NULL]}, None, SAME),
    ({"enum": ["x", None]}, None, SAME),
    ({"const": None}, None, SAME),
    ({}, None, SAME),
    (True, None, SAME),
    ({"description": "anything"}, None, SAME),
    ({"items": {}}, [None, 1], SAME),
    # JSON in strings.
    (ARRAY, "[1,2]", [1, 2]),
    (OBJECT, '{"b": 1}', {"b": 1}),
    (OBJECT, '\n {"b": 1}\n', {"b": 1}),
    ({"type": ["array", "object"]}, "[]", []),
    (MODEL, '{"id": "7", "label": null}', {"id": 7}),
    ({"type": "array", "items": MODEL}, '["{\\"id\\": \\"1\\"}"]', [{"id": 1}]),
    ({"anyOf": [MODEL, NULL]}, '{"id": 1}', {"id": 1}),
    (ARRAY, (1, 2), [1, 2]),
    # Numbers in strings, and numbers written as another kind.
    (INTEGER, "3", 3),
    (INTEGER, "-3", -3),
    (INTEGER, "3.0", 3),
    (INTEGER, "1e3", 1000),
    (INTEGER, "9007199254740993", 9007199254740993),
    (INTEGER, 3.0, 3),
    ({"items": INTEGER}, [3.0, "4"], [3, 4]),
    (INTEGER, 1e300, SAME),
    (NUMBER, "3", 3),
    (NUMBER, "3.5", 3.5),
    (NUMBER, "-1.5e-2", -0.015),
    (NUMBER, 3.0, SAME),
    ({"type": "integer", "enum": [1, 2]}, "2", 2),
    ({"allOf": [INTEGER, {"minimum": 1}]}, "2", 2),
    # Booleans in strings.
    (BOOLEAN, "true", True),
    (BOOLEAN, "false", False),
    # Strings stay strings where strings are allowed.
    (STRING, "3", SAME),
    ({"type": ["integer", "string"]}, "3", SAME),
    ({"anyOf": [INTEGER, STRING]}, "3", SAME),
    ({}, "3", SAME),
    ({"enum": ["3", 3]}, "3", SAME),
    # Unions in which one alternative can be meant.
    ({"type": ["integer", "boolean"]}, "true", True),
    ({"type": ["integer", "null"]}, "3", 3),
    ({"anyOf": [INTEGER, NULL]}, "3", 3),
    ({"oneOf": [BOOLEAN, NUMBER]}, "3.5", 3.5),
    ({"anyOf": [INTEGER, NUMBER]}, "3.0", 3),
    ({"anyOf": [{"const": "auto"}, INTEGER]}, "3", 3),
    ({"anyOf": [{"const": "auto"}, INTEGER]}, "auto", SAME),
    ({"anyOf": [INTEGER, {"type": "array", "items": INTEGER}]}, '["1", 2.0]', [1, 2]),
    (SHAPES, {"kind": "square", "side": "2", "note": None}, {"kind": "square", "side": 2}),
    ({"anyOf": [{"anyOf": [MODEL, NULL]}, BOOLEAN]}, {"id": "1", "label": None}, {"id": 1}),
]
"""The schema of an argument, what the model gives, and what is sent."""

SENT: list[tuple[Json, Json, Json]] = [
    (an_object("b", a=STRING, b=STRING), {"a": None, "b": "x"}, {"b": "x"}),
    (
        {"additionalProperties": STRING, "properties": {"a": INTEGER}},
        {"a": None, "b": "x"},
        {"b": "x"},
    ),
    ({"patternProperties": {"^a": STRING}}, {"ab": None, "b": None}, {"b": None}),
    # Nulls that stay.
    (an_object("a", a={"type": ["string", "null"]}), {"a": None}, {"a": None}),
    (an_object(), {"more": None}, {"more": None}),
    ({}, {"a": None}, {"a": None}),
    (an_object(a={"$ref": "#/$defs/n"}) | {"$defs": {"n": NULL}}, {"a": None}, {"a": None}),
    (an_object(a={"$ref": "#/$defs/n"}) | {"$defs": {"n": INTEGER}}, {"a": "2"}, {"a": 2}),
    (an_object(a=INTEGER) | {"if": {"required": ["a"]}, "then": {}}, {"a": "2"}, {"a": 2}),
    ({"prefixItems": [STRING], "properties": {"a": INTEGER}}, {"a": "2"}, {"a": 2}),
    (SHAPES, {"kind": "circle", "radius": "1.5"}, {"kind": "circle", "radius": 1.5}),
    (
        TREE,
        {"value": "1", "left": {"value": 2.0, "left": {"value": "3", "left": None}}},
        {"value": 1, "left": {"value": 2, "left": {"value": 3, "left": None}}},
    ),
    (TREE, {"children": [{"children": '[{"value": null}]'}]}, {"children": [{"children": [{}]}]}),
    (
        an_object(a=INTEGER) | {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"a": "3"},
        {"a": 3},
    ),
]
for _schema, _value, _sent in SENT_VALUES:
    _sent = {} if _sent is LEFT_OUT else {"a": _value if _sent is SAME else _sent}
    SENT.append((an_object(a=_schema), {"a": _value}, _sent))


@pytest.mark.parametrize(("schema", "given_", "sent"), SENT)
def test_arguments_become_what_the_schema_wants(schema: Json, given_: Json, sent: Json) -> None:
    before = copy.deepcopy(given_)

    ready = prepared(schema, given_)

    assert ready.problems == ()
    assert repr(ready.arguments) == repr(sent), "equal, and of the same types"
    assert bool(ready.changes) == (repr(given_) != repr(sent))
    assert given_ == before


PROBLEMS_OF_VALUES: list[tuple[Any, Any, str]] = [
    (INTEGER, "3.5", "must be an integer (got a string)"),
    (INTEGER, 3.5, "must be an integer (got a number)"),
    (INTEGER, "9007199254740993.0", "must be an integer (got a string)"),
    (INTEGER, True, "must be an integer (got a boolean)"),
    (BOOLEAN, 1, "must be a boolean (got an integer)"),
    (STRING, 5, "must be a string (got an integer)"),
    (STRING, {}, "must be a string (got an object)"),
    (ARRAY, 5, "must be an array (got an integer)"),
    (ARRAY, "x", "must be an array (got a string)"),
    (ARRAY, "{}", "must be an array (got a string)"),
    (ARRAY, "[" * 100_000, "must be an array (got a string)"),
    (OBJECT, "{bad", "must be an object (got a string)"),
    (OBJECT, '{"b": NaN}', "must be an object (got a string)"),
    (OBJECT, '{"b": 1e999}', "must be an object (got a string)"),
    ({"enum": [1, 2]}, "1", "must be one of 1, 2"),
    ({"const": 1}, "1", "must be 1"),
    ({"enum": list(range(30))}, "x", "must be one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …"),
    ({"type": "integer", "minimum": 5}, "3", "must be at least 5"),
    ({"maximum": 5}, 6, "must be at most 5"),
    ({"exclusiveMinimum": 5}, 5, "must be more than 5"),
    ({"exclusiveMaximum": 5}, 5, "must be less than 5"),
    ({"multipleOf": 5}, 6, "must be a multiple of 5"),
    ({"minLength": 2}, "x", "must have at least 2 characters"),
    ({"maxLength": 2}, "xyz", "must have at most 2 characters"),
    ({"minItems": 2}, [1], "must have at least 2 items"),
    ({"maxItems": 1}, [1, 2], "must have at most 1 items"),
    ({"uniqueItems": True}, [1, 1], "must not contain the same item twice"),
    ({"pattern": "^{x}$"}, "y", "must match the pattern ^{x}$"),
    ({"not": STRING}, "y", "has a form that is not allowed"),
    ({"contains": STRING}, [1], "lacks an item of the form that is wanted"),
    ({"prefixItems": [{}], "items": False}, [1, 2], "has too many items"),
    *(
        ({"type": ["integer", "null"]}, text, "must be an integer or null (got a string)")
        for text in ("x", "null")
    ),
    ({"anyOf": [INTEGER, NULL]}, "x", "must be an integer or null (got a string)"),
    ({"anyOf": [{"const": "auto"}, INTEGER]}, "x", 'must be "auto" or an integer (got a string)'),
    ({"anyOf": [{"enum": ["x"]}, {"enum": ["y"]}]}, "z", 'must be one of "x" or one of "y"'),
]
"""The schema of an argument, what the model gives, and what it is told."""

PROBLEMS: list[tuple[Json, Json, str]] = [
    (an_object("a", a=STRING), {"a": None}, "a: must be a string (got null)"),
    (an_object("a", a={"enum": ["x", "y"]}), {"a": None}, 'a: must be one of "x", "y" (got null)'),
    (an_object(a=MODEL), {"a": {"id": None}}, "a.id: must be an integer (got null)"),
    (
        an_object(a={"anyOf": [MODEL, NULL]}),
        {"a": {"id": None, "label": None}},
        "a.id: must be an integer (got null)",
    ),
    (an_object(a={"items": INTEGER}), {"a": [1, None]}, "a[1]: must be an integer (got null)"),
    ({"minProperties": 1}, {}, "arguments: must have at least 1 entries"),
    ({"propertyNames": {"pattern": "^a"}}, {"b": 1}, UNNAMED),
    (an_object(a=False), {"a": 1}, UNNAMED),
    (
        {"dependentRequired": {"a": ["b"]}},
        {"a": 1},
        "arguments: lacks an argument that goes with another one",
    ),
    (
        {"properties": {"a": {"unevaluatedItems": False}}},
        {"a": [1]},
        'a: breaks the rule "unevaluatedItems"',
    ),
    (an_object("path"), {}, "missing required argument: path"),
    (
        an_object("a", "b", "c"),
        {"b": 1},
        "missing required argument: a; missing required argument: c",
    ),
    (an_object(items={"items": MODEL}), {"items": [{}]}, "missing required argument: items[0].id"),
    (
        an_object("path", path=STRING) | CLOSED,
        {"pth": "x"},
        "unknown argument: pth (did you mean path?); missing required argument: path",
    ),
    (an_object(path=STRING) | CLOSED, {"path": "x", "zebra": 1}, "unknown argument: zebra"),
    (an_object(path=STRING) | CLOSED, {"pth": None}, "unknown argument: pth (did you mean path?)"),
    (
        an_object(a=an_object(path=STRING) | CLOSED),
        {"a": {"pat": "x"}},
        "unknown argument: a.pat (did you mean path?)",
    ),
    (
        {"patternProperties": {"^x-": {}}, "additionalProperties": False},
        {"x-a": 1, "y": 2},
        "unknown argument: y",
    ),
    (
        an_object(a={"anyOf": [MODEL, NULL]}),
        {"a": {"id": "x", "label": 5}},
        "a.id: must be an integer (got a string); a.label: must be a string (got an integer)",
    ),
    (SHAPES, {"kind": "square", "radius": 1}, "missing required argument: side"),
    (
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {},
        "missing required argument: a, or missing required argument: b",
    ),
    # Two alternatives can be meant, so none is chosen.
    (
        {
            "anyOf": [
                {"properties": {"a": INTEGER, "b": STRING}},
                {"properties": {"a": BOOLEAN, "b": {"type": ["string", "null"]}}},
            ]
        },
        {"a": None, "b": None},
        "a: must be a boolean (got null)",
    ),
    (an_object(a=INTEGER) | CLOSED, {"a b": 1}, 'unknown argument: ["a b"]'),
    *((an_object(a=kind), {"a": value}, f"a: {text}") for kind, value, text in PROBLEMS_OF_VALUES),
]


@pytest.mark.parametrize(("schema", "given_", "problems"), PROBLEMS)
def test_what_cannot_be_repaired_is_told(schema: Json, given_: Json, problems: str) -> None:
    ready = prepared(schema, given_)

    assert "; ".join(ready.problems) == problems
    assert ready.arguments is given_
    assert ready.changes == ()


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", " 3", "3 ", "1_000", "+3", "007", "3.", ".5", "0x10", "three", "٣", "9" * 5000),
        *("NaN", "inf", "Infinity", "-Infinity", "1e999", "null", '"3"', "true", "[3]"),
    ],
)
@pytest.mark.parametrize("kind", ["integer", "number"])
def test_only_plain_numbers_are_read(kind: str, text: str) -> None:
    article = "an" if kind == "integer" else "a"

    assert prepared(an_object(a={"type": kind}), {"a": text}).problems == (
        f"a: must be {article} {kind} (got a string)",
    )


@pytest.mark.parametrize("text", ["True", "FALSE", "yes", "1", "0", "", " true", "null"])
def test_only_plain_booleans_are_read(text: str) -> None:
    assert prepared(an_object(a=BOOLEAN), {"a": text}).problems == (
        "a: must be a boolean (got a string)",
    )


def test_valid_arguments_come_back_as_the_same_object() -> None:
    flat, other = {"a": 3, "b": "x"}, {"a": 3, "b": "abc"}

    assert prepared(an_object(a=INTEGER, b=STRING), flat).arguments is flat
    assert prepared(an_object(a=INTEGER, b={"pattern": "^a"}), other).arguments is other


def test_arguments_need_not_be_a_dict() -> None:
    ready = prepared(an_object(a=INTEGER), MappingProxyType({"a": "3"}))

    assert ready.arguments == {"a": 3}


def test_every_change_is_reported_with_its_place_and_without_values() -> None:
    schema = an_object(
        limit=INTEGER,
        filter=MODEL,
        tags={"type": "array", "items": INTEGER},
        deep=BOOLEAN,
        key={"anyOf": [MODEL, NULL]},
    )

    ready = prepared(
        schema,
        {
            "limit": "3",
            "filter": '{"id": 7.0, "label": null}',
            "tags": ["1"],
            "deep": "true",
            "key": {"id": "5"},
        },
    )

    assert sorted(ready.changes) == [
        "deep: a string was read as a boolean",
        "filter.id: a number was read as an integer",
        "filter.label: null was left out",
        "filter: a string was read as an object",
        "key.id: a string was read as an integer",
        "limit: a string was read as an integer",
        "tags[0]: a string was read as an integer",
    ]


def test_at_most_five_problems_are_told() -> None:
    schema = an_object(*"abcdefgh")

    problems = prepared(schema, {}).problems

    assert problems == (
        *(f"missing required argument: {name}" for name in "abcde"),
        "and 3 more",
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"properties": []},
        {"$ref": "#/$defs/missing"},
        {"$ref": "#"},
        {"$ref": "https://example.com/schema.json"},
    ],
)
def test_a_broken_schema_leaves_the_decision_to_the_server(schema: Json) -> None:
    given_ = {"a": None, "b": "hunter2"}

    ready = prepared(schema, given_)

    assert ready.arguments is given_
    assert ready.problems == ()
    (note,) = ready.changes
    assert note.startswith("the arguments are not checked: the input schema of search")
    assert "hunter2" not in note


@pytest.mark.parametrize(
    "schema",
    [
        an_object(a=INTEGER),
        an_object(a={"enum": ["x"]}),
        an_object(a={"const": "x"}),
        an_object(a={"pattern": "^x$"}),
        an_object(a={"maxLength": 1}),
        an_object(a={"anyOf": [INTEGER, {"maxLength": 1}]}),
        an_object(a={"oneOf": [STRING, {"minLength": 1}]}),
        an_object(a={"not": STRING}),
        an_object(a=OBJECT),
        an_object(a=False),
        {"properties": {"b": {}}, "additionalProperties": {"type": "object"}},
        {"propertyNames": {"maxLength": 0}},
        {"not": {}},
        {"$schema": "http://json-schema.org/draft-03/schema#", "properties": {"a": {"type": "x"}}},
    ],
)
@pytest.mark.parametrize("secret", ["hunter2", '{"hunter2": "hunter2"', '["hunter2", '])
def test_no_text_quotes_a_value(schema: Json, secret: str) -> None:
    ready = prepared(schema, {"a": secret})

    assert ready.problems or ready.changes
    assert "hunter2" not in " ".join((*ready.problems, *ready.changes, repr(ready)))


def test_problems_are_short_whatever_the_schema_says() -> None:
    schema = an_object(a={"enum": ["x" * 10_000] * 50}, b={"pattern": "y" * 10_000})

    assert all(len(text) < 600 for text in prepared(schema, {"a": "", "b": ""}).problems)


def test_an_old_dialect_is_understood() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-03/schema#",
        "properties": {"a": {"type": "integer", "required": True}, "b": {"type": [INTEGER]}},
    }

    assert prepared(schema, {"a": "3"}).arguments == {"a": 3}
    assert len(prepared(schema, {"b": "x"}).problems) == 2


def _nested(depth: int, innermost: Any) -> Json:
    value: Json = {"value": innermost}
    for _ in range(depth):
        value = {"left": value}
    return value


def test_moderate_depth_is_repaired() -> None:
    assert prepared(TREE, _nested(10, "3")).arguments == _nested(10, 3)


@pytest.mark.parametrize("innermost", [1, "x", None])
@pytest.mark.parametrize("depth", [30, 500, 50_000])
def test_any_depth_is_survived(depth: int, innermost: Any) -> None:
    given_ = _nested(depth, innermost)

    ready = prepared(TREE, given_)

    assert isinstance(ready, Prepared)
    assert ready.arguments is given_ or depth == 30
    while given_ := given_.pop("left", None):  # freed level by level
        pass


@pytest.mark.parametrize("frames", range(0, 60, 3))
def test_references_without_end_are_survived_wherever_the_stack_ends(frames: int) -> None:
    schema = {"properties": {"a": {"not": {"not": {"$ref": "#/properties/a"}}}}}

    def call_from(depth: int) -> Prepared:
        return call_from(depth - 1) if depth else prepared(schema, {"a": 1})

    (note,) = call_from(frames).changes
    assert "not checked" in note


def test_strings_in_strings_are_read_only_so_deep() -> None:
    schema = {"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}}
    text = "[]"
    for _ in range(12):
        text = json.dumps([text])

    ready = prepared(schema | an_object(a={"$ref": "#/$defs/a"}), {"a": text})

    assert ready.problems != ()


def test_many_items_in_a_union_are_repaired() -> None:
    schema = an_object(a={"items": {"anyOf": [MODEL, NULL]}})

    ready = prepared(schema, {"a": [{"id": str(number), "label": None} for number in range(300)]})

    assert ready.arguments == {"a": [{"id": number} for number in range(300)]}
    assert len(ready.changes) == 600


def test_the_text_for_the_model_says_what_to_do() -> None:
    text = argument_error_text("search", ["limit: must be an integer (got a string)", "and 2 more"])

    assert text == (
        "The arguments for search are not valid: limit: must be an integer (got a string); "
        "and 2 more. Call it again with corrected arguments."
    )


names = st.sampled_from(["a", "b", "c"])
kinds = st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "null"])
solid = st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 3.0, 1e300, "", "a", "3", "[1]"])
values = st.recursive(
    solid | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    max_leaves=4,
)
arguments = st.dictionaries(names, values, max_size=3)

leaf_schemas: st.SearchStrategy[Any] = st.one_of(
    kinds.map(lambda kind: {"type": kind}),
    st.lists(kinds, min_size=2, max_size=2, unique=True).map(lambda both: {"type": both}),
    st.sampled_from(["node", "count"]).map(lambda name: {"$ref": f"#/$defs/{name}"}),
    st.sampled_from(
        [
            True,
            False,
            {"enum": ["a", 3]},
            {"const": None},
            {"type": "integer", "minimum": 1},
            {"minLength": 1},
            {"not": {"type": "integer"}},
            {"propertyNames": {"const": "a"}},
            {"unevaluatedProperties": False},
            {"dependentRequired": {"a": ["b"]}},
        ]
    ),
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(
        {"properties": st.dictionaries(names, inner, max_size=3)},
        optional={
            "type": st.just("object"),
            "required": st.lists(names, max_size=1),
            "additionalProperties": inner,
        },
    )


def _larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        _objects(inner),
        inner.map(lambda items: {"type": "array", "items": items}),
        several.map(lambda parts: {"anyOf": parts}),
        several.map(lambda parts: {"oneOf": parts}),
        several.map(lambda parts: {"allOf": parts}),
    )


DEFINITIONS: Json = {
    "count": INTEGER,
    "node": {"properties": {"a": {"$ref": "#/$defs/node"}, "b": INTEGER}, "type": "object"},
}
schemas = _objects(st.recursive(leaf_schemas, _larger, max_leaves=5)).map(
    lambda schema: {**schema, "$defs": DEFINITIONS}
)


def _value_for(draw: st.DrawFn, schema: Any, depth: int) -> Any:
    """Draw a value that fits a schema, or would after some repair, or does not fit at all."""
    slips = st.sampled_from(["none"] * 6 + ["null", "text", "anything"])
    slip = draw(slips) if depth else "none"
    if slip == "null":
        return None
    if slip == "anything" or not isinstance(schema, dict) or depth > 4:
        return draw(values)
    value = _fitting(draw, cast("Json", schema), depth)
    return json.dumps(value) if slip == "text" else value


def _fitting(draw: st.DrawFn, schema: Json, depth: int) -> Any:
    if "$ref" in schema:
        definition = schema["$ref"].removeprefix("#/$defs/")
        return _value_for(draw, DEFINITIONS[definition], depth + 1)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema:
            return _value_for(draw, draw(st.sampled_from(schema[keyword])), depth + 1)
    if "properties" in schema:
        given_ = draw(st.sets(names)) | set(schema.get("required", ()))
        other = schema.get("additionalProperties", True)
        inner = {name: schema["properties"].get(name, other) for name in sorted(given_)}
        return {name: _value_for(draw, part, depth + 1) for name, part in inner.items()}
    if "items" in schema:
        return [_value_for(draw, schema["items"], depth + 1)] * draw(st.integers(0, 2))
    kind = schema.get("type")
    match draw(st.sampled_from(kind)) if isinstance(kind, list) else kind:
        case "string":
            return "a"
        case "integer":
            return draw(st.sampled_from([3, 3.0]))
        case "number":
            return 0.5
        case "boolean":
            return True
        case "object":
            return {}
        case "array":
            return []
        case "null":
            return None
        case _:
            return draw(values)


@st.composite
def calls(draw: st.DrawFn) -> tuple[Json, Json]:
    schema = draw(schemas)
    return schema, _value_for(draw, schema, 0)


many = settings(max_examples=200)


def _is_unchecked(ready: Prepared) -> bool:
    return any("not checked" in note or "sent, though" in note for note in ready.changes)


@many
@given(calls())
def test_what_comes_out_without_problems_is_valid(call: tuple[Json, Json]) -> None:
    schema, given_ = call
    before = repr(given_)

    ready = prepared(schema, given_)

    assert repr(given_) == before
    if not ready.problems and not _is_unchecked(ready):
        assert Draft202012Validator(schema).is_valid(ready.arguments)


@many
@given(calls())
def test_what_is_valid_comes_out_equal(call: tuple[Json, Json]) -> None:
    schema, given_ = call

    ready = prepared(schema, given_)

    if not _is_unchecked(ready) and Draft202012Validator(schema).is_valid(given_):
        assert ready.problems == ()
        assert ready.arguments == given_


BY_MODE: Json = {
    "type": "object",
    "properties": {"mode": {"enum": ["file", "web"]}},
    "required": ["mode"],
    "if": {"properties": {"mode": {"const": "file"}}},
    "then": {"properties": {"path": STRING}, "required": ["path"]},
    "else": {"$ref": "#/$defs/web"},
    "$defs": {"web": {"properties": {"url": STRING, "tries": INTEGER}, "required": ["url"]}},
}
OVERLAPPING: Json = {
    "type": "object",
    "oneOf": [
        {"properties": {"a": STRING}, "required": ["a"]},
        {"properties": {"a": STRING, "b": STRING}, "required": ["a"]},
    ],
}


@pytest.mark.parametrize(
    ("schema", "given_", "sent"),
    [
        (BY_MODE | CLOSED, {"mode": "file", "path": "x"}, None),
        (BY_MODE | CLOSED, {"mode": "web", "url": "x", "tries": 3}, None),
        (BY_MODE, {"mode": "file"}, None),
        (BY_MODE, {"mode": "file", "path": 5}, None),
        # As models write that have to fill in everything.
        (
            BY_MODE | CLOSED,
            {"mode": "file", "path": "x", "url": None, "tries": None},
            {"mode": "file", "path": "x"},
        ),
        (CLOSED | {"allOf": [BY_MODE]}, {"mode": "file", "path": "x"}, None),
        (an_object(inner=BY_MODE | CLOSED), {"inner": {"mode": "file", "path": "x"}}, None),
        (OVERLAPPING, {"a": "x"}, None),
        (OVERLAPPING, {"a": "x", "b": "y"}, None),
        (OVERLAPPING | CLOSED, {"a": "x", "b": "y"}, None),
        (
            {**OVERLAPPING, **CLOSED, "properties": {"c": INTEGER}},
            {"a": "x", "c": "3"},
            {"a": "x", "c": 3},
        ),
        (an_object(a={"oneOf": [{"minimum": 1}, {"minimum": 2}]}), {"a": 3}, None),
        (an_object(a={"oneOf": [INTEGER, NUMBER]}), {"a": 3}, None),
        (
            {"allOf": [an_object(a=STRING) | CLOSED, an_object(b=STRING) | CLOSED]},
            {"a": "x", "b": "y"},
            None,
        ),
        (
            {"properties": {"k": STRING}, "oneOf": [an_object("a", a=STRING) | CLOSED]},
            {"k": "x", "a": "y"},
            None,
        ),
        (
            CLOSED
            | {"dependentSchemas": {"a": {"properties": {"b": {}}}}, "properties": {"a": {}}},
            {"a": 1, "b": 2},
            None,
        ),
    ],
)
def test_what_servers_may_read_in_another_way_is_sent(
    schema: Json, given_: Json, sent: Json | None
) -> None:
    ready = prepared(schema, given_)

    assert (ready.arguments, ready.problems) == (sent or given_, ())
    assert ready.changes[-1].startswith("sent, though the schema read strictly says: ")


@pytest.mark.parametrize(
    ("schema", "given_", "problem"),
    [
        (BY_MODE | CLOSED, {"mode": "file", "path": "x", "paht": 1}, "unknown argument: paht"),
        (BY_MODE | CLOSED, {"path": "x"}, "missing required argument: mode"),
        (BY_MODE, {"mode": 5}, 'mode: must be one of "file", "web"'),
        (OVERLAPPING, {"b": "x"}, "missing required argument: a"),
        (OVERLAPPING | CLOSED, {"a": "x", "z": 1}, "unknown argument: z"),
        (
            {"oneOf": [an_object("a", a=STRING) | CLOSED, an_object("b", b=STRING) | CLOSED]},
            {"a": "x", "b": "y"},
            "unknown argument: b, or unknown argument: a",
        ),
    ],
)
def test_what_no_reading_of_the_schema_allows_is_told(
    schema: Json, given_: Json, problem: str
) -> None:
    ready = prepared(schema, given_)

    assert problem in ready.problems
    assert ready.arguments == given_


@many
@given(calls())
def test_what_was_prepared_once_needs_no_more_changes(call: tuple[Json, Json]) -> None:
    schema, given_ = call

    ready = prepared(schema, given_)

    if not ready.problems and not _is_unchecked(ready):
        assert prepared(schema, ready.arguments) == Prepared(ready.arguments)


nonsense = st.dictionaries(
    st.sampled_from(
        [
            *("type", "properties", "required", "items", "anyOf", "oneOf", "enum", "pattern"),
            *("$ref", "$schema", "$id", "$defs", "additionalProperties", "if", "dependencies"),
        ]
    ),
    values | schemas | st.sampled_from(["#", "(", "http://json-schema.org/draft-03/schema#"]),
    max_size=5,
)


@many
@given(nonsense, arguments)
def test_nothing_raises_whatever_the_schema_is(schema: Json, given_: Json) -> None:
    ready = prepared(schema, given_)

    assert all(text and "\n" not in text for text in (*ready.problems, *ready.changes))
