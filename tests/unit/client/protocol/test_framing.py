"""Messages are found in whatever a server writes on a line."""

from __future__ import annotations

import contextlib
import time
from math import inf
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plait.client.protocol.framing import Framed, answered_id, frames, is_answer, misread_id
from plait.client.protocol.reading import Kind, LimitError

MESSAGE = b'{"jsonrpc":"2.0","id":1,"result":{"text":"hello"}}'
RESPONSE = (1, {"text": "hello"})


def _responses(line: bytes, **options: Any) -> tuple[list[tuple[Any, Any]], bool]:
    """Return the responses in a line, and whether it holds something else."""
    framed = frames(line, **options)
    return [(one.id, one.decoded_result()) for one in framed.messages], framed.noise


def _result_of(framed: Framed) -> Any:
    (message,) = framed.messages
    return message.decoded_result()


TURNED = b'{"id":1,"jsonrpc":"2.0","result":{"text":"hello"}}'
LINES: dict[str, tuple[bytes, int, bool]] = {
    "plain": (MESSAGE, 1, False),
    "BOM": (b"\xef\xbb\xbf" + MESSAGE, 1, False),
    "CR": (MESSAGE + b"\r", 1, False),
    "CRLF": (MESSAGE + b"\r\n", 1, False),
    "blanks": (b"  \t" + MESSAGE + b"  ", 1, False),
    "NUL": (b"\0" + MESSAGE, 1, False),
    "NUL behind": (MESSAGE + b"\0", 1, False),
    "NULs and CR": (b"\0\0\r" + MESSAGE + b"\r", 1, False),
    "spaced": (b'{ "jsonrpc" : "2.0", "id" : 1, "result" : { "text" : "hello" } }', 1, False),
    "banner": (b"Server started on stdio! " + MESSAGE, 1, True),
    "colours": (b"\x1b[32mINFO\x1b[0m ready " + MESSAGE, 1, True),
    "braces": (b"{not json} " + MESSAGE, 1, True),
    "brackets": (b"[debug] {a: 1} [{x}] " + MESSAGE, 1, True),
    "many braces": (b"function() {} {} {} " * 10 + MESSAGE, 1, True),
    "a JSON log line": (b'{"level":"info","msg":"ready"}' + MESSAGE, 1, True),
    "trailing word": (MESSAGE + b"trailing", 1, True),
    "trailing brace": (MESSAGE + b" }", 1, True),
    "half of another message": (b'{"jsonrpc":"2.0","id":7,"resu' + MESSAGE, 1, True),
    "invalid bytes": (b"\xff\xfe " + MESSAGE, 1, True),
    "two messages": (MESSAGE + MESSAGE, 2, False),
    "two with blanks": (MESSAGE + b" \t" + MESSAGE, 2, False),
    "forty messages": (MESSAGE * 40, 40, False),
    "a batch": (b"[%b,%b]" % (MESSAGE, MESSAGE), 2, False),
    "a batch with something else": (b"[{}, " + MESSAGE + b", 7]", 1, False),
    "any key first": (b"{oops} " + TURNED + b' { "jsonrpc"' + MESSAGE[10:] + MESSAGE, 3, True),
}


@pytest.mark.parametrize(("line", "count", "has_noise"), LINES.values(), ids=LINES)
def test_messages_are_found_whatever_is_around_them(
    line: bytes, count: int, has_noise: bool
) -> None:
    assert _responses(line) == ([RESPONSE] * count, has_noise)


@pytest.mark.parametrize("line", [b"", b"\r\n", b"   ", b"\xef\xbb\xbf"])
def test_an_empty_line_is_neither_message_nor_noise(line: bytes) -> None:
    assert frames(line) == Framed(())


@pytest.mark.parametrize(
    "line",
    [
        b"Server started",
        b"{",
        b"[{",
        b"}",
        b"{}",
        b"[]",
        b"[{}]",
        b"null",
        b"7",
        b'"text"',
        b'{"jsonrpc":"2.0","id":1,"resul',
        b'{"jsonrpc":"1.0","id":1,"result":{}}',
        b"\xff\xfe\xfd",
    ],
)
def test_what_is_no_message_is_noise(line: bytes) -> None:
    assert frames(line) == Framed((), noise=True)


def test_every_kind_of_message_is_known() -> None:
    lines: dict[Kind, bytes] = {
        "request": b'{"jsonrpc":"2.0","id":"a","method":"ping"}',
        "notification": b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        "response": MESSAGE,
        "error": b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}',
    }

    for kind, line in lines.items():
        (message,) = frames(line).messages
        (found,) = frames(b"noise " + line).messages
        assert message.kind == found.kind == kind
        assert (message.id, message.method, message.error) == (found.id, found.method, found.error)


