"""Every rule by which a broken answer is repaired; whatever comes, it is valid then."""

from __future__ import annotations

import copy
import json
import sys
from typing import Any, cast, get_args

import mcp_types as types
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mcp_types import methods
from pydantic import BaseModel, ValidationError

from plait.client.protocol.repair import ORIGINAL, RepairedResult, repair_result

Json = dict[str, Any]

LEGACY, MODERN = "2025-11-25", "2026-07-28"
eras = pytest.mark.parametrize("era", [LEGACY, MODERN])
ENVELOPE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

TEXT = {"type": "text", "text": "before"}
IMAGE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
SCHEMA = {"type": "object", "properties": {}}
TOOL = {"name": "good", "inputSchema": SCHEMA}


def _quoted(original: Any, text: str | None = None) -> Json:
    """Return the text block that stands for what cannot be read."""
    text = json.dumps(original) if text is None else text
    return {"type": "text", "text": text, "_meta": {ORIGINAL: original}}


def _link(original: Json, uri: str, name: str, **more: str) -> Json:
    return {
        "type": "resource_link",
        "uri": uri,
        "name": name,
        **more,
        "_meta": {ORIGINAL: original},
    }


def _repaired(method: str, result: Json, era: str) -> RepairedResult:
    """Repair an answer; check that the models take it, and that what was sent is untouched."""
    kept = copy.deepcopy(result)
    repaired = repair_result(method, result, era)
    assert result == kept
    methods.parse_server_result(method, era, repaired.result)
    return repaired


UNREADABLE = "could not be read and became text"
ONLY_URI = {"type": "resource", "resource": {"uri": "raw://only/uri", "mimeType": "text/x"}}
HUGE, TOO_LARGE = {"type": "x", "data": "x" * 9000}, {"type": "x", "data": "x" * 2_000_000}

BLOCKS: dict[str, tuple[Any, Json, str]] = {
    "an unknown block is quoted": ({"type": "x"}, _quoted({"type": "x"}), "of type 'x' "),
    "so is an image without a type": (IMAGE | {"mimeType": 1}, {}, "of type 'image' "),
    "its text stays readable": (
        TEXT | {"type": "md"},
        _quoted(TEXT | {"type": "md"}, "before"),
        "",
    ),
    "a block may have no type": ({"data": 1}, _quoted({"data": 1}), "without a type "),
    "a huge one is quoted in part": (
        HUGE,
        _quoted(HUGE, json.dumps(HUGE)[:2000] + "…"),
        "",
    ),
    "one too large is not quoted": (
        TOO_LARGE,
        _quoted(TOO_LARGE, "content that is too large to be shown"),
        "",
    ),
    "a resource with only its address becomes a link": (
        ONLY_URI,
        _link(ONLY_URI, "raw://only/uri", "uri", mimeType="text/x"),
        "content[1]: an incomplete resource became a resource link",
    ),
    "an impossible size is left out": (
        {"type": "resource_link", "uri": "a://b", "name": "b", "size": -1},
        {"type": "resource_link", "uri": "a://b", "name": "b"},
        "content[1]: the size of a resource_link was impossible and was left out",
    ),
    "a bare string is text": (
        "bare",
        {"type": "text", "text": "bare"},
        "content[1]: a bare string became a text block",
    ),
}


@eras
@pytest.mark.parametrize(("block", "stands_for_it", "note"), BLOCKS.values(), ids=BLOCKS)
def test_a_broken_block_is_replaced_and_its_neighbours_stay(
    era: str, block: Any, stands_for_it: Json, note: str
) -> None:
    repaired = _repaired("tools/call", ENVELOPE | {"content": [TEXT, block, IMAGE]}, era)

    expected = stands_for_it or _quoted(block)
    assert repaired.result["content"] == [TEXT, expected, IMAGE]
    assert len(repaired.notes) == 1
    assert note in repaired.notes[0]
    assert note.startswith("content[1]") or repaired.notes[0].endswith(UNREADABLE)


@eras
@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("file:///a/b.txt", "b.txt"),
        ("file:///a/b/", "b"),
        ("https://example.com", "example.com"),
        ("memo:", "memo:"),
        ("", ""),
    ],
)
def test_a_link_without_a_name_is_named_after_its_address(era: str, uri: str, name: str) -> None:
    block = {"type": "resource_link", "uri": uri, "title": "T"}

    repaired = _repaired("tools/call", ENVELOPE | {"content": [block]}, era)

    assert repaired.result["content"] == [_link(block, uri, name, title="T")]


