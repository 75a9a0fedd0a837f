"""Schemas of servers are compiled once, fetch nothing, and are never trusted to be right."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from plait._support.bounded_work import TooMuchWorkError
from plait.client.catalog.validation import (
    BrokenSchemaError,
    place_of,
    prepare,
    quick_test,
    validator_for_schema,
    validator_if_prepared,
)
from plait.models.schemas.json_schema import CONSTRAINTS

BROKEN: list[dict[str, Any]] = [
    {"type": "nonsense"},
    {"type": 5},
    {"properties": []},
    {"$ref": "#/$defs/missing"},
    {"$ref": "#"},
    {"pattern": "("},
    {"$schema": ["not", "a", "text"]},
    {"$schema": "http://json-schema.org/draft-03/schema#", "type": "object", "extends": 5},
    {"$ref": "https://example.com/schema.json"},
]


def test_a_schema_is_compiled_once_whatever_the_order_of_its_keys() -> None:
    first = validator_for_schema({"type": "object", "required": ["compiled-once"]})

    assert validator_for_schema({"required": ["compiled-once"], "type": "object"}) is first


def test_a_schema_that_is_not_a_plain_dict_is_compiled_too() -> None:
    inner = MappingProxyType({"type": "integer"})
    validator = validator_for_schema(MappingProxyType({"properties": {"a": inner}}))

    assert validator.violations({"a": 1}) == ()
    assert len(validator.violations({"a": "x"})) == 1


def test_a_schema_that_was_changed_in_place_is_compiled_again() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"type": "integer"}}}
    assert validator_for_schema(schema).violations({"a": "x"})
    assert validator_for_schema(schema).violations({"a": "x"})

    schema["properties"]["a"]["type"] = "string"

    assert validator_for_schema(schema).violations({"a": "x"}) == ()


def test_the_number_of_schemas_kept_is_bounded() -> None:
    first = {"title": "the first of many"}
    validator_for_schema(first)
    for number in range(300):
        validator_for_schema({"title": f"one of many: {number}"})

    assert validator_if_prepared(first) is None
    assert validator_if_prepared({"title": "one of many: 299"}) is not None


def test_a_schema_in_use_outlives_those_that_are_not() -> None:
    used = {"title": "in use"}
    compiled = validator_for_schema(used)
    for number in range(300):
        validator_for_schema({"title": f"not in use: {number}"})
        assert validator_for_schema({"title": "in use"}) is compiled


class WatchedSchema(Mapping[str, Any]):
    """Remembers which threads read it."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self.readers: set[int] = set()

    def __getitem__(self, key: str) -> Any:
        self.readers.add(threading.get_ident())
        return self._schema[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._schema)

    def __len__(self) -> int:
        return len(self._schema)


@pytest.mark.anyio
async def test_preparing_compiles_in_another_thread_and_only_once() -> None:
    schema = WatchedSchema({"title": "prepared elsewhere", "type": "object"})
    assert validator_if_prepared(schema) is None

    await prepare(schema)

    assert schema.readers - {threading.get_ident()}
    assert validator_if_prepared(schema) is not None
    schema.readers.clear()
    await prepare(schema)
    validator_for_schema(schema)
    assert schema.readers <= {threading.get_ident()}


@pytest.mark.anyio
@pytest.mark.parametrize("schema", BROKEN)
async def test_a_broken_schema_says_so_in_one_line_in_every_form(schema: dict[str, Any]) -> None:
    validator = await prepare(schema)
    assert validator_if_prepared(schema) is validator

    problem = validator.problem({"a": "text"})
    for form in (validator, validator.exact(), validator.narrowed(schema)):
        with pytest.raises(BrokenSchemaError) as caught:
            form.violations({"a": "text"})
        assert problem == f"the schema itself is broken: {caught.value}"
    assert "\n" not in str(problem)
    assert not validator.surely_accepts({"a": "text"})