@pytest.mark.parametrize(
    ("line", "encoding", "result"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":null}', "utf-8", {}),
        (
            b'{"jsonrpc":"2.0","id":1,"result":{"a":"caf\xe9 \xff"}}',
            "utf-8",
            {"a": "caf\ufffd \ufffd"},
        ),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":"caf\xe9"}}', "latin-1", {"a": "caf\xe9"}),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":"half: \\ud83d"}}', "utf-8", {"a": "half: ?"}),
    ],
    ids=["null", "no text", "another encoding", "half of a pair"],
)
def test_a_result_is_read_as_far_as_it_can_be(line: bytes, encoding: str, result: object) -> None:
    assert _responses(line, encoding=encoding) == ([(1, result)], False)


def test_strict_decoding_makes_a_line_noise_and_not_an_error() -> None:
    assert frames(b"\xff" + MESSAGE, errors="strict").noise


def test_nesting_too_deep_to_be_read_is_noise() -> None:
    for line in (b'{"a":' * 100_000, b"[{" * 100_000, b'{"a":[' * 100_000 + MESSAGE):
        assert frames(line).noise


def test_a_number_too_long_to_be_read_is_noise() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"result":{"n":' + b"9" * 10_000 + b"}} x"

    assert frames(line).noise
    assert misread_id(line[:-2]) == 1


ODD: dict[bytes, tuple[Any, Any] | None] = {
    b'{"jsonrpc":"2.0","id":1,"result":{"a":[Infinity,-Infinity,1e999,-0.0]}}': (
        1,
        {"a": [inf, -inf, inf, -0.0]},
    ),
    b'{"jsonrpc":"2.0","id":1,"result":{"n":%b}}' % (b"9" * 4300): (1, {"n": 10**4300 - 1}),
    b'{"jsonrpc":"2.0","id":1,"result":{"n":%b}}' % (b"9" * 4301): None,
    b'{"jsonrpc":"2.0","id":%b,"result":{}}' % (b"9" * 30): (10**30 - 1, {}),
    b'{"jsonrpc":"2.0","id":"%b","result":{}}' % (b"9" * 30): ("9" * 30, {}),
    b'{"jsonrpc":"2.0","id":"0012","result":{}}': (12, {}),
    b'{"jsonrpc":"2.0","id":"","result":{}}': ("", {}),
    b'{"jsonrpc":"2.0","id":-1,"result":{}}': (-1, {}),
    b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\ude00\\ud83d","\\uD83D\\uDE00":1}}': (
        1,
        {"a": "??", "\N{GRINNING FACE}": 1},
    ),
    b'{"jsonrpc":"2.0","id":1,"result":{"\xed\xa0\x80":"a"}}': (1, {"\ufffd" * 3: "a"}),
    b'{"jsonrpc":"2.0","id":1,"result":{"a":"\n"}}': None,
    b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\x"}}': None,
    b'{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2},"id":2}': (2, {"a": 2}),
    b'{"jsonrpc":"1.0","id":1,"result":{},"jsonrpc":"2.0"}': (1, {}),
    b'{"jsonrpc":"2.0","id":1,"result":{},"jsonrpc":"1.0"}': None,
    b'{"jsonrpc":"2.0","id":1,"result":{},"result":3}': None,
    b'{"jsonrpc":"2.0","id":1,"result":{"a":1},}': None,
    b'{"jsonrpc":"2.0","id":1,"result":{"a":01}}': None,
}
"""Lines that readers of JSON disagree on, with id and result, if there are any."""


@pytest.mark.parametrize("line", ODD, ids=range(len(ODD)))
def test_odd_messages_are_read_alike_with_and_without_a_banner(line: bytes) -> None:
    expected = ODD[line]

    if expected is None:
        assert _responses(line) == ([], True)
        assert misread_id(line) == 1
    else:
        assert _responses(line) == ([expected], False)
        assert _responses(b"banner " + line) == ([expected], True)
        assert _responses(line + b"\r\n") == ([expected], False)


def test_of_a_batch_at_most_a_thousand_messages_are_read() -> None:
    line = b"[%b]" % b",".join([b'{"jsonrpc":"2.0","method":"a"}'] * 1001)

    assert len(frames(line).messages) == 1000


fragments = st.one_of(
    st.binary(max_size=30),
    st.text(max_size=20).map(str.encode),
    st.sampled_from([MESSAGE, MESSAGE[:20], MESSAGE[20:], b"{", b"[{", b"}", b"\0", b"[", b","]),
    st.sampled_from([*ODD]),
)


@settings(deadline=None)
@given(
    st.lists(fragments, max_size=6).map(b"".join),
    st.sampled_from(["utf-8", "latin-1", "utf-16", "cp1252"]),
    st.sampled_from(["strict", "replace"]),
)
@example(b'{"a":' * 100_000, "utf-8", "replace")
@example(b"\xff", "utf-8", "strict")
def test_no_bytes_make_it_raise(line: bytes, encoding: str, errors: str) -> None:
    framed = frames(line, encoding=encoding, errors=errors)

    if encoding == "utf-8":
        bare = line.strip(b"\xef\xbb\xbf \t\r\n\v\f\0")
        assert framed.noise or framed.messages or not bare


