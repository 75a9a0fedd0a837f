"""Finding the cause in a tree of exceptions, and folding texts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from plait._support.exception_groups import first_cause, leaves, one_line


def _nested(error: BaseException, depth: int) -> BaseException:
    for _ in range(depth):
        error = BaseExceptionGroup("unhandled errors in a TaskGroup", [error])
    return error


def test_a_plain_exception_is_its_own_leaf() -> None:
    error = ValueError("no")

    assert list(leaves(error)) == [error]
    assert first_cause(error) is error


def test_leaves_come_in_order_from_any_depth() -> None:
    one, two, three = ValueError("1"), KeyError("2"), OSError("3")
    group = BaseExceptionGroup("outer", [_nested(one, 3), ExceptionGroup("in", [two, three])])

    assert list(leaves(group)) == [one, two, three]


def test_a_cancellation_is_no_cause_while_there_is_another() -> None:
    real = ConnectionError("gone")
    group = BaseExceptionGroup("g", [asyncio.CancelledError(), _nested(real, 2)])

    assert first_cause(group) is real


def test_a_cancellation_alone_is_the_cause() -> None:
    cancelled = asyncio.CancelledError()

    assert first_cause(_nested(cancelled, 2)) is cancelled


@given(st.integers(0, 40), st.sampled_from([ValueError, OSError, asyncio.CancelledError]))
def test_the_cause_is_never_a_group(depth: int, kind: Callable[[str], BaseException]) -> None:
    assert not isinstance(first_cause(_nested(kind("x"), depth)), BaseExceptionGroup)


def test_white_space_is_folded_and_nothing_else_changes() -> None:
    assert one_line("  a\r\n\tb   c\n") == "a b c"
    assert one_line("short") == "short"


@given(st.text(), st.integers(1, 300))
def test_a_folded_text_is_one_line_within_its_limit(text: str, limit: int) -> None:
    folded = one_line(text, limit)

    assert len(folded) <= limit
    assert len(folded.splitlines()) <= 1


@given(st.text())
def test_folding_twice_changes_nothing(text: str) -> None:
    assert one_line(one_line(text)) == one_line(text)