def test_what_is_not_json_is_a_broken_schema() -> None:
    circular: dict[str, Any] = {}
    circular["not"] = circular
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"not": deep}

    for schema in (circular, deep, {"const": object()}, {"a": 1, 2: 3}):
        validator = validator_for_schema(schema)  # pyright: ignore[reportArgumentType]
        assert validator.broken == "it is not JSON"


def test_the_reason_names_the_reference_that_leads_nowhere() -> None:
    problem = validator_for_schema({"$ref": "https://example.com/s.json"}).problem({})

    assert problem == (
        "the schema itself is broken: "
        "the reference 'https://example.com/s.json' leads nowhere in it"
    )


def test_the_reason_quotes_no_value() -> None:
    draft_3 = "http://json-schema.org/draft-03/schema#"
    validator = validator_for_schema({"$schema": draft_3, "type": "nonsense"})

    with pytest.raises(BrokenSchemaError) as caught:
        validator.violations({"password": "hunter2"})

    assert str(caught.value) == "there is no type 'nonsense'"


@pytest.mark.parametrize("scheme", ["http", "https", "file", "ftp"])
def test_nothing_is_fetched(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> NoReturn:
        raise AssertionError(f"tried to reach {args} {options}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr("urllib.request.urlopen", refuse)
    validator = validator_for_schema({"$ref": f"{scheme}://127.0.0.1/fetched.json"})

    with pytest.raises(BrokenSchemaError, match="leads nowhere"):
        validator.violations({})


def test_a_violation_knows_its_place_and_its_rule() -> None:
    schema = {"properties": {"items": {"items": {"properties": {"id": {"type": "integer"}}}}}}

    (violation,) = validator_for_schema(schema).violations({"items": [{"id": 1}, {"id": "x"}]})

    assert violation.path == ("items", 1, "id")
    assert (violation.keyword, violation.expected, violation.value) == ("type", "integer", "x")
    assert "'x'" not in repr(violation)


def test_a_union_tells_why_each_alternative_fails() -> None:
    object_with_id = {"type": "object", "required": ["id"]}
    schema = {"properties": {"a": {"anyOf": [{"type": "null"}, object_with_id]}}}

    (violation,) = validator_for_schema(schema).violations({"a": {}})

    assert violation.path == ("a",)
    assert [[each.keyword for each in branch] for branch in violation.branches] == [
        ["type"],
        ["required"],
    ]


def test_an_alternative_that_allows_nothing_fails_as_one_of_its_own() -> None:
    (violation,) = validator_for_schema({"anyOf": [False, {"type": "null"}, False]}).violations(1)

    assert [bool(branch) for branch in violation.branches] == [True, True, True]
    assert violation.branches[1][0].expected == "null"


def test_only_the_exact_form_tells_3_0_from_an_integer() -> None:
    dialect = "https://json-schema.org/draft/2020-12/schema"
    schema = {
        "$schema": dialect,
        "properties": {"a": {"type": "integer"}, "more": {"$ref": "#"}},
    }
    validator = validator_for_schema(schema)
    value = {"a": 3.0, "more": {"a": 3.0}}

    assert validator.violations(value) == ()
    assert not validator.surely_accepts(value)
    assert [each.path for each in validator.exact().violations(value)] == [
        ("a",),
        ("more", "a"),
    ]
    assert validator.exact().violations({"a": 3, "more": {"a": 3}}) == ()
    assert len(validator.exact().violations({"a": True})) == 1


def test_a_part_of_a_schema_keeps_its_references() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "type": "object"}
    part = validator_for_schema(schema).narrowed({"items": {"$ref": "#/$defs/n"}})

    assert part.violations([1, 2]) == ()
    assert len(part.violations([1, "x"])) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "arguments"),
        (("a",), "a"),
        (("a", "b-c", 0, "d"), "a.b-c[0].d"),
        (("a b",), '["a b"]'),
        (("a", "x.y"), 'a["x.y"]'),
        (("a", "line\nbreak"), 'a["line\\nbreak"]'),
    ],
)
def test_a_place_is_written_as_people_write_it(path: tuple[str | int, ...], text: str) -> None:
    assert place_of(path) == text