@settings(deadline=None)
@given(st.binary(max_size=40).filter(lambda noise: not set(noise) & set(b'{[]}"\\')))
def test_noise_without_brackets_never_hides_a_message(noise: bytes) -> None:
    assert _responses(noise + MESSAGE + noise)[0] == [RESPONSE]


def _seconds_for(line: bytes, *, tries: int) -> float:
    """Measure the best of some tries, so that a busy machine does not count."""
    taken: list[float] = []
    for _ in range(tries):
        began = time.perf_counter()
        with contextlib.suppress(LimitError):
            frames(line)
        taken.append(time.perf_counter() - began)
    return min(taken)


@pytest.mark.parametrize(
    ("head", "filler", "tail"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"text":"', b"x", b'"}}'),
        (b'banner {"jsonrpc":"2.0","id":1,"result":{"text":"', b"x", b'"}}'),
        (b'{"jsonrpc":"2.0","id":1,"result":{"text":"', b"x", b""),
        (b"", b"{", b""),
        (b"", b"x", b""),
        (b"", b'{"a":1}', b""),
    ],
    ids=["message", "banner", "cut", "braces", "no JSON", "many objects"],
)
def test_a_line_of_20_mb_takes_time_in_proportion(head: bytes, filler: bytes, tail: bytes) -> None:
    megabytes = 1_000_000 // len(filler)

    small = _seconds_for(head + filler * (2 * megabytes) + tail, tries=3)
    large = _seconds_for(head + filler * (20 * megabytes) + tail, tries=1)

    assert large < 30 * small + 2


def test_many_messages_on_a_line_take_time_in_proportion() -> None:
    small = _seconds_for(MESSAGE * 500, tries=3)
    large = _seconds_for(MESSAGE * 5_000, tries=1)

    assert large < 30 * small + 2


def test_a_line_of_20_mb_without_a_message_does_not_hold_up_the_loop() -> None:
    assert _seconds_for(b'{"a":1}' * 3_000_000, tries=1) < 8


def test_a_message_of_20_mb_arrives_whole() -> None:
    text = "x" * 20_000_000
    line = b'{"jsonrpc":"2.0","id":1,"result":{"text":"' + text.encode() + b'"}}'

    assert _result_of(frames(line)) == {"text": text}
    assert _result_of(frames(b"banner " + line)) == {"text": text}


def test_a_batch_of_20_mb_is_its_messages() -> None:
    text = "x" * 10_000_000
    one = b'{"jsonrpc":"2.0","id":1,"result":{"text":"' + text.encode() + b'"}}'

    assert _responses(b"[%b,%b]" % (one, one)) == ([(1, {"text": text})] * 2, False)


def test_a_large_line_of_too_many_values_is_refused() -> None:
    line = b'{"jsonrpc":"2.0","method":"a","params":{"a":[%b1]}}' % (b"1," * 600_000)

    with pytest.raises(LimitError, match="`values` in `limits`"):
        frames(line)


@pytest.mark.parametrize(
    ("first", "last", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"a', b'b"}}', 7),
        (b' { "id" : "7", "jsonrpc":"2.0",', b'b"}}', 7),
        (b'{"result":{"a', b'b"}, "id": 7, "jsonrpc": "2.0"}\n', 7),
        (b'{"result":{"a', b'b"},"id":"7"}', 7),
        (b'{"result":{"id":7,"a', b'"id":7}}', None),
        (b'{"jsonrpc":"2.0","id":"a7","result":{"a', b'b"}}', None),
        (b'{"jsonrpc":"2.0","id":7777777777777777777,"result":{"a', b'b"}}', None),
        (b" " * 200 + b'{"id":7,', b'"id":7}' + b" " * 200, None),
    ],
)
def test_the_id_of_an_answer_that_is_not_kept_is_at_one_of_its_ends(
    first: bytes, last: bytes, request_id: int | None
) -> None:
    assert answered_id(first, last) == request_id


def test_what_has_a_method_at_its_beginning_is_no_answer() -> None:
    assert not is_answer(b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a')
    assert is_answer(b'{"jsonrpc":"2.0","id":7,"result":{"a')


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":5}', 7),
        (b'{"id":"7","result":{}}', 7),
        (b'{"id":"a","error":"no"}', "a"),
        (b'{"id":7,"method":"ping","result":{}}', None),
        (b'{"id":7}', None),
        (b'{"result":5}', None),
        (b'[{"id":7,"result":5}]', None),
        (b'{"id":7,"result":', None),
        (b'{"id":7,"result":"\xff"}', 7),
        (b'{"id":7,"result":"\xff"} and more', None),
        (b'{"id":7,"result":"%b' % (b"x" * 2_000_000), 7),
        (b'{"id":7,"method":"ping","params":"%b' % (b"x" * 2_000_000), None),
    ],
)
def test_the_id_of_an_answer_that_cannot_be_read_is_found(
    line: bytes, request_id: int | str | None
) -> None:
    assert misread_id(line) == request_id
