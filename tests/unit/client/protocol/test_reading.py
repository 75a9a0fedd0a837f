"""Messages of any size and shape are read, within bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mcp_types import (
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from msgspec.structs import astuple
from pydantic_core import from_json

from plait.client.config.budgets import IncomingLimits
from plait.client.protocol import reading
from plait.client.protocol.reading import (
    LARGE_BYTES,
    NESTED_NOTE,
    LimitError,
    coerced_id,
    cut_nesting,
    decode,
    parse_json,
    read,
)

_MANY = 10**9
_NO_LIMITS = IncomingLimits(message_bytes=_MANY, values=_MANY)
_SIZE = 3_000_000
_START = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"'
_LIST = b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"a":['

TEXTS = st.text(st.sampled_from('a,[]{}":\\/\n\0é€\N{GRINNING FACE} '), max_size=60)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
)
EDITS = st.lists(
    st.tuples(st.integers(0, 200), st.booleans(), st.sampled_from(b'[]{},:"\\1 u')), max_size=2
)


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_QUICK_BYTES", 0)


@pytest.fixture
def decoded_sizes(in_parts: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    sizes: list[int] = []

    def measured(data: bytes) -> object:
        sizes.append(len(data))
        return from_json(data)

    monkeypatch.setattr(reading, "from_json", measured)
    return iter([sizes])


def _small_parts(patch: pytest.MonkeyPatch, size: int) -> None:
    patch.setattr(reading, "LARGE_BYTES", 0)
    patch.setattr(reading, "_QUICK_BYTES", 0)
    patch.setattr(reading, "MAX_PART_BYTES", size)
    patch.setattr(reading, "MAX_TEXT_PART_BYTES", size)


@settings(deadline=None, max_examples=150)
@given(JSON, st.booleans(), st.sampled_from([16, 17, 19, 23, 40]), EDITS)
def test_every_message_is_decoded_as_at_once(
    value: object, escapes: bool, size: int, edits: list[tuple[int, bool, int]]
) -> None:
    body = bytearray(json.dumps(value, ensure_ascii=escapes).encode())
    for place, inserts, sign in edits:
        place %= len(body)
        body[place : place + (not inserts)] = bytes([sign])
    try:
        expected: object = from_json(bytes(body))
    except ValueError:
        expected = "not JSON"
    with pytest.MonkeyPatch.context() as patch:
        _small_parts(patch, size)
        try:
            decoded: object = decode(bytes(body), _NO_LIMITS)
        except ValueError as error:
            if "name is too long" in str(error):
                return
            decoded = "not JSON"

    assert repr(decoded) == repr(expected)


def _openings(value: object) -> int:
    """Count the commas and opening brackets of JSON outside of its texts."""
    match value:
        case dict() | list():
            inner = value.values() if isinstance(value, dict) else value
            return 1 + max(0, len(value) - 1) + sum(map(_openings, inner))
        case _:
            return 0


@settings(deadline=None)
@given(st.lists(JSON), st.integers(16, 40))
def test_values_are_counted_as_they_are_whatever_the_texts_hold(value: object, size: int) -> None:
    body, count = json.dumps([[[value]]]).encode(), _openings([[[value]]])
    with pytest.MonkeyPatch.context() as patch:
        _small_parts(patch, size)
        try:
            decode(body, replace(_NO_LIMITS, values=count))
        except ValueError as error:
            assert "name is too long" in str(error)  # noqa: PT017
            return
        with pytest.raises(LimitError, match="`values` in `limits`"):
            decode(body, replace(_NO_LIMITS, values=count - 1))


@pytest.mark.parametrize(
    "body",
    [
        _START + b"x" * _SIZE + b'"}]}}',
        _START + "ä".encode() * (_SIZE // 2) + b'"}]}}',
        _START + b"\\n" * (_SIZE // 2) + b'"}]}}',
        _START + b"\\\\" * (_SIZE // 2) + b'"}]}}',
        _START + b'\\"' * (_SIZE // 2) + b'"}]}}',
        _START + b"\\ud83d\\ude00" * (_SIZE // 12) + b'"}]}}',
        _START + "a\N{GRINNING FACE}".encode() * (_SIZE // 5) + b'"}]}}',
        _LIST + b'{"a":1},' * 150_000 + b"1]}}}",
        _LIST + b'"%b",' % (b"\\n" * 50_000) * 30 + b"1]}}}",
        _LIST + b'"%b",' % (b"x" * 300_000) * 10 + b"1]}}}",
        _LIST + b'{"b":[[%b1]]},' % (b"2," * 300_000) * 2 + b"1]}}}",
        _LIST + b"1," * 100_000 + b'"%b",' % (b"\\n" * _SIZE) + b"1," * 100_000 + b"1]}}}",
        b'{"text":"%b","in":' % (b"x" * 100_000) * 12 + b"1" + b"}" * 12,
    ],
    ids=[
        *("plain", "umlauts", "escapes", "backslashes", "quotes", "pairs", "characters"),
        *("objects", "texts", "long texts", "in", "a text between numbers", "levels"),
    ],
)
def test_no_call_of_the_decoder_takes_long(body: bytes, decoded_sizes: Iterator[list[int]]) -> None:
    decoded, sizes = decode(body, _NO_LIMITS), next(decoded_sizes)

    assert decoded == from_json(body)
    assert max(sizes, default=0) <= 2 * reading.MAX_PART_BYTES + 2


@pytest.mark.usefixtures("in_parts")
@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"%b" :1}}' % (b"\\n" * _SIZE), "a name is too long"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":%b}}' % (b"1" * _SIZE), "number out of range"),
        *(
            (_START + text + b'"}]}}', "not a text")
            for text in (
                b"\n" + b"x" * _SIZE,
                b"\n" + b"\\n" * _SIZE,
                b"\xff" + b"x" * _SIZE,
                b"\\x" + b"x" * _SIZE,
                b"\\x" * _SIZE,
                b"\\n" + b"x" * _SIZE + b"\n" + b"x" * _SIZE,
                b"\\ud83d" + b"x" * _SIZE,
                b"x" * _SIZE + b"\\ude00",
                b"x" * _SIZE + "ä".encode()[:1],
            )
        ),
    ],
    ids=range(11),
)
def test_what_is_no_json_is_refused_at_once_however_long_it_is(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode(body)


@pytest.mark.timeout(10)
def test_large_containers_in_each_other_take_time_in_proportion(
    decoded_sizes: Iterator[list[int]],
) -> None:
    body = b'{"text":"%b","in":' % (b"x" * 120_000) * 190 + b"1" + b"}" * 190

    decoded, sizes = decode(body), next(decoded_sizes)

    assert decoded == from_json(body)
    # Not split to the innermost: that would be 190 passes.
    assert max(sizes) > 20_000_000


@pytest.mark.usefixtures("in_parts")
@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{"a":%b}}' % (b" " * _SIZE + b"1"),
        _LIST + b"NaN," * 10 + b'1e999,"%b"]}}}' % (b"x" * _SIZE),
    ],
    ids=["long blanks", "not a number"],
)
def test_odd_values_are_decoded_in_a_large_message_too(body: bytes) -> None:
    assert repr(decode(body)) == repr(from_json(body))


@pytest.mark.parametrize(
    "body",
    [
        _START + b"x" * 33_000_000 + b'"}]}}',
        _START + b"x" * 20_000_000 + "\N{GRINNING FACE}".encode() + b'"}]}}',
        _START + b"x" * 20_000_000 + b'\\ud83d\\ude00"}]}}',
        _LIST + b"1," * 650_000 + b"1]}}}",
    ],
    ids=["plain", "character", "escape", "objects"],
)
@pytest.mark.usefixtures("in_parts")
def test_a_message_that_takes_many_times_its_bytes_is_refused(body: bytes) -> None:
    with pytest.raises(LimitError, match="`message_bytes` in `limits`"):
        decode(body, replace(_NO_LIMITS, message_bytes=1_000_000))


@pytest.mark.parametrize(
    ("body", "values"),
    [
        (b"[%b1]" % (b"[1], " * 300_000), 600_001),
        (json.dumps(["x" * 2_000] * 1_000).encode(), 1_000),
    ],
    ids=["decoded at once", "decoded in little time"],
)
def test_the_values_of_every_message_are_counted(body: bytes, values: int) -> None:
    assert decode(body, replace(_NO_LIMITS, values=values)) == from_json(body)
    with pytest.raises(LimitError, match="`values` in `limits`"):
        decode(body, replace(_NO_LIMITS, values=values - 1))


@pytest.mark.parametrize("size", [0, 100_000, 20_000_000])
def test_a_response_that_is_not_utf_8_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=r"utf|unicode|JSON-RPC"):
        read(_START + b"x" * size + b"\xff" + b'"}]}}')


def test_the_values_of_a_large_response_are_counted_when_its_result_is_decoded() -> None:
    body = _LIST + b"{}," * 600_000 + b"1]}}}"
    message = read(body)

    assert (message.id, message.kind) == (1, "response")
    with pytest.raises(LimitError, match="`values` in `limits`"):
        message.decoded_result()


@pytest.mark.parametrize("size", [100, 1000, 10_000, 2 * LARGE_BYTES, 20_000_000])
def test_a_response_of_any_size_has_its_id_its_result_and_its_bytes(size: int) -> None:
    result = {"content": [{"type": "text", "text": "x" * size}]}
    body = json.dumps({"jsonrpc": "2.0", "id": "7", "result": result}).encode()

    message = read(body)

    assert (message.id, message.kind, message.body) == (7, "response", body)
    assert message.decoded_result() == result
    assert message.decoded_result() is message.decoded_result()


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ('"id":"7","method":"ping"', ("request", "7", "ping", None)),
        ('"method":"a","params":{"b":1}', ("notification", None, "a", {"b": 1})),
        ('"id":"7","error":{"code":-1,"message":"no","data":[1]}', ("error", 7, (-1, "no", [1]))),
        ('"id":null,"error":{"code":-1,"message":"no"}', ("error", None, (-1, "no", None))),
        ('"id":1,"result":{},"error":{"code":"1","message":"no"}', ("error", 1, (1, "no", None))),
        ('"id":1,"result":{},"error":{"code":1.5,"message":"no"}', ("response", 1, {})),
    ],
)
def test_every_kind_of_message_is_known(fields: str, facts: object) -> None:
    assert _facts(b'{"jsonrpc":"2.0",%b}' % fields.encode()) == facts


def test_the_content_of_a_message_is_not_in_its_representation() -> None:
    request = read(b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"token":"secret"}}')

    assert repr(request) == "Message(request, id=1, method='a')"


IDS = st.sampled_from([1, "1", "a", "", 0, -1, 1.0, 1.5, True, None, [], {}, 10**20, "9" * 25])
OTHERS = st.sampled_from([None, 1, "a", [], {}, {"a": 1}, {"a": {"b": [None, "ü"]}}, True])
ERRORS = st.one_of(
    OTHERS,
    st.fixed_dictionaries(
        {},
        optional={
            "code": st.sampled_from([1, -32000, "5", "-5", "x", 5.0, 5.5, None, True]),
            "message": st.sampled_from(["a", "", None, 1]),
            "data": OTHERS,
            "more": OTHERS,
        },
    ),
)
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "2.0", "1.0", 2.0, None]),
        "id": IDS,
        "method": st.sampled_from(["a", "ping", "", None, 1, {}]),
        "params": OTHERS,
        "result": OTHERS,
        "error": ERRORS,
        "more": OTHERS,
    },
)


def _facts(body: bytes) -> object:
    """Return what `read` makes of a message."""
    try:
        message = read(body)
    except ValueError:
        return "refused"
    match message.kind:
        case "response":
            return message.kind, message.id, message.decoded_result()
        case "error":
            assert message.error is not None
            return message.kind, message.id, astuple(message.error)
        case _:
            return message.kind, message.id, message.method, message.params


def _facts_of_models(body: bytes) -> object:
    """Return what the models of the MCP SDK make of it."""
    try:
        message = jsonrpc_message_adapter.validate_json(body, by_name=False)
    except ValueError:
        return "refused"
    match message:
        case JSONRPCRequest():
            return "request", message.id, message.method, message.params
        case JSONRPCNotification():
            return "notification", None, message.method, message.params
        case JSONRPCError(error=error):
            return "error", coerced_id(message.id), (error.code, error.message, error.data)
        case _:
            return "response", coerced_id(message.id), message.result


@settings(deadline=None, max_examples=400)
@given(OBJECTS.filter(lambda one: one.get("result", ...) is not None), st.booleans())
@example({"jsonrpc": "2.0", "id": 1, "method": "a", "result": {}}, False)
@example({"jsonrpc": "2.0", "id": 1, "method": "a", "error": {"code": 1, "message": "a"}}, True)
@example({"jsonrpc": "2.0", "id": True, "method": "a"}, False)
@example({"jsonrpc": "2.0", "id": None, "error": {"code": "5", "message": "a"}}, True)
def test_objects_are_messages_as_for_the_models_of_the_sdk(
    value: dict[str, Any], is_long: bool
) -> None:
    body = json.dumps(value | ({"padding": "x" * 5000} if is_long else {})).encode()

    assert _facts(body) == _facts_of_models(body)


@settings(deadline=None, max_examples=300)
@given(OBJECTS)
def test_a_response_that_follows_json_rpc_to_the_letter_is_read_as_one(
    value: dict[str, Any],
) -> None:
    body = json.dumps(value).encode()
    parsed = parse_json(body)
    match parsed.get("error"):
        case {"code": int(), "message": str()}:
            has_outcome = True
        case _:
            has_outcome = type(parsed.get("result")) is dict
    is_response = parsed.get("jsonrpc") == "2.0" and "method" not in parsed and has_outcome
    if not is_response or coerced_id(parsed.get("id")) is None or value["id"] is True:
        return

    message = read(body)

    assert message.id == coerced_id(parsed["id"])
    assert message.kind in {"response", "error"}
    if message.kind == "response":
        assert message.decoded_result() == parsed["result"]


def _nested(levels: int, inner: Any = 1) -> Any:
    for _ in range(levels):
        inner = {"a": [inner]}
    return inner


def _depth(value: Any) -> int:
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return 1 + max(map(_depth, parts), default=0)
    return 0


@pytest.mark.parametrize("levels", [110, 300, 5_000])
@pytest.mark.parametrize("padding", [0, 5_000, 100_000])
def test_a_response_that_is_nested_too_deeply_is_cut(levels: int, padding: int) -> None:
    deep = b'{"a":[' * levels + b"]}" * levels
    start = b'{"jsonrpc":"2.0","id":1,"result":{"text":"%b",' % (b"x" * padding)

    message = read(start + b'"deep":%b}}' % deep)

    assert message.id == 1
    assert _depth(message.decoded_result()) == 99
    assert message.note == NESTED_NOTE


def test_what_is_not_too_deep_is_not_cut() -> None:
    result = {"text": _nested(90)}

    message = read(json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode())

    assert (message.decoded_result(), message.note) == (result, None)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "part", [b"x", b'"', b'\\"', b"\\", b'" "', b"'[", b'"[', b"a]", b'{"', b'\\"[', b"\xff"]
)
@pytest.mark.parametrize("start", [b"", b'"', b"{", b'x"'])
def test_cutting_no_body_takes_more_than_linear_time(part: bytes, start: bytes) -> None:
    cut_nesting(start + part * (200_000 // len(part)))


def test_what_is_too_deep_is_replaced_by_a_text() -> None:
    body = {"before": "]}", "deep": _nested(80), "after": ["[{", '\\"', _nested(3)]}

    cut = json.loads(cut_nesting(json.dumps(body).encode()))

    assert (cut["before"], cut["after"]) == (body["before"], body["after"])
    assert _depth(cut) == 100
    assert "nested too deeply" in json.dumps(cut)


@given(JSON)
def test_the_rest_is_unchanged_by_a_cut(value: Any) -> None:
    body = json.dumps(value).encode()

    assert cut_nesting(body) is body
    deep = {"value": value, "deep": _nested(60), "again": value}
    cut = json.loads(cut_nesting(json.dumps(deep).encode()))
    assert repr((cut["value"], cut["again"])) == repr((value, value))
