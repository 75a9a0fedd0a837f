"""Headers that repeat parts of a request are those that the MCP SDK writes and servers expect."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared import inbound

from plait.client.protocol.headers import (
    argument_headers,
    encode_header_value,
    invalid_mirror,
    mirrored_arguments,
    routing_headers,
)

HOLDERS = (
    *("properties", "items", "contains", "additionalProperties", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "not", "if", "then", "else", "contentSchema"),
    *("allOf", "anyOf", "oneOf", "prefixItems"),
    *("patternProperties", "dependentSchemas", "$defs", "definitions"),
    *("default", "examples", "enum", "const"),
)
"""Keys of a schema below which there may be schemas, or what looks like them."""
NAMES = st.sampled_from(["Region", "region", "X", "not a token", "", "nö", "a\n"])
DECLARED = st.one_of(NAMES, st.integers(), st.none())
TYPES = st.sampled_from(["string", "integer", "boolean", "number", "object", ["string"], None])
KEYS = st.sampled_from(["a", "b", "properties", "x-mcp-header"])
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.fixed_dictionaries({"type": TYPES}, optional={"x-mcp-header": DECLARED}),
        st.sampled_from([True, None, "text", 1]),
    ),
    lambda below: st.dictionaries(
        st.sampled_from(HOLDERS),
        st.one_of(below, st.lists(below, max_size=2), st.dictionaries(KEYS, below, max_size=3)),
        max_size=3,
    ),
    max_leaves=8,
)
GOOD = {"type": "string", "x-mcp-header": "Region"}


@given(SCHEMAS)
@example(None)
@example({"properties": {"a": GOOD}})
@example({"properties": {"a": {"properties": {"b": GOOD}}}})
@example({"properties": {"a": GOOD, "b": {**GOOD, "x-mcp-header": "REGION"}}})
@example({"properties": {"a": GOOD}, "x-mcp-header": "Region"})
@example({"items": {"properties": {"a": GOOD}}})
def test_declarations_are_valid_where_the_sdk_finds_them_valid(schema: Any) -> None:
    theirs = inbound.find_invalid_x_mcp_header(schema)

    assert (invalid_mirror(schema) is None) == (theirs is None), theirs
    assert mirrored_arguments(schema) == inbound.x_mcp_header_map(schema)


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("shape", ["schema", "list", "map"])
def test_every_place_of_a_declaration_counts_as_in_the_sdk(holder: str, shape: str) -> None:
    below = {"schema": GOOD, "list": [GOOD], "map": {"a": GOOD}}[shape]
    schema = {"properties": {"p": {"type": "object", holder: below}}}

    assert (invalid_mirror(schema) is None) == (inbound.find_invalid_x_mcp_header(schema) is None)
    assert mirrored_arguments(schema) == inbound.x_mcp_header_map(schema)


def test_a_schema_of_any_depth_is_read() -> None:
    schema: dict[str, Any] = GOOD
    for _ in range(5_000):
        schema = {"not": schema}

    assert invalid_mirror(schema) is not None


@given(st.text())
@example(" edge")
@example("edge ")
@example("=?base64?eA==?=")
@example("tab\t")
@example("line\n")
@example("\x7f")
def test_a_text_is_encoded_as_the_sdk_does_and_can_be_decoded(text: str) -> None:
    assert encode_header_value(text) == inbound.encode_header_value(text)
    assert inbound.decode_header_value(encode_header_value(text)) == text


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda below: st.one_of(
        st.lists(below, max_size=2), st.dictionaries(st.sampled_from("abc"), below)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from("abc"), VALUES))
def test_arguments_become_the_headers_that_the_sdk_writes(arguments: dict[str, Any]) -> None:
    mirrored = {("a",): "A", ("b",): "B", ("a", "b"): "A-B", ("c", "a", "b"): "C-A-B"}

    headers = argument_headers(mirrored, arguments)

    assert headers == inbound.mcp_param_headers(mirrored, arguments)


def test_a_number_with_more_digits_than_python_writes_has_no_header() -> None:
    assert argument_headers({("a",): "A", ("b",): "B"}, {"a": 10**5000, "b": 1}) == {
        "Mcp-Param-B": "1"
    }


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "wörk"}, "=?base64?d8O2cms=?="),
        ("prompts/get", {"name": "greet"}, "greet"),
        ("resources/read", {"uri": "file:///a"}, "file:///a"),
        ("resources/read", {"uri": 1}, None),
        ("tools/list", {"name": "x"}, None),
    ],
)
def test_a_request_names_its_method_and_its_target(
    method: str, params: dict[str, Any], name: str | None
) -> None:
    expected = {"mcp-method": method} | ({} if name is None else {"mcp-name": name})

    assert routing_headers(method, params) == expected
    for key in inbound.NAME_BEARING_METHODS:
        assert "mcp-name" in routing_headers(key, {"name": "n", "uri": "u"})
