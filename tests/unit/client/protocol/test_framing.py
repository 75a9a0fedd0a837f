"""Messages are found in whatever a server writes on a line."""

from __future__ import annotations

import contextlib
import json
import time
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


@pytest.mark.parametrize(
    "line",
    [
        MESSAGE,
        b"\xef\xbb\xbf" + MESSAGE,
        MESSAGE + b"\r",
        MESSAGE + b"\r\n",
        b"  \t" + MESSAGE + b"  ",
        b"\0" + MESSAGE,
        b"\0\0\r" + MESSAGE + b"\r",
        b'{ "jsonrpc" : "2.0", "id" : 1, "result" : { "text" : "hello" } }',
    ],
    ids=["plain", "BOM", "CR", "CRLF", "blanks", "NUL", "NULs and CR", "spaced"],
)
def test_a_message_is_found_and_its_wrapping_is_no_noise(line: bytes) -> None:
    assert _responses(line) == ([RESPONSE], False)


def test_a_nul_behind_a_message_is_no_noise() -> None:
    assert _responses(MESSAGE + b"\0") == ([RESPONSE], False)


@pytest.mark.parametrize(
    "line",
    [
        b"Server started on stdio! " + MESSAGE,
        b"\x1b[32mINFO\x1b[0m ready " + MESSAGE,
        b"{not json} " + MESSAGE,
        b"[debug] {a: 1} [{x}] " + MESSAGE,
        b'{"level":"info","msg":"ready"}' + MESSAGE,
        MESSAGE + b"trailing",
        MESSAGE + b" }",
        b'{"jsonrpc":"2.0","id":7,"resu' + MESSAGE,
        b"\xff\xfe " + MESSAGE,
    ],
    ids=[
        "banner",
        "colours",
        "braces",
        "brackets",
        "a JSON log line",
        "trailing word",
        "trailing brace",
        "half of another message",
        "invalid bytes",
    ],
)
def test_a_message_is_found_between_noise(line: bytes) -> None:
    assert _responses(line) == ([RESPONSE], True)


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


def test_two_messages_on_a_line_are_two_messages() -> None:
    assert _responses(MESSAGE + MESSAGE) == ([RESPONSE] * 2, False)
    assert _responses(MESSAGE + b" \t" + MESSAGE) == ([RESPONSE] * 2, False)


def test_messages_behind_noise_are_found_whichever_key_comes_first() -> None:
    turned = b'{"id":1,"jsonrpc":"2.0","result":{"text":"hello"}}'

    line = b"{oops} " + turned + b' { "jsonrpc"' + MESSAGE[10:] + MESSAGE

    assert _responses(line) == ([RESPONSE] * 3, True)


def test_forty_messages_on_a_line_are_forty_messages() -> None:
    assert _responses(MESSAGE * 40) == ([RESPONSE] * 40, False)


def test_a_message_behind_many_braces_is_found() -> None:
    line = b"function() {} {} {} " * 10 + MESSAGE

    assert _responses(line) == ([RESPONSE], True)


@pytest.mark.parametrize("count", [1, 2, 50])
def test_a_batch_is_its_messages_in_order(count: int) -> None:
    ids = list(range(count))
    line = json.dumps([{"jsonrpc": "2.0", "id": one, "result": {}} for one in ids]).encode()

    framed = frames(line)

    assert [message.id for message in framed.messages] == ids
    assert not framed.noise


def test_what_is_no_message_in_a_batch_does_not_spoil_the_rest() -> None:
    assert _responses(b"[{}, " + MESSAGE + b", 7]")[0] == [RESPONSE]


def test_a_result_that_is_null_is_an_empty_one() -> None:
    assert _responses(b'{"jsonrpc":"2.0","id":1,"result":null}') == ([(1, {})], False)


def test_bytes_that_are_no_text_are_replaced_within_a_message() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"result":{"text":"caf\xe9 \xff"}}'

    framed = frames(line)

    assert not framed.noise
    assert _result_of(framed) == {"text": "caf\ufffd \ufffd"}


def test_another_encoding_can_be_asked_for() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"result":{"text":"caf\xe9"}}'

    assert _result_of(frames(line, encoding="latin-1")) == {"text": "café"}


def test_strict_decoding_makes_a_line_noise_and_not_an_error() -> None:
    assert frames(b"\xff" + MESSAGE, errors="strict").noise


def test_half_of_a_surrogate_pair_does_not_spoil_a_message() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"result":{"text":"half: \\ud83d"}}'

    result = _result_of(frames(line))

    assert result["text"].encode().startswith(b"half: ")


def test_nesting_too_deep_to_be_read_is_noise() -> None:
    for line in (b'{"a":' * 100_000, b"[{" * 100_000, b'{"a":[' * 100_000 + MESSAGE):
        assert frames(line).noise


def test_a_number_too_long_to_be_read_is_noise() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"result":{"n":' + b"9" * 10_000 + b"}} x"

    assert frames(line).noise
    assert misread_id(line[:-2]) == 1


def test_text_frames_are_searched_too() -> None:
    assert _responses(("\ufeff" + MESSAGE.decode()).encode()) == ([RESPONSE], False)
    assert _responses(b"noise " + MESSAGE) == ([RESPONSE], True)


fragments = st.one_of(
    st.binary(max_size=30),
    st.text(max_size=20).map(str.encode),
    st.sampled_from([MESSAGE, MESSAGE[:20], MESSAGE[20:], b"{", b"[{", b"}", b"\0", b"[", b","]),
)


@settings(deadline=None)
@given(st.lists(fragments, max_size=6).map(b"".join), st.sampled_from(["strict", "replace"]))
@example(b'{"a":' * 100_000, "replace")
@example(b"\xff", "strict")
def test_no_bytes_make_it_raise(line: bytes, errors: str) -> None:
    framed = frames(line, errors=errors)

    assert framed.noise or framed.messages or not line.strip(b"\xef\xbb\xbf \t\r\n\v\f\0")


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
