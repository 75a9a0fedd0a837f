"""Every rule by which a broken answer is repaired, in both protocol eras."""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

import pytest
from inline_snapshot import snapshot
from mcp_types import methods

from plait.client.protocol.repair import ORIGINAL, RepairedResult, repair_result

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
eras = pytest.mark.parametrize("era", [LEGACY, MODERN])

BEFORE = {"type": "text", "text": "before"}
AFTER = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
SCHEMA = {"type": "object", "properties": {}}


def _sent(era: str, **payload: Any) -> dict[str, Any]:
    """Make an answer as a server of that era would wrap it."""
    envelope = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return payload if era == LEGACY else {**envelope, **payload}


def _repaired(method: str, result: dict[str, Any], era: str) -> RepairedResult:
    """Repair an answer; check that the SDK takes it, and that what was sent is untouched."""
    kept = copy.deepcopy(result)
    repaired = repair_result(method, result, era)
    assert result == kept
    methods.parse_server_result(method, era, repaired.result)
    return repaired


@eras
def test_a_valid_answer_is_the_very_same_object(era: str) -> None:
    result = _sent(era, content=[BEFORE, AFTER], structuredContent={"a": 1}, isError=False)

    assert repair_result("tools/call", result, era) == RepairedResult(result)
    assert repair_result("tools/call", result, era).result is result


@eras
def test_an_answer_to_a_method_without_rules_is_left_alone(era: str) -> None:
    result: dict[str, Any] = {"completion": 5}

    assert repair_result("completion/complete", result, era).result is result
    assert repair_result("vendor/own", result, era).result is result


@eras
def test_an_unknown_block_becomes_text_that_keeps_the_original(era: str) -> None:
    block = {"type": "hologram", "depth": 3}

    repaired = _repaired("tools/call", _sent(era, content=[BEFORE, block, AFTER]), era)

    assert repaired.result["content"] == [
        BEFORE,
        {
            "type": "text",
            "text": '{"type": "hologram", "depth": 3}',
            "_meta": {ORIGINAL: block},
        },
        AFTER,
    ]
    assert repaired.notes == (
        "content[1]: a block of type 'hologram' could not be read and became text",
    )


@eras
def test_an_image_without_a_type_becomes_text_and_its_neighbours_stay(era: str) -> None:
    block = {"type": "image", "data": "AAAA"}

    repaired = _repaired("tools/call", _sent(era, content=[BEFORE, block, AFTER]), era)

    first, middle, last = repaired.result["content"]
    assert (first, last) == (BEFORE, AFTER)
    assert middle["_meta"] == {ORIGINAL: block}
    assert json.loads(middle["text"]) == block


@eras
def test_the_text_of_a_broken_block_stays_readable(era: str) -> None:
    block = {"type": "markdown", "text": "# Title"}

    repaired = _repaired("tools/call", _sent(era, content=[block]), era)

    assert repaired.result["content"][0]["text"] == "# Title"


@eras
def test_a_block_without_a_type_is_named_so(era: str) -> None:
    repaired = _repaired("tools/call", _sent(era, content=[{"data": 1}]), era)

    assert repaired.notes == (
        "content[0]: a block without a type could not be read and became text",
    )


def test_a_block_that_is_too_large_is_not_quoted() -> None:
    block = {"type": "hologram", "points": "x" * 2_000_000}

    repaired = _repaired("tools/call", _sent(MODERN, content=[block]), MODERN)

    assert repaired.result["content"][0]["text"] == "content that is too large to be shown"
    assert repaired.result["content"][0]["_meta"] == {ORIGINAL: block}


def _check_block_of_type(kind: object, era: str) -> None:
    repaired = _repaired("tools/call", _sent(era, content=[{"type": kind}, BEFORE]), era)

    assert repaired.result["content"][0]["_meta"] == {ORIGINAL: {"type": kind}}
    assert repaired.result["content"][1] == BEFORE


@eras
@pytest.mark.parametrize("kind", [5, None, True])
def test_a_type_that_is_no_word_is_no_reason_to_fail(era: str, kind: object) -> None:
    _check_block_of_type(kind, era)


@eras
@pytest.mark.parametrize("kind", [["text"], {"a": 1}])
def test_a_type_that_is_a_list_or_an_object_is_no_reason_to_fail(era: str, kind: object) -> None:
    _check_block_of_type(kind, era)


