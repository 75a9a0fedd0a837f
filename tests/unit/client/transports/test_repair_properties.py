"""Whatever a server sends, the repaired answer is one the SDK takes, and nothing good is lost."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast, get_args

import mcp_types as types
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mcp_types import methods
from pydantic import BaseModel, ValidationError

from plait.client.protocol.repair import ORIGINAL, repair_result

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
VERSIONS = [LEGACY, MODERN]

Json = dict[str, Any]

FIELDS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
    "resources/read": "contents",
    "prompts/get": "messages",
}

GOOD_BLOCKS: list[Json] = [
    {"type": "text", "text": ""},
    {"type": "text", "text": "hello", "annotations": {"audience": ["user"], "priority": 0.5}},
    {"type": "text", "text": "marked", "_meta": {"vendor/x": [1]}},
    {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
    {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "a://b", "name": "b", "mimeType": "text/plain"},
    {"type": "resource", "resource": {"uri": "a://b", "text": "inside"}},
    {"type": "resource", "resource": {"uri": "a://b", "blob": "AAAA"}},
]

GOOD_TOOLS: list[Json] = [
    {"name": "plain", "inputSchema": {"type": "object"}},
    {
        "name": "rich",
        "title": "Rich",
        "description": "does things",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        "_meta": {"vendor/x": 1},
    },
]

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)

keys = st.sampled_from(
    [
        "type",
        "text",
        "data",
        "mimeType",
        "uri",
        "name",
        "resource",
        "annotations",
        "_meta",
        "inputSchema",
        "outputSchema",
        "title",
        "description",
        "icons",
        "role",
        "content",
    ]
)


@st.composite
def _spoiled(draw: st.DrawFn, good: list[Json]) -> Json:
    """Take something good, and change or drop one of its parts."""
    item = copy.deepcopy(draw(st.sampled_from(good)))
    inner = item.get("resource")
    target = cast("Json", inner) if isinstance(inner, dict) and draw(st.booleans()) else item
    key = draw(keys)
    if draw(st.booleans()):
        target.pop(key, None)
    else:
        target[key] = draw(json_values)
    return item


def _items(good: list[Json]) -> st.SearchStrategy[Any]:
    whole = st.sampled_from(good).map(copy.deepcopy)
    return st.one_of(whole, _spoiled(good), json_values)


blocks = _items(GOOD_BLOCKS)
tools = _items(GOOD_TOOLS)

envelopes: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {},
    optional={
        "resultType": st.just("complete"),
        "ttlMs": json_values,
        "cacheScope": st.sampled_from(["public", "private"]) | json_values,
        "nextCursor": json_values,
        "_meta": json_values,
        "isError": json_values,
        "structuredContent": json_values,
        "vendorOwn": json_values,
    },
)

anything: st.SearchStrategy[Json] = st.builds(
    lambda envelope, more: {**envelope, **more},
    envelopes,
    st.dictionaries(
        st.sampled_from(
            ["content", *FIELDS.values(), "serverInfo", "capabilities", "instructions"]
        ),
        st.lists(blocks | tools, max_size=3) | json_values,
        max_size=4,
    ),
)

thorough = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _finished(method: str, version: str) -> Any:
    """Return the arm of the SDK's union that is a finished answer."""
    row = methods.SERVER_RESULTS[(method, version)]
    arms = cast("tuple[type[BaseModel], ...]", get_args(row) or (row,))
    return next(arm for arm in arms if arm.__name__ != "InputRequiredResult")


def _accept(method: str, version: str, result: Json) -> types.Result:
    """Read an answer as the SDK does, without the arm that takes nearly anything."""
    row = methods.MONOLITH_RESULTS[method]
    model = next(arm for arm in (get_args(row) or (row,)) if arm is not types.InputRequiredResult)
    surface = {(method, version): _finished(method, version)}
    methods.validate_server_result(method, version, result, surface=surface)
    return methods.parse_server_result(
        method, version, result, surface=surface, monolith={method: model}
    )


