"""Finding the cause in a tree of exceptions, and folding texts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait._support.exception_groups import first_cause, leaves, one_line


def _nested(error: BaseException, depth: int) -> BaseException:
    for _ in range(depth):
        error = BaseExceptionGroup("unhandled errors in a TaskGroup", [error])
    return error


ONE, TWO, THREE, ENDED = ValueError("1"), KeyError("2"), OSError("3"), asyncio.CancelledError()


@pytest.mark.parametrize(
    ("error", "found", "cause"),
    [
        (ONE, [ONE], ONE),
        (
            BaseExceptionGroup("outer", [_nested(ONE, 3), ExceptionGroup("in", [TWO, THREE])]),
            [ONE, TWO, THREE],
            ONE,
        ),
        # A cancellation is no cause while there is another.
        (BaseExceptionGroup("g", [ENDED, _nested(TWO, 2)]), [ENDED, TWO], TWO),
        (_nested(ENDED, 2), [ENDED], ENDED),
    ],
)
def test_leaves_come_in_order_from_any_depth(
    error: BaseException, found: list[BaseException], cause: BaseException
) -> None:
    assert list(leaves(error)) == found
    assert first_cause(error) is cause


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