@eras
def test_a_resource_with_only_its_address_becomes_a_link(era: str) -> None:
    block = {"type": "resource", "resource": {"uri": "raw://only/uri", "mimeType": "text/x"}}

    repaired = _repaired("tools/call", _sent(era, content=[block]), era)

    assert repaired.result["content"] == [
        {
            "type": "resource_link",
            "uri": "raw://only/uri",
            "name": "uri",
            "mimeType": "text/x",
            "_meta": {ORIGINAL: block},
        }
    ]
    assert repaired.notes == ("content[0]: an incomplete resource became a resource link",)


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

    repaired = _repaired("tools/call", _sent(era, content=[block]), era)

    link = repaired.result["content"][0]
    assert (link["type"], link["name"], link["title"]) == ("resource_link", name, "T")


@eras
@pytest.mark.parametrize("uri", ["http://[", "http://[::1", "//[x]y", "http://a\uff0fb/"])
def test_an_address_that_is_no_url_is_no_reason_to_fail(era: str, uri: str) -> None:
    block = {"type": "resource", "resource": {"uri": uri}}

    repaired = _repaired("tools/call", _sent(era, content=[block]), era)

    assert repaired.result["content"][0]["_meta"] == {ORIGINAL: block}


@eras
def test_a_resource_without_an_address_becomes_text(era: str) -> None:
    for resource in (5, {}, {"uri": 7}, None):
        block = {"type": "resource", "resource": resource}

        repaired = _repaired("tools/call", _sent(era, content=[block]), era)

        assert repaired.result["content"][0]["type"] == "text"


@eras
def test_missing_content_becomes_an_empty_list(era: str) -> None:
    repaired = _repaired("tools/call", _sent(era, structuredContent={"total": 3}), era)

    assert repaired.result["content"] == []
    assert repaired.result["structuredContent"] == {"total": 3}
    assert repaired.notes == ("content was missing",)


@eras
def test_content_that_is_a_string_becomes_a_text_block(era: str) -> None:
    repaired = _repaired("tools/call", _sent(era, content="just a string"), era)

    assert repaired.result["content"] == [{"type": "text", "text": "just a string"}]
    assert repaired.notes == (
        "content was not a list",
        "content[0]: a bare string became a text block",
    )


@eras
def test_content_that_is_one_block_becomes_a_list_of_it(era: str) -> None:
    repaired = _repaired("tools/call", _sent(era, content=AFTER), era)

    assert repaired.result["content"] == [AFTER]
    assert repaired.notes == ("content was not a list",)


@eras
@pytest.mark.parametrize(("given", "is_error"), [("maybe", True), ([], False), (2, True)])
def test_an_error_flag_that_is_no_boolean_is_read_as_one(
    era: str, given: object, is_error: bool
) -> None:
    repaired = _repaired("tools/call", _sent(era, content=[], isError=given), era)

    assert repaired.result["isError"] is is_error
    assert repaired.notes == ("isError was not a boolean",)


@eras
def test_an_error_flag_that_is_null_means_no_error(era: str) -> None:
    repaired = _repaired("tools/call", _sent(era, content=[BEFORE], isError=None), era)

    assert repaired.result["content"] == [BEFORE]
    assert not repaired.result.get("isError")


def test_a_legacy_answer_keeps_structured_content_that_is_no_object_aside() -> None:
    result = {"content": [], "structuredContent": [1, 2], "_meta": {"a": 1}}

    repaired = _repaired("tools/call", result, LEGACY)

    assert repaired.result == {
        "content": [],
        "_meta": {"a": 1, ORIGINAL: {"structuredContent": [1, 2]}},
    }
    assert repaired.notes == ("structuredContent was not an object and was moved to _meta",)


def test_a_modern_answer_may_have_any_structured_content() -> None:
    result = _sent(MODERN, content=[], structuredContent=[1, 2])

    assert repair_result("tools/call", result, MODERN).result is result


@eras
def test_meta_that_is_no_object_is_left_out(era: str) -> None:
    repaired = _repaired("tools/call", _sent(era, content=[BEFORE], _meta="x"), era)

    assert "_meta" not in repaired.result
    assert repaired.result["content"] == [BEFORE]
    assert repaired.notes == ("_meta was not an object and was left out",)