def test_a_place_stays_short() -> None:
    assert len(place_of(("x" * 10_000,))) < 100


FLAT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "description": "what to look for"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "x-mcp-header": "Limit"},
        "mode": {"type": "string", "enum": ["fast", "deep"]},
        "cursor": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string", "format": "uri"}},
        "regex": {"type": "string", "pattern": "^a"},
    },
    "required": ["query"],
    "additionalProperties": False,
}


def test_plain_arguments_are_accepted_fast() -> None:
    validator = validator_for_schema(FLAT)
    value = {"query": "x", "limit": 1, "mode": "fast", "cursor": None, "tags": ["a"]}

    assert validator.surely_accepts(value)
    assert not validator.surely_accepts({**value, "regex": "abc"}), "patterns have no fast test"
    assert validator.violations({**value, "regex": "abc"}) == ()


@pytest.mark.parametrize(
    "more",
    [
        *({"query": ""}, {"query": None}, {"mode": "slow"}, {"cursor": 5}, {"other": 1}),
        *({"limit": limit} for limit in (0, 101, True, 1.5)),
        *({"tags": ["a", 1]}, {"tags": "a"}),
    ],
)
def test_what_is_wrong_is_not_accepted_fast(more: dict[str, Any]) -> None:
    validator = validator_for_schema(FLAT)

    assert not validator.surely_accepts({"query": "x", **more})
    assert len(validator.violations({"query": "x", **more})) == 1


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"a": {}}},
        {"$schema": "http://json-schema.org/draft-03/schema#", "properties": {"a": {}}},
    ],
)
def test_dialects_with_other_meanings_have_no_fast_test(schema: dict[str, Any]) -> None:
    assert not validator_for_schema(schema).surely_accepts({})
    assert validator_for_schema(schema).violations({}) == ()


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "a", "b", "abc", "1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=8,
)
type_names = st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "null"])


def _rules(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": type_names | st.lists(type_names, min_size=1, max_size=3, unique=True),
            "enum": st.lists(json_values, min_size=1, max_size=3),
            "minimum": st.integers(-5, 5),
            "maximum": st.integers(-5, 5),
            "minLength": st.integers(0, 3),
            "maxLength": st.integers(0, 3),
            "items": inner,
            "properties": named,
            "patternProperties": st.dictionaries(st.just("^a"), inner, max_size=1),
            "required": st.lists(st.sampled_from(["a", "b", "c"]), max_size=2, unique=True),
            "additionalProperties": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "format": st.just("uri"),
            "title": st.just("a title"),
        },
    )


schemas = st.recursive(st.booleans(), _rules, max_leaves=8).filter(
    lambda each: isinstance(each, dict)
)


@given(schemas, json_values)
def test_what_is_accepted_fast_is_valid(schema: dict[str, Any], value: Any) -> None:
    if validator_for_schema(schema).surely_accepts(value):
        assert Draft202012Validator(schema).is_valid(value)


@given(schemas, json_values)
def test_violations_are_found_where_the_library_finds_errors(
    schema: dict[str, Any], value: Any
) -> None:
    validator = validator_for_schema(schema)
    errors = list(Draft202012Validator(schema).iter_errors(value))

    assert len(validator.violations(value)) == len(errors)
    assert (validator.problem(value) is None) == (not errors)


def test_patterns_that_look_ahead_are_not_checked_and_listed() -> None:
    validator = validator_for_schema({"properties": {"a": {"pattern": "^(?!x)"}}})
    assert validator.unchecked == ("^(?!x)",)
    assert validator.violations({"a": "x"}) == ()


def test_names_that_an_unknown_pattern_may_match_are_not_additional() -> None:
    schema = {"patternProperties": {"^(?!x)": {}, "^n": {}}, "additionalProperties": False}
    assert validator_for_schema(schema).violations({"y": 1}) == ()
    known = {"patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": False}
    (additional,) = validator_for_schema(known).violations({"n1": 1, "y": 1})
    assert additional.keyword == "additionalProperties"
    (wrong,) = validator_for_schema(known).violations({"n1": "x"})
    assert wrong.path == ("n1",)


