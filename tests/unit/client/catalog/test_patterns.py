"""Patterns of servers: what they find, what is unknown, and that nothing takes long."""

from __future__ import annotations

import random
import time

import pytest

from plait.client.catalog.patterns import can_search, found


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^(a+)+$", "a" * 28 + "!", False),
        (r"^\d{4}-\d\d$", "2026-11", True),
        (r"^[\w.-]+\/x$", "a.b/x", True),
        (r"^\u0041\u{1F600}$", "A\U0001f600", True),
        (r"^\\u0041$", r"\u0041", True),
        (r"^\p{L}+$", "é", True),
        ("^a$", "a\n", False),
        ("(?=a)b", "b", None),
        (r"(a)\1", "aa", None),
        ("(", "(", None),
        ("a", "\ud800", None),
        ("(x{900}){900}", "x", None),
        ("a" * 5_000, "a", None),
    ],
)
def test_a_pattern_is_found_or_not_or_unknown(
    pattern: str, text: str, expected: bool | None
) -> None:
    assert found(pattern, text) is expected


def test_a_pattern_that_cannot_be_searched_with_says_so_without_output(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert not can_search("(?!a)")
    assert can_search("a")
    assert capfd.readouterr() == ("", "")


def test_large_patterns_on_long_texts_are_unknown_instead_of_slow() -> None:
    text = "".join(random.Random(1).choices("ab", k=200_000))
    began = time.thread_time()
    assert found("(a|b)*a(a|b){900}c$", text) is None
    assert time.thread_time() - began < 0.1
