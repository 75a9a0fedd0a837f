"""Rows that are recognized as plain mean the same as what the SDK makes of them."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import methods
from pydantic import BaseModel, ValidationError

from plait.client.catalog.tool import Tool
from plait.client.protocol.passing import with_unknown_fields
from plait.client.protocol.reading import parse_json
from plait.client.protocol.repair import repair_result
from plait.client.protocol.tool_rows import (
    MAX_ROW_BYTES,
    RawRow,
    ToolRows,
    checked_row,
    is_plain_list,
    is_plain_row,
    may_mirror,
    parse_list,
    row_of,
    whole_row,
)

HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"

_texts = st.sampled_from(["", "x", "Füge hinzu", "read"])
_odd = st.sampled_from([None, True, 0, 1.5, "true", [], {}, ["x"], {"type": "object"}])
_schemas = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "$schema": _texts | _odd,
            "properties": st.dictionaries(
                _texts, st.booleans() | st.just({"type": "string"}) | _odd
            )
            | _odd,
            "required": st.lists(_texts) | _odd,
            "additionalProperties": st.booleans(),
        },
    ),
    _odd,
)
_hints = st.dictionaries(
    st.sampled_from(
        ["title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "other"]
    ),
    st.booleans() | _odd,
)
_rows = st.fixed_dictionaries(
    {"name": _texts, "inputSchema": _schemas},
    optional={
        "title": _texts | _odd,
        "description": _texts | _odd,
        "outputSchema": _schemas,
        "annotations": _hints | _odd,
        "icons": st.just([{"src": "data:,x", "sizes": ["1x1"]}]) | _odd,
        "execution": st.just({"taskSupport": "optional"}) | st.just({"taskSupport": "x"}) | _odd,
        "_meta": st.just({"a": None}) | _odd,
        "other": _odd,
    },
)


def _result(rows: list[Any], version: str) -> dict[str, Any]:
    if version == HANDSHAKE:
        return {"tools": rows}
    return {"tools": rows, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def _sdk_accepts(row: Any, version: str) -> bool:
    models: tuple[type[BaseModel], ...] = (
        methods.SERVER_RESULTS[("tools/list", version)],  # type: ignore[assignment]
        types.ListToolsResult,
    )
    try:
        for model in models:
            model.model_validate(_result([row], version), by_name=False)
    except ValidationError:
        return False
    return True


def _without_extra(tool: Tool) -> Tool:
    """Return a tool without the fields that the types of the SDK do not have."""
    return replace(tool, extra={})


@given(row=_rows | _odd)
def test_a_plain_row_is_valid_in_every_era_and_means_what_the_sdk_reads(row: Any) -> None:
    if is_plain_row(row):
        assert _sdk_accepts(row, HANDSHAKE)
        assert _sdk_accepts(row, MODERN)
        typed = types.Tool.model_validate(row, by_name=False)
        tool = Tool.from_row("demo", row)
        assert _without_extra(tool) == _without_extra(Tool.from_mcp("demo", typed))
        assert ("other", row.get("other")) in [*tool.extra.items(), ("other", None)]


@given(rows=st.lists(_rows | _odd, max_size=4), version=st.sampled_from([HANDSHAKE, MODERN]))
def test_a_repaired_list_has_the_tools_that_the_sdk_accepts(rows: list[Any], version: str) -> None:
    repaired = repair_result("tools/list", _result(rows, version), version)

    kept = [row for row in rows if _sdk_accepts(row, version)]
    expected = [
        Tool.from_mcp("demo", types.Tool.model_validate(row, by_name=False)) for row in kept
    ]
    tools = [Tool.from_row("demo", row) for row in repaired.result["tools"]]
    assert [*map(_without_extra, tools)] == [*map(_without_extra, expected)]
    assert len(repaired.notes) == len(rows) - len(kept)


@given(row=_rows)
def test_a_checked_row_is_the_same_or_as_the_sdk_reads_it(row: dict[str, Any]) -> None:
    try:
        typed = types.Tool.model_validate(row, by_name=False)
    except ValidationError:
        with pytest.raises(ValidationError):
            checked_row(row)
    else:
        checked = checked_row(row)
        assert types.Tool.model_validate(checked, by_name=False) == typed
        assert checked == (row if is_plain_row(row) else with_unknown_fields(row_of(typed), row))
        assert checked.get("other") == row.get("other")


@pytest.mark.parametrize(
    "change",
    [
        {"ttlMs": -1},
        {"ttlMs": "1"},
        {"ttlMs": True},
        {"cacheScope": "shared"},
        {"resultType": "input_required"},
        {"nextCursor": 5},
        {"_meta": "x"},
        {"tools": {}},
        {"tools": None},
    ],
)
def test_a_list_with_an_odd_envelope_is_not_plain(change: dict[str, Any]) -> None:
    assert is_plain_list(_result([], MODERN), MODERN)
    assert not is_plain_list(_result([], MODERN) | change, MODERN)
    assert not is_plain_list({"tools": []}, MODERN)
    assert is_plain_list({"tools": []}, HANDSHAKE)


def test_tools_that_mirror_arguments_stay_with_the_sdk() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string", "x-mcp-header": "Q"}}}
    plain = {"name": "plain", "inputSchema": {"type": "object"}}
    mirroring = _result([plain, {"name": "mirroring", "inputSchema": schema}], MODERN)
    body = json.dumps(mirroring).encode()
    rows = ToolRows()

    assert may_mirror(body)
    assert rows.take(mirroring, body, mirror=True) is mirroring
    assert rows.rows == []
    assert rows.take(_result([plain], MODERN), body, mirror=True)["tools"] == []
    assert rows.rows == [plain]


@pytest.mark.parametrize(
    ("text", "mirrors"),
    [
        ('{"x-mcp-header": 1}', True),
        (r'{"\u0078-mcp-header": 1}', True),
        (r'{"x-mcp-heade\u0072": 1}', True),
        (r'{"x": "\u00e4"}', False),
        ("{}", False),
    ],
)
def test_a_header_annotation_is_found_however_it_is_written(text: str, *, mirrors: bool) -> None:
    assert may_mirror(text.encode()) is mirrors


@given(rows=st.lists(_rows, max_size=4), version=st.sampled_from([HANDSHAKE, MODERN]))
def test_tools_that_stay_json_are_those_that_parsing_gives(rows: list[Any], version: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "result": _result(rows, version) | {"_meta": {"n": 1}}}

    parsed = parse_list(json.dumps(message).encode())

    listed = parsed["result"]["tools"]
    assert [whole_row(row) for row in listed] == rows
    assert parsed | {"result": parsed["result"] | {"tools": rows}} == message
    assert all(isinstance(row, RawRow) is all(map(is_plain_row, rows)) for row in listed)
    if all(map(is_plain_row, rows)):
        assert [Tool.from_row("demo", row, may_mirror=False) for row in listed] == [
            Tool.from_row("demo", row) for row in rows
        ]


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}',
        b'{"jsonrpc": "2.0", "id": 1, "result": {"content": []}}',
        b'{"jsonrpc": "2.0", "id": 1, "result": {"tools": {}}}',
        b'{"jsonrpc": "2.0", "id": 1, "result": {"tools": [1, NaN]}}',
        b'{"jsonrpc": "2.0", "id": 1, "result": null}',
        b'["result"]',
        b"5",
    ],
)
def test_a_message_that_is_no_list_of_tools_is_parsed_as_usual(body: bytes) -> None:
    assert repr(parse_list(body)) == repr(parse_json(body))


@pytest.mark.parametrize("text", [r"\ud800", "\x01", r"\q", "\xff"])
def test_a_list_that_is_not_json_is_refused_and_not_kept_for_later(text: str) -> None:
    tool = b'{"name": "a", "inputSchema": {"type": "object", "x": "%b"}}' % text.encode("latin-1")

    with pytest.raises(ValueError, match="line 1"):
        parse_list(b'{"jsonrpc": "2.0", "id": 1, "result": {"tools": [%b]}}' % tool)


def test_a_tool_that_stays_json_is_exact_and_reads_its_schema_once() -> None:
    number = 2**80 + 1
    schema = {"type": "object", "properties": {"n": {"maximum": number}}}
    row = {"name": "add", "description": "Add.", "inputSchema": schema}
    tool = Tool.from_row("demo", RawRow("add", json.dumps(row).encode()))
    other = Tool.from_row("demo", RawRow("b", b'{"name": "b", "inputSchema": {"type": "object"}}'))
    renamed = tool.renamed("demo_add")

    assert tool.input_schema == schema
    assert other.input_schema == {"type": "object"}
    assert renamed.input_schema is tool.input_schema is tool.wire_schema
    assert (renamed.name, renamed.wire_name, renamed.description) == ("demo_add", "add", "Add.")
    assert pickle.loads(pickle.dumps(renamed)) == renamed
    with pytest.raises(AttributeError):
        _ = tool.parameters  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("body", "clean"), [(b"{}", True), (None, False), (b"{}" + b" " * 3_000_000, False)]
)
def test_rows_whose_bytes_are_unknown_or_too_many_have_to_be_sanitized(
    body: bytes | None, clean: bool
) -> None:
    rows = ToolRows()

    rows.take(_result([], HANDSHAKE), body, mirror=False)

    assert rows.clean is clean


@pytest.mark.parametrize("odd", [False, True])
def test_of_too_many_tools_one_more_than_are_used_is_kept(odd: bool) -> None:
    tools: list[Any] = [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(9)]
    if odd:
        tools[0]["inputSchema"] = None  # then all of them are parsed
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}).encode()

    parsed = parse_list(body, most=3)["result"]
    rows = ToolRows(most=3)
    rows.take({"tools": tools}, None, mirror=False)

    assert len(parsed["tools"]) == 4
    assert len(rows.rows) == 4
    assert rows.is_full


def test_a_tool_that_is_too_large_is_not_kept() -> None:
    large = {"name": "large", "inputSchema": {"type": "object"}, "description": "\n" * 3_000_000}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": [large]}}).encode()

    (row,) = parse_list(body)["result"]["tools"]

    assert row.name == "large"
    assert MAX_ROW_BYTES < len(row.json) < len(body)
    assert "\n" not in whole_row(row)["description"]
