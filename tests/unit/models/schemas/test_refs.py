"""References are written out; what contains itself is left open."""

from __future__ import annotations

import copy
from types import MappingProxyType
from typing import Any

import pytest
from inline_snapshot import snapshot

from plait.models.schemas.for_provider import inline_refs


def _property(schema: Any, **definitions: Any) -> Any:
    document = {"type": "object", "properties": {"x": schema}, "$defs": definitions}
    return inline_refs(document).schema["properties"]["x"]


def test_a_reference_is_replaced_by_what_it_points_to() -> None:
    shaped = inline_refs(
        {
            "$defs": {"Id": {"type": "integer"}},
            "definitions": {"Name": {"type": "string"}},
            "type": "object",
            "properties": {"id": {"$ref": "#/$defs/Id"}, "name": {"$ref": "#/definitions/Name"}},
        }
    )

    assert shaped.schema == {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
    }
    assert shaped.notes == ()


A, B = {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}
CLOSED: Any = {"properties": {"a": {}}, "additionalProperties": False}
DATA: Any = {
    "properties": {"$ref": {"type": "string"}, "$defs": {"type": "string"}},
    "default": {"$ref": "#/$defs/x"},
    "enum": [{"$ref": "a"}],
}
STRANGE: Any = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"a": {"type": "strange", "minimum": "one", "x-own": {"b": [1]}}},
    "required": "a",
}
INLINED: dict[str, tuple[Any, Any]] = {
    "at the top": (A | {"$defs": {"A": {"type": "object"}}}, {"type": "object"}),
    "references that only point at each other allow anything": (
        {"properties": {"x": A}, "$defs": {"A": B, "B": {**A}}},
        {"properties": {"x": {"description": "recursive: same shape as A"}}},
    ),
    "comments beside a reference win, and descriptions are joined": (
        {
            "items": A | {"description": "Where to", "title": "Own", "default": 1},
            "$defs": {"A": {"description": "A number.", "title": "A", "default": 0}},
        },
        {"items": {"description": "Where to. A number.", "title": "Own", "default": 1}},
    ),
    "demands beside a reference are added": (
        {"items": A | {"minLength": 2}, "$defs": {"A": {"type": "string", "maxLength": 4}}},
        {"items": {"type": "string", "maxLength": 4, "minLength": 2}},
    ),
    "demands of the same kind hold both": (
        {"items": A | {"properties": {"b": {}}}, "$defs": {"A": CLOSED}},
        {"items": {"properties": {"b": {}}, "allOf": [CLOSED]}},
    ),
    "properties and data are no references": (DATA, DATA),
    "everything else is kept": (STRANGE, STRANGE),
    "definitions under another name": (
        {
            "items": {"$ref": "#/components/schemas/A"},
            "components": {
                "schemas": {"A": {"items": {"$ref": "#/components/schemas/B"}}, "B": True}
            },
        },
        {"items": {"items": True}},
    ),
    "dependencies of older drafts": (
        {
            "definitions": {"A": {"required": ["b"]}},
            "dependencies": {"a": {"$ref": "#/definitions/A"}, "c": ["d"]},
        },
        {"dependencies": {"a": {"required": ["b"]}, "c": ["d"]}},
    ),
    "mappings of every kind": (
        MappingProxyType({"properties": MappingProxyType({"a": MappingProxyType({})})}),
        {"properties": {"a": {}}},
    ),
    **{
        f"{schema!r} is no object": (schema, expected)
        for schema, expected in ((True, {}), (False, {"not": {}}), (None, {}), ([], {}), ("a", {}))
    },
}


@pytest.mark.parametrize(("schema", "inlined"), INLINED.values(), ids=INLINED)
def test_references_are_inlined_and_the_rest_is_kept(schema: Any, inlined: Any) -> None:
    assert inline_refs(schema).schema == inlined


