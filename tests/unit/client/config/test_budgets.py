"""Budgets are read from everything that says how much."""

from __future__ import annotations

from typing import Any

import pytest

from plait import ConfigError, read_config
from plait.client import CallBudget, Limit, ResultBudget
from plait.client.config.budgets import NO_LIMIT, IncomingLimits, limit_for
from plait.client.config.read import read_options


@pytest.mark.parametrize(
    ("written", "budget"),
    [
        (20_000, ResultBudget(default=Limit(tokens=20_000))),
        ({"tokens": 20_000}, ResultBudget(default=Limit(tokens=20_000))),
        ({"bytes": 80_000}, ResultBudget(default=Limit(bytes=80_000))),
        ("200kB", ResultBudget(default=Limit(bytes=200_000))),
        ({"bytes": "1.5 MB"}, ResultBudget(default=Limit(bytes=1_500_000))),
        (
            {"tokens": 5000, "bytes": "1MB"},
            ResultBudget(default=Limit(tokens=5000, bytes=1_000_000)),
        ),
        (False, ResultBudget(default=NO_LIMIT)),
        (
            {
                "default": 9000,
                "tools": {"s/log*": "1MB", "free": False, "t": {"tokens": 300}},
                "keep_seconds": 60,
                "keepBytes": "1GB",
            },
            ResultBudget(
                default=Limit(tokens=9000),
                tools={"s/log*": Limit(bytes=1_000_000), "free": NO_LIMIT, "t": Limit(tokens=300)},
                keep_seconds=60,
                keep_bytes=1_000_000_000,
            ),
        ),
        (Limit(tokens=500), ResultBudget(default=Limit(tokens=500))),
        (ResultBudget(keep_seconds=1), ResultBudget(keep_seconds=1)),
        (50, CallBudget(calls=50)),
        ({"tools": {"pay": 0}}, CallBudget(tools={"pay": 0})),
        (CallBudget(calls=1), CallBudget(calls=1)),
    ],
)
def test_a_budget_may_be_written_in_many_ways(
    written: Any, budget: ResultBudget | CallBudget
) -> None:
    option = "call_budget" if isinstance(budget, CallBudget) else "result_budget"

    assert read_options({option: written}) == {option: budget}


@pytest.mark.parametrize(
    ("written", "path"),
    [
        (20, "result_budget"),
        (1.5, "result_budget"),
        (True, "result_budget"),
        ("much", "result_budget"),
        ({"token": 5000}, "result_budget.token"),
        ({"tools": {"a": 1}}, "result_budget.tools.a"),
        ({"tools": 5}, "result_budget.tools"),
        ({"bytes": "2 bananas"}, "result_budget.bytes"),
        *((-1, "call_budget"), ("many", "call_budget"), ({"calls": 1.5}, "call_budget.calls")),
        ({"tools": {"a": -1}}, "call_budget.tools.a"),
    ],
)
def test_what_makes_no_sense_is_refused(written: Any, path: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_options({path.partition(".")[0]: written})

    assert [problem.path for problem in refused.value.problems] == [path]


def test_servers_in_files_may_have_their_own() -> None:
    config = read_config(
        {
            "mcpServers": {"s": {"command": "s", "resultBudget": {"bytes": "50kB"}}},
            "resultBudget": 9000,
            "callBudget": {"calls": 50, "tools": {"s/pay*": 1}},
        }
    )

    assert config.servers["s"].result_budget == ResultBudget(default=Limit(bytes=50_000))
    assert config.options == {
        "result_budget": ResultBudget(default=Limit(tokens=9000)),
        "call_budget": CallBudget(calls=50, tools={"s/pay*": 1}),
    }


def test_the_most_specific_limit_counts() -> None:
    own = ResultBudget(tools={"a": Limit(tokens=1)})
    common = ResultBudget(default=Limit(tokens=2), tools={"s/b": Limit(tokens=3), "?": NO_LIMIT})

    assert limit_for("s", "a", own, common) == Limit(tokens=1)
    assert limit_for("s", "b", own, common) == Limit(tokens=3)
    assert limit_for("s", "c", own, common) is None
    assert limit_for("s", "long", own, common) == Limit(tokens=2)
    assert limit_for("s", "long", ResultBudget(default=NO_LIMIT), common) is None
    assert limit_for("s", "long", None, None) is None


def test_what_comes_in_is_bounded_by_default() -> None:
    limits = IncomingLimits()

    assert (limits.message_bytes, limits.values) == (32_000_000, 500_000)
