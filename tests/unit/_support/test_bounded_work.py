"""Work with schemas ends with the time that it has, and patterns of servers never take long."""

from __future__ import annotations

import asyncio
import random
import threading
import time

import pytest

from plait._support.bounded_work import (
    TooMuchWorkError,
    can_search,
    found,
    in_bounded_time,
    take_step,
)


@pytest.mark.anyio
async def test_work_in_a_thread_is_given_up_when_the_time_of_its_call_is_over() -> None:
    over = threading.Event()

    def work() -> None:
        if threading.current_thread() is not threading.main_thread():
            over.wait(30)  # as if the machine had no time for it
        while True:
            take_step()

    try:
        with pytest.raises(TooMuchWorkError, match="no time left"):
            await in_bounded_time(work, 0.01)
    finally:
        over.set()


@pytest.mark.anyio
async def test_work_in_a_thread_ends_itself_when_the_time_of_its_call_is_over() -> None:
    ended = threading.Event()
    used: list[float] = []

    def work() -> None:
        began = time.thread_time()
        try:
            while True:
                take_step()
        except TooMuchWorkError:
            used.append(time.thread_time() - began)
            if len(used) == 2:
                ended.set()
            raise

    with pytest.raises(TooMuchWorkError):
        await in_bounded_time(work, 0.05)
    await asyncio.to_thread(ended.wait, 30)

    assert used[1] < 0.3


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