@pytest.mark.parametrize(
    "reference",
    [
        *("#/$defs/a~1b%20~0c", "#/%24defs/a~1b%20~0c", "#/$defs/list/prefixItems/1"),
        "https://example.com/tool#/$defs/list/prefixItems/1",
        "#/$defs/by_id/$defs/inner",
    ],
)
def test_pointers_into_the_document_are_followed(reference: str) -> None:
    wanted = {"type": "integer", "minimum": 7}
    document = {
        "$id": "https://example.com/tool",
        "$defs": {
            "a/b ~c": wanted,
            "list": {"prefixItems": [True, wanted]},
            "by_id": {"$id": "other", "$defs": {"inner": wanted}},
        },
        "properties": {"x": {"$ref": reference}},
    }

    assert inline_refs(document).schema["properties"]["x"] == wanted


@pytest.mark.parametrize(
    "reference",
    [
        *("https://example.org/far.json", "#/$defs/nowhere", "#name", "other#/$defs/A", "http://["),
        *("%", "#/$defs/list/1", "#/$defs/list/x"),
    ],
)
def test_what_is_not_in_the_schema_allows_anything_and_is_noted(reference: str) -> None:
    definitions = {"list": [{"type": "null"}], "named": {"$anchor": "name"}, "A": {"$id": "other"}}
    properties = {"x": {"$ref": reference, "title": "X"}}
    shaped = inline_refs({"properties": properties, "$defs": definitions})

    assert shaped.schema == {"properties": {"x": {"title": "X"}}}
    assert shaped.notes == (f"x: {reference!r} is not in the schema, so anything is allowed",)


def test_a_schema_in_itself_is_left_open_with_its_type() -> None:
    shaped = inline_refs(
        {
            "$defs": {
                "Node": {
                    "type": "object",
                    "properties": {
                        "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}
                    },
                }
            },
            "properties": {"tree": {"$ref": "#/$defs/Node"}},
        }
    )

    assert shaped.schema == snapshot(
        {
            "properties": {
                "tree": {
                    "type": "object",
                    "properties": {
                        "children": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "description": "recursive: same shape as Node",
                            },
                        }
                    },
                }
            }
        }
    )
    assert shaped.notes == ("tree.children[]: recursive, left open: same shape as Node",)


def test_the_type_of_a_recursive_union_is_that_of_its_members() -> None:
    x = _property(
        {"$ref": "#/$defs/U"},
        U={
            "anyOf": [
                {"type": "object", "additionalProperties": {"$ref": "#/$defs/U"}},
                {"type": "string"},
            ]
        },
    )

    assert x["anyOf"][0]["additionalProperties"] == {
        "type": ["object", "string"],
        "description": "recursive: same shape as U",
    }


def test_the_whole_schema_can_be_meant() -> None:
    schema = {"type": "object", "title": "Filter", "properties": {"not": {"$ref": "#"}}}

    assert inline_refs(schema).schema["properties"]["not"] == {
        "type": "object",
        "description": "recursive: same shape as Filter",
    }


def test_the_given_schema_is_never_changed_and_shares_nothing_with_the_result() -> None:
    given: dict[str, Any] = {"properties": {"a": {"enum": [[1]], "default": {"b": []}}}}
    before = copy.deepcopy(given)

    written = inline_refs(given).schema
    written["properties"]["a"]["enum"][0].append(2)
    written["properties"]["a"]["default"]["b"].append(2)

    assert given == before


def test_a_definition_without_references_counts_with_all_its_parts() -> None:
    large = {"properties": {f"p{number}": {"type": "string"} for number in range(400)}}
    used = {f"x{number}": {"$ref": "#/$defs/large"} for number in range(20)}

    inlined = inline_refs({"properties": used, "$defs": {"large": large}})

    kept = [inner for inner in inlined.schema["properties"].values() if inner]
    assert 0 < len(kept) < len(used)
    assert {note.kind for note in inlined.notes} == {"recursion"}
