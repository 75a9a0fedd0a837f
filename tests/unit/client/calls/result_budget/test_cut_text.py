"""A text keeps its head and its tail, within its bytes."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from plait.client.calls.result_budget.cut import (
    CutNote,
    cut_text,
    head_of,
    size_of_text,
    tail_of,
)

MARK = CutNote("r_abcdefghijklmnop", "read_more")
LINE = re.compile(
    r"\n\[… (\d+) of (\d+) characters are left out here; to read on: "
    r'read_more\(handle="r_abcdefghijklmnop", start=(\d+)\) …\]\n'
)
pieces = st.text(max_size=30) | st.sampled_from(["a", "é", "語", "🎈", "\n", "\ud800"])
texts = st.builds(lambda piece, times: piece * times, pieces, st.integers(0, 200))


@given(texts, st.integers(200, 2000))
def test_head_and_tail_are_those_of_the_text_and_the_line_counts_right(
    text: str, allowed: int
) -> None:
    shorter = cut_text(text, allowed, MARK)

    assert shorter is not None
    assert size_of_text(shorter) <= allowed
    if size_of_text(text) <= allowed:
        assert shorter == text
        return
    found = LINE.search(shorter)
    assert found is not None
    left, total, start = map(int, found.groups())
    head, tail = shorter[: found.start()], shorter[found.end() :]
    assert (total, start) == (len(text), len(head))
    assert text == head + text[start : start + left] + tail


def test_a_cut_is_made_between_lines() -> None:
    text = "".join(f"line {number}\n" for number in range(1000))

    shorter = cut_text(text, 1000, MARK)

    assert shorter is not None
    assert {line for line in shorter.splitlines() if line and "left out" not in line} <= {
        f"line {number}" for number in range(1000)
    }
    assert shorter.startswith("line 0\n")
    assert shorter.endswith("line 999\n")


def test_where_the_line_does_not_fit_there_is_no_text() -> None:
    assert cut_text("x" * 1000, 50, MARK) is None


@given(texts, st.integers(0, 500))
def test_heads_and_tails_hold_as_many_characters_as_fit(text: str, allowed: int) -> None:
    head, tail = head_of(text, allowed), tail_of(text, allowed)

    assert text.startswith(head)
    assert text.endswith(tail)
    assert size_of_text(head) <= allowed
    assert size_of_text(tail) <= allowed
    if len(head) < len(text):
        assert size_of_text(text[: len(head) + 1]) > allowed
        assert size_of_text(text[len(text) - len(tail) - 1 :]) > allowed
