"""A run makes as many calls as it may, and no more."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from plait.client import run_budget
from plait.client.calls.call_budget import RunCounters
from plait.client.calls.tool_call import RunIdentity, ToolCall
from plait.client.config.budgets import CallBudget
from plait.errors import BudgetExceededError, InputNeededError


def call(tool: str = "t", run: object = None, *, server: str = "s", **mark: Any) -> ToolCall:
    return ToolCall(server=server, tool=tool, run=RunIdentity(key=run, **mark))  # pyright: ignore[reportArgumentType]


def made(counters: RunCounters, one: ToolCall) -> bool:
    """Make a call, and say whether it was made."""
    reached = False
    try:
        with counters.counted(one):
            reached = True
    except BudgetExceededError:
        assert not reached
    return reached


def test_a_run_may_make_so_many_calls_and_the_next_run_again() -> None:
    counters = RunCounters(CallBudget(calls=2))

    assert [made(counters, call(run="1")) for _ in range(3)] == [True, True, False]
    assert made(counters, call(run="2"))


def test_tools_are_counted_by_pattern() -> None:
    counters = RunCounters(CallBudget(calls=4, tools={"bank/pay*": 1, "never": 0}))

    assert not made(counters, call("never", "1"))
    assert made(counters, call("pay_bill", "1", server="bank"))
    assert not made(counters, call("pay_rent", "1", server="bank"))
    assert made(counters, call("pay_bill", "1", server="shop"))
    assert [made(counters, call("t", "1")) for _ in range(3)] == [True, True, False]


def test_a_call_that_is_refused_counts_nowhere() -> None:
    counters = RunCounters(CallBudget(calls=1, tools={"a": 0}))

    with run_budget(1):
        assert not made(counters, call("a", "1"))
        assert made(counters, call("b", "1"))
        assert not made(counters, call("b", "1"))


def test_the_error_says_what_is_used_up() -> None:
    counters = RunCounters(CallBudget(tools={"s/*": 0}))

    with (
        pytest.raises(
            BudgetExceededError, match=r"s/t: .*at most 0 of s/\*.*nothing was sent"
        ) as hit,
        counters.counted(call(run="1")),
    ):
        pass
    assert (hit.value.server, hit.value.tool) == ("s", "t")
    assert (hit.value.retryable, hit.value.retry) == (False, "never")


def test_a_call_that_belongs_to_no_run_is_a_run_of_its_own() -> None:
    counters = RunCounters(CallBudget(calls=1, tools={"never": 0}))

    assert made(counters, call())
    assert made(counters, call())
    assert not made(counters, call("never"))


def test_a_block_is_a_run_and_has_a_budget_of_its_own() -> None:
    counters, others = RunCounters(CallBudget(calls=2)), RunCounters(None)

    with run_budget():
        assert [made(counters, call()) for _ in range(3)] == [True, True, False]
        assert made(others, call())
    with run_budget(2, tools={"pay": 1}):
        assert made(counters, call("pay"))
        assert not made(others, call("pay"))
        assert made(others, call())
        assert not made(counters, call())
    assert made(counters, call())


def test_blocks_count_inside_each_other() -> None:
    counters = RunCounters(None)

    with run_budget(2):
        with run_budget(1):
            assert [made(counters, call()) for _ in range(2)] == [True, False]
        assert [made(counters, call()) for _ in range(2)] == [True, False]


def test_a_call_that_waits_for_an_answer_counts_once_when_it_goes_on() -> None:
    counters = RunCounters(CallBudget(calls=1))

    with pytest.raises(InputNeededError), counters.counted(call(run="1")):
        raise InputNeededError
    assert [made(counters, call(run="1")) for _ in range(2)] == [True, False]


def test_a_call_that_fails_counts() -> None:
    counters = RunCounters(CallBudget(calls=1))

    with pytest.raises(ValueError, match="no"), counters.counted(call(run="1")):
        raise ValueError("no")
    assert not made(counters, call(run="1"))


def test_a_run_that_goes_on_has_what_is_left() -> None:
    counters = RunCounters(CallBudget(calls=2))

    assert made(counters, call(run="1", thread="a"))
    assert made(counters, call(run="2", thread="a", resumed=True))
    assert not made(counters, call(run="3", thread="a", resumed=True))
    assert made(counters, call(run="4", thread="b", resumed=True))
    assert made(counters, call(run="5", thread="a"))


def test_a_run_that_was_started_with_the_same_is_the_same() -> None:
    counters = RunCounters(CallBudget(calls=1))

    assert made(counters, call(run="1", thread="a", turn="question"))
    assert not made(counters, call(run="2", thread="a", turn="question"))
    assert made(counters, call(run="3", thread="b", turn="question"))
    assert made(counters, call(run="4", thread="a", turn="another"))
    assert made(counters, call(run="5", turn="question"))


def test_calls_of_many_threads_are_counted_exactly() -> None:
    counters = RunCounters(CallBudget(calls=50))
    results: list[bool] = []

    def work() -> None:
        results.extend(made(counters, call(run="1")) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results.count(True) == 50