def test_a_part_cannot_choose_a_dialect_whose_rules_have_no_bound() -> None:
    dialect = "http://json-schema.org/draft-07/schema#"
    part = {"$schema": dialect, "pattern": "^(a+)+$"}
    schema = {"properties": {"a": {"allOf": [part]}, "b": {"const": {"$schema": dialect}}}}
    validator = validator_for_schema(schema)
    began = time.thread_time()
    (wrong,) = validator.violations({"a": "a" * 28 + "!", "b": {"$schema": dialect}})
    assert wrong.path == ("a",)
    assert time.thread_time() - began < 0.5


def test_unevaluated_names_are_not_searched_for_with_the_patterns_of_the_library() -> None:
    schema = {"patternProperties": {"^(a+)+$": {}}, "unevaluatedProperties": False}
    began = time.thread_time()
    assert validator_for_schema(schema).violations({"a" * 28 + "!": 1}) == ()
    assert time.thread_time() - began < 0.5


def test_unique_items_are_found_in_linear_time() -> None:
    items: list[Any] = [{"n": number} for number in range(20_000)]
    validator = validator_for_schema({"uniqueItems": True})
    began = time.thread_time()
    assert validator.violations([*items, 1, True]) == ()
    assert [one.keyword for one in validator.violations([*items, {"n": 5}])] == ["uniqueItems"]
    assert time.thread_time() - began < 2


def test_a_value_with_too_many_alternatives_for_its_items_ends_as_unknown() -> None:
    options = [{"type": "object", "properties": {f"k{n}": {"const": n}}} for n in range(60)]
    validator = validator_for_schema({"items": {"items": {"anyOf": [*options, {"type": "null"}]}}})
    value = [[{"x": 1}] * 1000] * 100
    assert not validator.surely_accepts([["x"] * 1000] * 100)
    began = time.thread_time()
    with pytest.raises(TooMuchWorkError):
        validator.violations([[*one, "x"] for one in value])
    assert time.thread_time() - began < 3


def test_a_schema_with_too_many_entries_is_broken() -> None:
    schema = {"properties": {f"a{number}": {} for number in range(30_000)}}
    assert "entries" in (validator_for_schema(schema).broken or "")


PLAIN: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 3, "description": "A text."},
        "times": {"type": "integer", "minimum": 1},
        "kinds": {"type": "array", "items": {"enum": ["a", "b"]}},
    },
    "required": ["text"],
    "additionalProperties": False,
}


def test_the_rules_are_those_of_the_library() -> None:
    # A schema with a reference has no fast test.
    assert set(Draft202012Validator.VALIDATORS) - {"$ref", "$dynamicRef"} <= CONSTRAINTS


@pytest.mark.parametrize(
    ("arguments", "accepted"),
    [
        ({"text": "abc"}, True),
        ({"text": "abc", "times": 2, "kinds": ["a"]}, True),
        ({"text": "abcd"}, False),
        ({"text": "abc", "times": 0}, False),
        ({"text": "abc", "kinds": ["c"]}, False),
        ({"text": "abc", "more": 1}, False),
        ({"times": 2}, False),
        ([], False),
    ],
)
def test_it_accepts_what_the_compiled_schema_accepts(arguments: Any, accepted: bool) -> None:
    test = quick_test(PLAIN)

    assert test is not None
    assert test(arguments) is accepted
    assert validator_for_schema(PLAIN).surely_accepts(arguments) is accepted


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {}}},
        {"type": "object", "properties": {"a": {"type": "strin"}}},
        {"type": "object", "properties": {"a": {"minimum": "1"}}},
        {"type": "object", "required": "a"},
        {"type": "object", "if": {"required": ["a"]}, "then": False},
        {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"},
        {"$schema": 1, "type": "object"},
        {"$schema": [1], "type": "object"},
        {"type": "object", "properties": {str(n): {"type": "null"} for n in range(600)}},
    ],
)
def test_other_schemas_are_left_to_the_library(schema: dict[str, Any]) -> None:
    assert quick_test(schema) is None
