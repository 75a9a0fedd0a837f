"""JSON is read as editors write it."""

from __future__ import annotations

import json
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.client.config.document import (
    JsonSyntaxError,
    decode_text,
    parse_jsonc,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)

DOCUMENT = """{
  "mcpServers": {
    "a": {"url": "https://me:CANARY@example.com", "headers": {"X-Key": "CANARY"}, "n": 12},
    "b": {
      "args": ["--token", "CANARY", "--flag"],
      "env": {"TOKEN": "CANARY"}
    }
  }
}"""


@given(json_values)
def test_plain_json_is_read_as_json_reads_it(value: object) -> None:
    assert parse_jsonc(json.dumps(value, indent=1)).value == value


@given(json_values)
def test_comments_and_trailing_commas_change_nothing(value: object) -> None:
    text = json.dumps({"v": value, "w": "// /* , ] */"}, indent=1)
    decorated = f"/* a\n * b */ {text[:-2]}, // c ,\n /* d */ }} // e"

    assert parse_jsonc(decorated).value == {"v": value, "w": "// /* , ] */"}


def test_a_repeated_key_is_noticed() -> None:
    document = parse_jsonc('{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}')

    assert document.value == {"a": 3, "b": {"c": 2}}
    assert document.repeated_keys == ("c", "a")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32-be"])
def test_text_is_decoded_without_its_byte_order_mark(encoding: str) -> None:
    assert decode_text('{"é": 1}'.encode(encoding)) == '{"é": 1}'


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3),
        ('{ // comment\n  "a": tru\n}', 2, 8),
        ('{"a": /* one\ntwo */ "b\n"}', 2, 10),
        ("{} {}", 1, 4),
        ("[" * 100_000, 1, 1),
        (f'{{"a": {"1" * 5000}}}', 1, 1),
    ],
)
def test_a_syntax_error_knows_its_line_and_column(text: str, line: int, column: int) -> None:
    with pytest.raises(JsonSyntaxError) as caught:
        parse_jsonc(text)

    assert (caught.value.line, caught.value.column) == (line, column)


@given(st.integers(0, len(DOCUMENT) - 1), st.sampled_from(["", '"', ",", "{", "}", "[", "]", "\n"]))
def test_a_syntax_error_never_shows_a_value(position: int, slip: str) -> None:
    broken = DOCUMENT[:position] + slip + DOCUMENT[position + 1 :]

    shown = ""
    try:
        parse_jsonc(broken)
    except JsonSyntaxError as error:
        shown = error.shown + str(error)
    assert "CANA" not in shown
    assert "NARY" not in shown


@pytest.mark.parametrize(
    "text",
    [
        '"\\' * 40_000,
        "/* " * 40_000,
        '{"a": ' + '"x\n' * 40_000,
        "{" + ",".join(f'"a{number}":1,"a{number}":2' for number in range(10_000)) + "}",
    ],
    ids=["quotes", "comments", "lines", "repeated keys"],
)
def test_no_text_takes_quadratic_time(text: str) -> None:
    began = time.thread_time()
    with suppress(JsonSyntaxError):
        parse_jsonc(text)
    assert time.thread_time() - began < 1