NO_LIST = "content was not a list"
GOOD_CALL: Json = {"content": [TEXT]}
TEMPLATE = {"uriTemplate": "a://{b}", "name": "b"}
CONTENTS = [{"uri": "a://b", "text": "hello"}, {"uri": "a://c"}, "loose"]
MESSAGES = [("user", TEXT), ("assistant", "bare"), ("user", [TEXT, IMAGE]), ([], TEXT)]
READABLE = [("user", TEXT), ("assistant", {"type": "text", "text": "bare"})]


def _messages(pairs: list[tuple[Any, Any]]) -> list[Json]:
    return [{"role": role, "content": content} for role, content in pairs]


ANSWERS: dict[str, tuple[str, Json, Json, tuple[str, ...]]] = {
    "content may be missing": (
        "tools/call",
        {"structuredContent": {"total": 3}},
        {"content": [], "structuredContent": {"total": 3}},
        ("content was missing",),
    ),
    "content may be one block": (
        "tools/call",
        {"content": IMAGE},
        {"content": [IMAGE]},
        (NO_LIST,),
    ),
    "_meta may be a text": (
        "tools/call",
        GOOD_CALL | {"_meta": "x"},
        GOOD_CALL | {"_meta": None},
        ("_meta was not an object and was left out",),
    ),
    **{
        f"an error flag may be {flag!r}": (
            "tools/call",
            GOOD_CALL | {"isError": flag},
            GOOD_CALL | {"isError": is_error},
            () if flag is None else ("isError was not a boolean",),
        )
        for flag, is_error in (("maybe", True), ((), False), (2, True), (None, None))
    },
    **{
        f"a cursor may be {cursor!r}": (
            "tools/list",
            {"tools": [{"name": "bad"}], "nextCursor": cursor},
            {"tools": [], "nextCursor": kept},
            ("tool 'bad' was left out: inputSchema: Field required",),
        )
        for cursor, kept in ((5, "5"), (None, None), ("next", "next"))
    },
    "invalid tools are left out": (
        "tools/list",
        {"tools": [TOOL, {"name": "bad"}, TOOL | {"name": "two"}, {"inputSchema": SCHEMA}, "no"]},
        {"tools": [TOOL, TOOL | {"name": "two"}]},
        ("tool 'bad' was left out: ", "tool number 4 was left out: ", "tool number 5 was left out"),
    ),
    **{
        f"an invalid {noun} is left out": (
            method,
            {field: [good, {"name": "bad", "description": 5}, 7]},
            {field: [good]},
            (f"{noun} 'bad' was left out: ", f"{noun} number 3 was left out: "),
        )
        for method, field, good, noun in (
            ("resources/list", "resources", {"uri": "a://b", "name": "b"}, "resource"),
            ("resources/templates/list", "resourceTemplates", TEMPLATE, "resource template"),
            ("prompts/list", "prompts", {"name": "b"}, "prompt"),
        )
    },
    **{
        f"{field} may be missing": (method, {}, {field: []}, (f"{field} was missing",))
        for method, field in (
            ("tools/list", "tools"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
            ("prompts/list", "prompts"),
        )
    },
    "contents that cannot be read become text": (
        "resources/read",
        {"contents": CONTENTS},
        {
            "contents": [
                CONTENTS[0],
                {"uri": "a://c", "text": '{"uri": "a://c"}', "_meta": {ORIGINAL: CONTENTS[1]}},
                {"uri": "", "text": '"loose"', "_meta": {ORIGINAL: "loose"}},
            ]
        },
        (f"contents[1] {UNREADABLE}", f"contents[2] {UNREADABLE}"),
    ),
    "messages are repaired block by block": (
        "prompts/get",
        {"messages": _messages(MESSAGES)},
        {"messages": _messages([*READABLE, ("user", TEXT), ("user", IMAGE), ("user", TEXT)])},
        ("messages[1]: a bare string became a text block",),
    ),
}


@eras
@pytest.mark.parametrize(("method", "sent", "kept", "notes"), ANSWERS.values(), ids=ANSWERS)
def test_a_broken_answer_is_repaired(
    era: str, method: str, sent: Json, kept: Json, notes: tuple[str, ...]
) -> None:
    repaired = _repaired(method, sent if era == LEGACY else ENVELOPE | sent, era)

    assert {name: repaired.result.get(name) for name in kept} == kept
    assert len(repaired.notes) == len(notes)
    assert all(map(str.startswith, repaired.notes, notes))


HANDSHAKE = {"protocolVersion": LEGACY, "serverInfo": {"name": "n", "version": "1"}}


UNKNOWN = {"serverInfo": {"name": "unknown", "version": ""}, "capabilities": {}}
MODERN_LIST = {"tools": [], **ENVELOPE}
MOVED = {"a": 1, ORIGINAL: {"structuredContent": [1, 2]}}
COMPLETED: dict[str, tuple[str, str, Json, Json]] = {
    "legacy structured content that is no object is kept aside": (
        "tools/call",
        LEGACY,
        {"content": [], "structuredContent": [1, 2], "_meta": {"a": 1}},
        {"content": [], "_meta": MOVED},
    ),
    "a legacy answer has no result type": (
        "tools/call",
        LEGACY,
        {"content": TEXT, "resultType": "final"},
        GOOD_CALL,
    ),
    **{
        f"a modern call of the type {kind} is complete": (
            "tools/call",
            MODERN,
            GOOD_CALL | kind,
            GOOD_CALL | {"resultType": "complete"},
        )
        for kind in ({}, {"resultType": None})
    },
    "a modern list without its envelope": ("tools/list", MODERN, {"tools": []}, MODERN_LIST),
    "an unknown cache scope": (
        "tools/list",
        MODERN,
        MODERN_LIST | {"cacheScope": "shared", "ttlMs": -1},
        MODERN_LIST,
    ),
    "a handshake without server info": (
        "initialize",
        LEGACY,
        {"protocolVersion": LEGACY},
        {"protocolVersion": LEGACY, **UNKNOWN},
    ),
    **{
        f"a capability may be {able!r}": (
            "initialize",
            LEGACY,
            {**HANDSHAKE, "capabilities": {"tools": able, "prompts": {}}, "instructions": 5},
            {**HANDSHAKE, "capabilities": {"prompts": {}}},
        )
        for able in (True, (), "yes", {"listChanged": []})
    },
}


@pytest.mark.parametrize(("method", "era", "sent", "kept"), COMPLETED.values(), ids=COMPLETED)
def test_an_answer_is_completed_for_its_era(method: str, era: str, sent: Json, kept: Json) -> None:
    assert _repaired(method, sent, era).result == kept


@eras
@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("tools/call", ENVELOPE | {"content": [TEXT, IMAGE], "structuredContent": {"a": 1}}),
        ("tools/call", {"resultType": "input_required", "inputRequests": {}}),
        ("completion/complete", {"completion": 5}),
        ("vendor/own", {"completion": 5}),
    ],
    ids=["valid", "a question back", "without rules", "of a vendor"],
)
def test_an_answer_that_needs_no_repair_is_the_very_same_object(
    era: str, method: str, result: Json
) -> None:
    repaired = repair_result(method, result, era)

    assert repaired.result is result
    assert repaired.notes == ()


