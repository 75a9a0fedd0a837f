"""The verdict of a soak names every promise that was broken."""

from __future__ import annotations

from dataclasses import replace

from tests.soak.records import Outage, Record, judge

GOOD = Record("threads", "http", "write", "q1", 0.0, 0.1, "write:q1")


def problems(record: Record, ran: dict[str, int]) -> list[str]:
    return judge([record], ran, [], spend_seconds=10, bound_seconds=20).problems


def test_an_answer_that_is_in_the_ledger_once_is_fine() -> None:
    assert problems(GOOD, {"q1": 1}) == []


def test_an_answer_to_another_question_is_found() -> None:
    assert "got the answer" in problems(replace(GOOD, text="write:q2"), {"q1": 1})[0]


def test_a_call_that_ran_twice_is_found() -> None:
    assert any("ran 2 times" in one for one in problems(GOOD, {"q1": 2}))


def test_an_acknowledged_call_that_is_missing_is_found() -> None:
    assert any("not in the ledger" in one for one in problems(GOOD, {}))


def test_a_call_that_ran_though_it_was_not_sent_is_found() -> None:
    failed = replace(GOOD, text=None, error="ConnectError")

    assert problems(failed, {}) == []
    assert any("says that it did not" in one for one in problems(failed, {"q1": 1}))


def test_a_call_that_outlives_its_bound_is_found() -> None:
    assert any("took 21.0 s" in one for one in problems(replace(GOOD, seconds=21.0), {"q1": 1}))


def test_only_calls_are_owed_an_answer_whose_server_was_back_in_time() -> None:
    lost = replace(GOOD, text=None, error="ConnectError")
    early, late = Outage("http", 0, 7), Outage("http", 0, 9)

    for outages, owed in (([early], 1), ([late], 0), ([Outage("sse", 0, 9)], 1)):
        verdict = judge([lost], {}, outages, spend_seconds=10, bound_seconds=20)
        assert (verdict.owed, verdict.owed_and_answered) == (owed, 0)
