"""Arguments as plain values: from a schema, and back into one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.client.config.raw_value import UNSET
from plait.models.schemas.for_provider import inline_refs
from plait.models.schemas.parameters import (
    Parameter,
    convert_input_schema,
    parameters_from_schema,
    schema_from_parameters,
    to_json_schema,
)
from tests.unit.models.schemas.strategies import (
    ANY,
    JSON,
    REFERRING,
    SOUND,
    calmly,
    fits,
    values_for,
)


def _one(schema: Any) -> Parameter:
    (parameter,) = parameters_from_schema({"type": "object", "properties": {"x": schema}})
    return parameter


def _back(parameter: Parameter) -> Any:
    return schema_from_parameters([parameter])["properties"][parameter.name]


def test_a_schema_becomes_parameters() -> None:
    parameters = parameters_from_schema(
        {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
                "kind": {"type": "string", "enum": ["a", "b"]},
            },
            "required": ["query"],
        }
    )

    assert parameters == [
        Parameter(name="query", type="string", description="What to look for", required=True),
        Parameter(
            name="limit",
            type="integer",
            description="Must be >= 1 and <= 100",
            default=10,
            extra={"minimum": 1, "maximum": 100},
        ),
        Parameter(name="kind", type="string", enum=("a", "b")),
    ]


@pytest.mark.parametrize(
    ("schema", "description"),
    [
        ({"minimum": 1, "maximum": 100}, "Must be >= 1 and <= 100"),
        (
            {"description": "The name", "minLength": 1, "maxLength": 100},
            "The name. Must be >= 1 and <= 100 characters.",
        ),
        (
            {"description": "A code", "pattern": "^[A-Z]+$"},
            "A code. Must match the pattern ^[A-Z]+$.",
        ),
        ({"minItems": 1, "maxItems": 3}, "Must have >= 1 and <= 3 items"),
        ({"description": "Plain"}, "Plain"),
        ({}, ""),
    ],
)
def test_limits_are_told_and_kept(schema: Any, description: str) -> None:
    parameter = _one(schema)

    assert parameter.description == description
    assert _back(parameter) == schema


@pytest.mark.parametrize(
    ("schema", "kind", "nullable"),
    [
        ({"type": ["string", "null"]}, "string", True),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer", True),
        ({"oneOf": [{"type": "null"}, {"type": "object"}]}, "object", True),
        ({"type": "null"}, "null", True),
        ({"type": "string"}, "string", False),
        ({"type": ["string", "integer", "null"]}, "any", True),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "any", False),
        ({"type": ["string", "null"], "enum": ["a"]}, "string", False),
        ({}, "any", False),
        (True, "any", False),
    ],
)
def test_null_among_the_types_makes_a_parameter_nullable(
    schema: Any, kind: str, nullable: bool
) -> None:
    parameter = _one(schema)

    assert (parameter.type, parameter.nullable, parameter.required) == (kind, nullable, False)


def test_unions_keep_their_keyword() -> None:
    union = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}

    assert _one(union).extra == union
    assert _back(_one(union)) == union


def test_values_are_kept_for_every_type() -> None:
    assert _one({"enum": [1, "a", None, {"b": 2}]}).enum == (1, "a", None, {"b": 2})
    assert _one({"type": "boolean", "const": True}).enum == (True,)
    assert _back(_one({"type": "boolean", "const": True})) == {"type": "boolean", "const": True}


def test_a_default_of_null_is_not_a_missing_default() -> None:
    assert _one({"default": None}).default is None
    assert _one({}).default is UNSET
    assert _back(_one({"default": None})) == {"default": None}


def test_lists_and_objects_are_described_inside() -> None:
    parameter = _one(
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["id"],
                "additionalProperties": False,
            },
        }
    )

    assert parameter == Parameter(
        name="x",
        type="array",
        item_type="object",
        items=Parameter(
            name="",
            type="object",
            properties=(
                Parameter(name="id", type="integer", required=True),
                Parameter(name="tags", type="array", item_type="string"),
            ),
            extra={"additionalProperties": False},
        ),
    )


@pytest.mark.parametrize(
    "schema",
    [None, {}, [], "text", True, 5, {"type": "string"}, {"type": "array"}, {"properties": []}],
)
def test_what_describes_no_object_has_no_parameters(schema: object) -> None:
    assert parameters_from_schema(schema) == []


def test_there_are_two_names_for_each_direction() -> None:
    assert convert_input_schema is parameters_from_schema
    assert to_json_schema is schema_from_parameters
    assert schema_from_parameters([]) == {"type": "object", "properties": {}}


@given(st.dictionaries(st.text(max_size=4), SOUND, max_size=3), st.data())
@calmly
def test_there_and_back_a_schema_means_the_same(properties: Any, data: st.DataObject) -> None:
    required = data.draw(st.lists(st.sampled_from([*properties, "other"]), unique=True))
    schema = {"type": "object", "properties": properties, "required": required}

    back = schema_from_parameters(parameters_from_schema(schema))

    assert back["properties"].keys() == properties.keys() | set(required)
    assert set(back.get("required", [])) == set(required)
    for name, inner in properties.items():
        value = data.draw(JSON | values_for(inner))
        assert fits(back["properties"][name], value) == fits(inner, value)
        own = {key: inner[key] for key in ("default", "description", "enum") if key in inner}
        assert (
            own.items() <= back["properties"][name].items() or "anyOf" in back["properties"][name]
        )


@given(ANY)
@calmly
def test_parameters_of_any_schema_come_back_as_they_are(schema: Any) -> None:
    parameters = parameters_from_schema(schema)

    assert parameters_from_schema(schema_from_parameters(parameters)) == parameters


@given(REFERRING)
@settings(calmly, max_examples=40)
def test_references_are_written_out_first(schema: Any) -> None:
    assert parameters_from_schema(inline_refs(schema).schema) == parameters_from_schema(schema)


_EXTRA = st.dictionaries(
    st.sampled_from(["format", "title", "x-own"]), st.text(max_size=4), max_size=2
)
_SIMPLE = st.builds(
    Parameter,
    name=st.text(max_size=4),
    type=st.sampled_from(["string", "integer", "number", "boolean", "any"]),
    description=st.text(max_size=9),
    required=st.booleans(),
    enum=st.none()
    | st.lists(st.integers() | st.text(), min_size=1, max_size=3, unique=True).map(tuple),
    default=st.just(UNSET) | JSON,
    extra=_EXTRA,
)


def _distinct(parameters: list[Parameter]) -> tuple[Parameter, ...]:
    return tuple({parameter.name: parameter for parameter in parameters}.values())


_NESTED = st.recursive(
    _SIMPLE,
    lambda inner: (
        st.builds(
            Parameter,
            name=st.text(max_size=4),
            type=st.just("object"),
            description=st.text(max_size=9),
            required=st.booleans(),
            properties=st.lists(inner, max_size=3).map(_distinct),
            nullable=st.booleans(),
        )
        | st.builds(
            Parameter,
            name=st.text(max_size=4),
            type=st.just("array"),
            required=st.booleans(),
            item_type=st.none() | st.sampled_from(["string", "any", "integer"]),
        )
    ),
    max_leaves=6,
)


@given(st.lists(_NESTED, max_size=4).map(_distinct))
@calmly
def test_parameters_are_the_same_after_a_way_through_a_schema(parameters: Any) -> None:
    assert tuple(parameters_from_schema(schema_from_parameters(parameters))) == parameters