def test_a_modern_answer_may_have_any_structured_content() -> None:
    result = {**ENVELOPE, "content": [], "structuredContent": [1, 2]}

    assert repair_result("tools/call", result, MODERN).result is result


@eras
def test_a_block_too_deep_to_be_quoted_becomes_text_all_the_same(era: str) -> None:
    deep: object = 0
    for _ in range(sys.getrecursionlimit()):
        deep = [deep]
    result = ENVELOPE | {"content": [{"type": "deep", "deep": deep}]}

    assert repair_result("tools/call", result, era).result["content"][0]["type"] == "text"


@eras
@pytest.mark.parametrize("block", [TEXT, IMAGE], ids=["text", "image"])
def test_of_too_many_blocks_the_first_are_kept_with_a_note(era: str, block: Json) -> None:
    repaired = repair_result("tools/call", ENVELOPE | {"content": [block] * 10_050}, era)

    assert len(repaired.result["content"]) == 10_000
    assert repaired.notes == ("only the first 10,000 of 10,050 content blocks are kept",)


# Whatever a server sends

FIELDS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
    "resources/read": "contents",
    "prompts/get": "messages",
}
GOOD_BLOCKS: list[Json] = [
    TEXT,
    IMAGE,
    {"type": "text", "text": "hello", "annotations": {"audience": ["user"], "priority": 0.5}},
    {"type": "text", "text": "marked", "_meta": {"vendor/x": [1]}},
    {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "a://b", "name": "b", "mimeType": "text/plain"},
    {"type": "resource", "resource": {"uri": "a://b", "text": "inside"}},
    {"type": "resource", "resource": {"uri": "a://b", "blob": "AAAA"}},
]
GOOD_TOOLS: list[Json] = [
    TOOL,
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
KEYS = "type text data mimeType uri name resource annotations _meta inputSchema outputSchema title"

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def _spoiled(draw: st.DrawFn, good: list[Json]) -> Json:
    """Take something good, and change or drop one of its parts."""
    item = copy.deepcopy(draw(st.sampled_from(good)))
    inner = item.get("resource")
    target = cast("Json", inner) if isinstance(inner, dict) and draw(st.booleans()) else item
    key = draw(st.sampled_from([*KEYS.split(), "description", "icons", "role", "content"]))
    if draw(st.booleans()):
        target.pop(key, None)
    else:
        target[key] = draw(values)
    return item


def _items(good: list[Json]) -> st.SearchStrategy[list[Any]]:
    whole = st.sampled_from(good).map(copy.deepcopy)
    return st.lists(whole | _spoiled(good) | values, max_size=5)


envelopes: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {},
    optional={
        "resultType": st.just("complete"),
        "cacheScope": st.sampled_from(["public", "private"]) | values,
        **dict.fromkeys(
            ("ttlMs", "nextCursor", "_meta", "isError", "structuredContent", "vendorOwn"), values
        ),
    },
)
names = ["content", *FIELDS.values(), "serverInfo", "capabilities", "instructions"]
parts = _items(GOOD_BLOCKS + GOOD_TOOLS) | values
anything: st.SearchStrategy[Json] = st.builds(
    lambda envelope, more: {**envelope, **more},
    envelopes,
    st.dictionaries(st.sampled_from(names), parts, max_size=4),
)
thorough = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
versions = st.sampled_from([LEGACY, MODERN])