def test_a_modern_answer_without_its_envelope_is_completed() -> None:
    assert _repaired("tools/call", {"content": [BEFORE]}, MODERN) == RepairedResult(
        {"content": [BEFORE], "resultType": "complete"}
    )
    assert _repaired("tools/list", {"tools": []}, MODERN) == RepairedResult(
        {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    )


@pytest.mark.parametrize("ttl", ["10", None, True, [], {}])
def test_a_lifetime_that_is_no_number_does_not_spoil_the_list(ttl: object) -> None:
    repaired = _repaired("tools/list", _sent(MODERN, tools=[_tool("good")], ttlMs=ttl), MODERN)

    assert [tool["name"] for tool in repaired.result["tools"]] == ["good"]


@eras
@pytest.mark.parametrize("ttl", [-1, 1.5, float("inf")])
def test_a_lifetime_that_makes_no_sense_does_not_spoil_the_list(era: str, ttl: float) -> None:
    repaired = _repaired("tools/list", _sent(era, tools=[_tool("good")], ttlMs=ttl), era)

    assert [tool["name"] for tool in repaired.result["tools"]] == ["good"]


@pytest.mark.parametrize("scope", ["shared", None, 5])
def test_a_cache_scope_that_nobody_knows_becomes_private(scope: object) -> None:
    repaired = _repaired("tools/list", _sent(MODERN, tools=[], cacheScope=scope), MODERN)

    assert repaired.result["cacheScope"] == "private"


@pytest.mark.parametrize("scope", [[], {}])
def test_a_cache_scope_that_is_no_word_becomes_private(scope: object) -> None:
    repaired = _repaired("tools/list", _sent(MODERN, tools=[], cacheScope=scope), MODERN)

    assert repaired.result["cacheScope"] == "private"


def test_a_cache_scope_in_an_older_answer_does_not_spoil_the_list() -> None:
    repaired = _repaired("tools/list", {"tools": [_tool("good")], "cacheScope": "shared"}, LEGACY)

    assert [tool["name"] for tool in repaired.result["tools"]] == ["good"]


@pytest.mark.parametrize(("sent", "kept"), [(5, "5"), (None, None), ("next", "next")])
@eras
def test_a_cursor_is_text(era: str, sent: object, kept: str | None) -> None:
    result = _sent(era, tools=[{"name": "bad"}], nextCursor=sent)

    assert _repaired("tools/list", result, era).result.get("nextCursor") == kept


@eras
def test_a_question_back_to_the_client_is_left_alone(era: str) -> None:
    result: dict[str, Any] = {"resultType": "input_required", "inputRequests": {}}

    assert repair_result("tools/call", result, era).result is result


def test_a_result_type_that_is_null_counts_as_missing() -> None:
    _repaired("tools/call", {"content": [BEFORE], "resultType": None}, MODERN)


def test_a_legacy_answer_is_repaired_whatever_it_says_of_its_result_type() -> None:
    repaired = _repaired("tools/call", {"content": "text", "resultType": "final"}, LEGACY)

    assert repaired.result["content"] == [{"type": "text", "text": "text"}]


def _tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": SCHEMA, **more}


@eras
def test_invalid_tools_are_left_out_and_named_and_the_others_stay_in_order(era: str) -> None:
    tools = [
        _tool("one"),
        {"name": "schemaless"},
        _tool("two", description="ok"),
        {"name": "string_schema", "inputSchema": "object"},
        {"inputSchema": SCHEMA},
        _tool("three"),
        "not a tool",
    ]

    repaired = _repaired("tools/list", _sent(era, tools=tools), era)

    assert repaired.result["tools"] == [tools[0], tools[2], tools[5]]
    names = [note.partition(" was left out: ")[0] for note in repaired.notes]
    assert names == ["tool 'schemaless'", "tool 'string_schema'", "tool number 5", "tool number 7"]


def test_the_note_says_what_was_wrong_with_a_tool() -> None:
    repaired = repair_result("tools/list", {"tools": [{"name": "schemaless"}]}, LEGACY)

    assert repaired.notes == snapshot(
        ("tool 'schemaless' was left out: inputSchema: Field required",)
    )


@eras
def test_a_list_that_is_missing_is_empty(era: str) -> None:
    for method, field in (
        ("tools/list", "tools"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ):
        repaired = _repaired(method, _sent(era), era)

        assert repaired.result[field] == []
        assert repaired.notes == (f"{field} was missing",)


@eras
@pytest.mark.parametrize(
    ("method", "field", "good", "noun"),
    [
        ("resources/list", "resources", {"uri": "a://b", "name": "b"}, "resource"),
        (
            "resources/templates/list",
            "resourceTemplates",
            {"uriTemplate": "a://{b}", "name": "b"},
            "resource template",
        ),
        ("prompts/list", "prompts", {"name": "b"}, "prompt"),
    ],
)
def test_what_is_invalid_in_any_list_is_left_out(
    era: str, method: str, field: str, good: dict[str, Any], noun: str
) -> None:
    bad = {"name": "bad", "description": 5}

    repaired = _repaired(method, _sent(era, **{field: [good, bad, 7]}), era)

    assert repaired.result[field] == [good]
    assert [note.partition(" was left out")[0] for note in repaired.notes] == [
        f"{noun} 'bad'",
        f"{noun} number 3",
    ]


@eras
def test_contents_that_cannot_be_read_become_text(era: str) -> None:
    good = {"uri": "a://b", "text": "hello"}
    bad = {"uri": "a://c", "mimeType": "image/png"}

    repaired = _repaired("resources/read", _sent(era, contents=[good, bad, "loose"]), era)

    first, second, third = repaired.result["contents"]
    assert first == good
    assert second == {"uri": "a://c", "text": json.dumps(bad), "_meta": {ORIGINAL: bad}}
    assert third["_meta"] == {ORIGINAL: "loose"}
    assert len(repaired.notes) == 2


@eras
def test_prompt_messages_are_repaired_block_by_block(era: str) -> None:
    good = {"role": "user", "content": BEFORE}
    messages = [
        good,
        {"role": "assistant", "content": "bare"},
        {"role": "system", "content": BEFORE},
        {"role": "user", "content": [BEFORE, AFTER]},
        "loose",
    ]

    repaired = _repaired("prompts/get", _sent(era, messages=messages), era)

    assert repaired.result["messages"] == [
        good,
        {"role": "assistant", "content": {"type": "text", "text": "bare"}},
        {"role": "user", "content": BEFORE},
        {"role": "user", "content": BEFORE},
        {"role": "user", "content": AFTER},
        {"role": "user", "content": {"type": "text", "text": "loose"}},
    ]


@eras
@pytest.mark.parametrize("role", [None, 5, "system"])
def test_a_role_that_nobody_knows_is_the_user(era: str, role: object) -> None:
    messages = [{"role": role, "content": BEFORE}]

    repaired = _repaired("prompts/get", _sent(era, messages=messages), era)

    assert repaired.result["messages"] == [{"role": "user", "content": BEFORE}]


@eras
@pytest.mark.parametrize("role", [[], {}])
def test_a_role_that_is_no_word_is_the_user(era: str, role: object) -> None:
    messages = [{"role": role, "content": BEFORE}]

    repaired = _repaired("prompts/get", _sent(era, messages=messages), era)

    assert repaired.result["messages"] == [{"role": "user", "content": BEFORE}]


def test_a_handshake_without_server_info_goes_on() -> None:
    repaired = _repaired("initialize", {"protocolVersion": LEGACY}, LEGACY)

    assert repaired.result == {
        "protocolVersion": LEGACY,
        "serverInfo": {"name": "unknown", "version": ""},
        "capabilities": {},
    }
    assert repaired.notes == ("the handshake answer was incomplete",)


def test_a_handshake_keeps_what_is_good_about_the_server() -> None:
    info = {"name": "n", "version": "1", "title": "N"}
    result = {
        "protocolVersion": LEGACY,
        "serverInfo": info,
        "capabilities": {"tools": {}},
        "instructions": 5,
    }

    repaired = _repaired("initialize", result, LEGACY)

    assert repaired.result["serverInfo"] == info
    assert repaired.result["capabilities"] == {"tools": {}}
    assert "instructions" not in repaired.result


def _check_handshake_with_tools(capability: object) -> None:
    result = {
        "protocolVersion": LEGACY,
        "serverInfo": {"name": "n", "version": "1"},
        "capabilities": {"tools": capability, "prompts": {}},
    }

    repaired = _repaired("initialize", result, LEGACY)

    assert repaired.result["capabilities"]["prompts"] == {}


@pytest.mark.parametrize("capability", [True, [], "yes"])
def test_a_capability_that_is_no_object_does_not_end_the_handshake(capability: object) -> None:
    _check_handshake_with_tools(capability)


def test_a_capability_with_a_broken_part_does_not_end_the_handshake() -> None:
    _check_handshake_with_tools({"listChanged": []})


@eras
def test_a_block_too_deep_to_be_quoted_becomes_text_all_the_same(era: str) -> None:
    deep: object = 0
    for _ in range(sys.getrecursionlimit()):
        deep = [deep]

    repaired = repair_result(
        "tools/call", _sent(era, content=[{"type": "deep", "deep": deep}]), era
    )

    assert repaired.result["content"][0]["type"] == "text"


@eras
def test_a_huge_broken_block_is_quoted_in_part(era: str) -> None:
    block = {"type": "blob", "data": "x" * 100_000}

    repaired = _repaired("tools/call", _sent(era, content=[block]), era)

    assert len(repaired.result["content"][0]["text"]) == 2001
    assert repaired.result["content"][0]["_meta"] == {ORIGINAL: block}


@eras
@pytest.mark.parametrize("block", [BEFORE, AFTER], ids=["text", "image"])
def test_of_too_many_blocks_the_first_are_kept_with_a_note(era: str, block: Any) -> None:
    repaired = repair_result("tools/call", _sent(era, content=[block] * 10_050), era)
    assert len(repaired.result["content"]) == 10_000
    assert repaired.notes == ("only the first 10,000 of 10,050 content blocks are kept",)
