"""Large messages are parsed in parts, to the same values as at once."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json

from plait.client.protocol import large_json
from plait.client.protocol.large_json import LimitError, parse_large

_MANY = 10**9
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


@pytest.fixture(autouse=True)
def _no_short_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_json, "_QUICK_BYTES", 0)


@pytest.fixture
def parsed_sizes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    sizes: list[int] = []

    def measured(data: bytes) -> object:
        sizes.append(len(data))
        return from_json(data)

    monkeypatch.setattr(large_json, "from_json", measured)
    return iter([sizes])


def _small_parts(patch: pytest.MonkeyPatch, size: int) -> None:
    patch.setattr(large_json, "_PART_BYTES", size)
    patch.setattr(large_json, "_TEXT_BYTES", size)
    patch.setattr(large_json, "_LONGEST_BYTES", _MANY)


@settings(deadline=None, max_examples=150)
@given(JSON, st.booleans(), st.sampled_from([16, 17, 19, 23, 40]), EDITS)
def test_every_message_is_parsed_as_at_once(
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
            parsed: object = parse_large(bytes(body), _MANY, _MANY)
        except ValueError:
            parsed = "not JSON"

    assert repr(parsed) == repr(expected)


def _openings(value: object) -> int:
    """Count the commas and opening brackets of JSON outside of its texts."""
    match value:
        case dict() | list():
            inner = value.values() if isinstance(value, dict) else value
            return 1 + max(0, len(value) - 1) + sum(map(_openings, inner))
        case _:
            return 0


@settings(deadline=None)
@given(JSON, st.integers(16, 40))
def test_values_are_counted_as_they_are_whatever_the_texts_hold(value: object, size: int) -> None:
    body, count = json.dumps([[[value]]]).encode(), _openings([[[value]]])
    with pytest.MonkeyPatch.context() as patch:
        _small_parts(patch, size)

        parse_large(body, count, _MANY)
        with pytest.raises(LimitError, match="`values` in `limits`"):
            parse_large(body, count - 1, _MANY)


@pytest.mark.parametrize(
    "body",
    [
        _START + b"x" * _SIZE + b'"}]}}',
        _START + "ä".encode() * (_SIZE // 2) + b'"}]}}',
        _START + b"\\n" * (_SIZE // 2) + b'"}]}}',
        _START + b"\\\\" * (_SIZE // 2) + b'"}]}}',
        _START + b'\\"' * (_SIZE // 2) + b'"}]}}',
        _START + b"\\ud83d\\ude00" * (_SIZE // 12) + b'"}]}}',
        _LIST + b'{"a":1},' * 150_000 + b"1]}}}",
        _LIST + b'"%b",' % (b"\\n" * 50_000) * 30 + b"1]}}}",
        _LIST + b'{"b":[[%b1]]},' % (b"2," * 300_000) * 2 + b"1]}}}",
        b'{"text":"%b","in":' % (b"x" * 200_000) * 15 + b"1" + b"}" * 15,
    ],
    ids=[
        *("plain", "umlauts", "escapes", "backslashes", "quotes", "pairs"),
        *("objects", "texts", "in", "levels"),
    ],
)
def test_no_call_of_the_parser_takes_long(body: bytes, parsed_sizes: Iterator[list[int]]) -> None:
    parsed, sizes = parse_large(body, _MANY, _MANY), next(parsed_sizes)

    assert parsed == from_json(body)
    assert max(sizes, default=0) <= 1_100_000


@pytest.mark.parametrize(
    "value", [b" " * _SIZE + b"1", b"1" * _SIZE, b'{"%b":1}' % (b"\\n" * (_SIZE // 2))]
)
def test_what_has_no_place_to_cut_is_not_parsed(
    value: bytes, parsed_sizes: Iterator[list[int]]
) -> None:
    with pytest.raises(ValueError, match="too long"):
        parse_large(b'{"jsonrpc":"2.0","id":1,"result":' + value + b"}", _MANY, _MANY)

    assert not next(parsed_sizes)


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
def test_a_message_that_takes_many_times_its_bytes_is_refused(body: bytes) -> None:
    with pytest.raises(LimitError, match="`message_bytes` in `limits`"):
        parse_large(body, _MANY, 1_000_000)


def test_the_values_of_a_message_that_is_parsed_at_once_are_counted_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large_json, "_QUICK_BYTES", 1000)

    assert parse_large(b"[1,2,3]", 3, _MANY) == [1, 2, 3]
    with pytest.raises(LimitError, match="`values` in `limits`"):
        parse_large(b"[1,2,3]", 2, _MANY)