def _accept(method: str, version: str, result: Json) -> None:
    """Read an answer as the models do, without the arm that takes nearly anything."""
    surface, monolith = methods.SERVER_RESULTS[(method, version)], methods.MONOLITH_RESULTS[method]
    arms = cast("tuple[type[BaseModel], ...]", get_args(surface) or (surface,))
    complete = next(arm for arm in arms if arm.__name__ != "InputRequiredResult")
    models = get_args(monolith) or (monolith,)
    methods.parse_server_result(
        method,
        version,
        result,
        surface={(method, version): complete},
        monolith={method: next(one for one in models if one is not types.InputRequiredResult)},
    )


def _is_good(method: str, field: str, version: str, item: object) -> bool:
    try:
        _accept(method, version, ENVELOPE | {field: [item]})
    except ValidationError:
        return False
    return True


@thorough
@given(versions, _items(GOOD_BLOCKS), envelopes)
@example(LEGACY, [{"type": ["text"]}], {})
@example(MODERN, [{"type": "resource", "resource": {"uri": "http://["}}], {})
@example(MODERN, [{"type": {"a": 1}, "text": "kept"}], {})
def test_a_repaired_call_keeps_every_good_block_in_its_place(
    version: str, content: list[Any], envelope: Json
) -> None:
    repaired = repair_result("tools/call", {**envelope, "content": content}, version)

    _accept("tools/call", version, repaired.result)
    for before, after in zip(content, repaired.result["content"], strict=True):
        if _is_good("tools/call", "content", version, before):
            assert after is before
        elif isinstance(before, str):
            assert after == {"type": "text", "text": before}
        else:
            assert after["_meta"] == {ORIGINAL: before}


@thorough
@given(versions, _items(GOOD_TOOLS), envelopes)
def test_a_repaired_list_holds_exactly_the_good_tools(
    version: str, listed: list[Any], envelope: Json
) -> None:
    repaired = repair_result("tools/list", {**envelope, "tools": listed}, version)

    good = [tool for tool in listed if _is_good("tools/list", "tools", version, tool)]
    assert repaired.result["tools"] == good
    assert sum("was left out: " in note for note in repaired.notes) == len(listed) - len(good)


@thorough
@given(versions, st.sampled_from(["tools/call", *FIELDS]), anything)
@example(LEGACY, "prompts/get", {"messages": [{"role": [], "content": "x"}]})
@example(MODERN, "tools/call", {"content": {"type": []}})
@example(MODERN, "resources/list", {"ttlMs": -1})
@example(MODERN, "tools/list", {"cacheScope": {}})
def test_any_answer_becomes_a_valid_one_which_is_repaired_no_more(
    version: str, method: str, result: Json
) -> None:
    sent = copy.deepcopy(result)
    once = repair_result(method, result, version)
    assert result == sent
    _accept(method, version, once.result)

    twice = repair_result(method, once.result, version)

    assert twice.result is once.result
    assert twice.notes == ()


@thorough
@given(st.text(max_size=20) | st.sampled_from(sorted(methods.MONOLITH_RESULTS)), anything, values)
@example("tools/call", {"content": [{"type": {}}]}, "complete")
def test_repairing_never_raises(method: str, result: Json, kind: object) -> None:
    for version in (LEGACY, MODERN, "1999-01-01"):
        repair_result(method, {**result, "resultType": kind}, version)