def _is_good(method: str, field: str, version: str) -> Callable[[object], bool]:
    """Judge one item of a list, by an answer that holds nothing else."""

    def judge(item: object) -> bool:
        probe = {field: [item], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        try:
            _accept(method, version, probe)
        except ValidationError:
            return False
        return True

    return judge


@pytest.mark.parametrize("version", VERSIONS)
@thorough
@given(st.lists(blocks, max_size=5), envelopes)
@example([{"type": ["text"]}], {})
@example([{"type": "resource", "resource": {"uri": "http://["}}], {})
@example([{"type": {"a": 1}, "text": "kept"}], {})
def test_a_repaired_call_is_valid_and_keeps_every_good_block_in_its_place(
    version: str, content: list[Any], envelope: Json
) -> None:
    result = {**envelope, "content": content}
    sent = copy.deepcopy(result)

    repaired = repair_result("tools/call", result, version)

    assert result == sent
    _accept("tools/call", version, repaired.result)
    kept = repaired.result["content"]
    assert len(kept) == len(content)
    good = _is_good("tools/call", "content", version)
    for before, after in zip(content, kept, strict=True):
        if good(before):
            assert after is before
        elif isinstance(before, str):
            assert after == {"type": "text", "text": before}
        else:
            assert after["_meta"] == {ORIGINAL: before}


@pytest.mark.parametrize("version", VERSIONS)
@thorough
@given(st.lists(tools, max_size=5), envelopes)
@example([], {"ttlMs": -1})
@example([], {"ttlMs": 1.5})
@example([], {"cacheScope": []})
def test_a_repaired_tool_list_is_valid_and_holds_exactly_the_good_tools(
    version: str, listed: list[Any], envelope: Json
) -> None:
    result = {**envelope, "tools": listed}
    sent = copy.deepcopy(result)

    repaired = repair_result("tools/list", result, version)

    assert result == sent
    _accept("tools/list", version, repaired.result)
    good = [tool for tool in listed if _is_good("tools/list", "tools", version)(tool)]
    assert repaired.result["tools"] == good
    left_out = [note for note in repaired.notes if "was left out: " in note]
    assert len(left_out) == len(listed) - len(good)


@pytest.mark.parametrize("version", VERSIONS)
@thorough
@given(st.sampled_from(["tools/call", *FIELDS]), anything)
@example("prompts/get", {"messages": [{"role": [], "content": "x"}]})
@example("tools/call", {"content": {"type": []}})
@example("resources/list", {"ttlMs": -1})
@example("tools/list", {"cacheScope": {}})
def test_any_answer_is_repaired_to_a_valid_one(version: str, method: str, result: Json) -> None:
    sent = copy.deepcopy(result)

    repaired = repair_result(method, result, version)

    assert result == sent
    _accept(method, version, repaired.result)


@pytest.mark.parametrize("version", VERSIONS)
@thorough
@given(st.sampled_from(["tools/call", *FIELDS]), anything)
@example("prompts/get", {"messages": [{"role": [], "content": "x"}]})
@example("tools/call", {"content": {"type": []}})
@example("tools/list", {"cacheScope": {}})
def test_repairing_twice_changes_nothing(version: str, method: str, result: Json) -> None:
    once = repair_result(method, result, version)

    twice = repair_result(method, once.result, version)

    assert twice.result is once.result
    assert twice.notes == ()


@pytest.mark.parametrize("version", VERSIONS)
@thorough
@given(
    st.lists(st.sampled_from(GOOD_BLOCKS), max_size=5),
    st.fixed_dictionaries(
        {},
        optional={
            "isError": st.booleans(),
            "structuredContent": st.dictionaries(st.text(), json_values, max_size=2),
            "_meta": st.dictionaries(st.text(), json_values, max_size=2),
        },
    ),
)
def test_a_valid_call_is_the_very_same_object(
    version: str, content: list[Json], more: Json
) -> None:
    result = {**more, "content": content, "resultType": "complete"}

    repaired = repair_result("tools/call", result, version)

    assert repaired.result is result
    assert repaired.notes == ()


@pytest.mark.parametrize("version", VERSIONS)
@thorough
@given(st.lists(st.sampled_from(GOOD_TOOLS), max_size=5), st.none() | st.text())
def test_a_valid_tool_list_is_the_very_same_object(
    version: str, listed: list[Json], cursor: str | None
) -> None:
    result: Json = {"tools": listed, "ttlMs": 5, "cacheScope": "public", "resultType": "complete"}
    if cursor is not None:
        result["nextCursor"] = cursor

    repaired = repair_result("tools/list", result, version)

    assert repaired.result is result
    assert repaired.notes == ()


@pytest.mark.parametrize("version", VERSIONS)
@thorough
@given(
    st.text(max_size=20) | st.sampled_from(sorted(methods.MONOLITH_RESULTS)), anything, json_values
)
@example("tools/call", {"content": [{"type": {}}]}, "complete")
def test_repairing_never_raises(version: str, method: str, result: Json, kind: object) -> None:
    repair_result(method, result, version)
    repair_result(method, {**result, "resultType": kind}, version)
    repair_result(method, result, "1999-01-01")
