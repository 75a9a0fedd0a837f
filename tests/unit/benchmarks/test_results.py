"""Percentiles and ratios of benchmark results."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.compare.results import Ratio, Results, Summary, percentile

samples = st.lists(st.floats(0.001, 1000), min_size=1, max_size=50)


def add(
    results: Results, contender: str, round_: int, *samples: float, cpu: float | None = None
) -> None:
    results.add(contender, round_, {"row": {"samples": list(samples), "cpu": cpu}})


@given(samples, st.floats(0, 1))
def test_a_percentile_is_a_sample_that_enough_samples_do_not_exceed(
    values: list[float], share: float
) -> None:
    found = percentile(values, share)

    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)


def test_percentiles_of_a_hundred_samples_are_their_ranks() -> None:
    values = [float(number) for number in range(100, 0, -1)]

    assert [percentile(values, share) for share in (0, 0.5, 0.99, 1)] == [1, 50, 99, 100]


def test_a_ratio_is_the_median_of_the_ratios_within_rounds() -> None:
    results = Results()
    for number, slowdown in enumerate([1, 10, 3]):
        add(results, "limit", number, 2.0 * slowdown, cpu=1.0 * slowdown)
        add(results, "plait", number, 5.0 * slowdown, cpu=4.0 * slowdown)

    assert results.ratio("plait", "limit", "row") == Ratio(wall=2.5, cpu=4.0)


def test_rounds_that_only_one_of_two_was_in_are_not_compared() -> None:
    results = Results()
    add(results, "limit", 0, 1.0)
    add(results, "plait", 0, 3.0)
    add(results, "plait", 1, 100.0)

    assert results.ratio("plait", "limit", "row") == Ratio(wall=3.0, cpu=None)


def test_nothing_is_divided_by_zero() -> None:
    results = Results()
    add(results, "node", 0, 0.0, cpu=0.0)
    add(results, "plait", 0, 3.0, cpu=1.0)

    assert results.ratio("plait", "node", "row") == Ratio(wall=None, cpu=None)
    assert results.cpu_ratio_of_best("plait", "node", "row") is None


def test_a_summary_pools_the_samples_of_all_rounds() -> None:
    results = Results()
    add(results, "plait", 0, 1.0, 2.0, cpu=0.5)
    add(results, "plait", 1, 3.0, 4.0, 5.0, cpu=1.5)

    assert results.summary("plait", "row") == Summary(p50=3.0, p99=5.0, cpu=1.0)
    assert results.summary("limit", "row") is None


def test_the_best_rounds_are_compared_by_their_cpu() -> None:
    results = Results()
    add(results, "mcp", 0, 1.0, cpu=2.0)
    add(results, "mcp", 1, 1.0, cpu=9.0)
    add(results, "plait", 0, 1.0, cpu=30.0)
    add(results, "plait", 1, 1.0, cpu=3.0)

    assert results.cpu_ratio_of_best("plait", "mcp", "row") == 1.5


def test_a_lost_connection_has_a_reason_and_no_number() -> None:
    results = Results()
    results.add("mcp", 0, {"heal": {"samples": [], "cpu": None, "lost": "Connection closed"}})

    assert results.lost == {("mcp", "heal")}
    assert results.dashes == {("mcp", "heal"): "Connection closed"}
    assert results.summary("mcp", "heal") is None


def test_results_can_be_written_as_json() -> None:
    results = Results()
    add(results, "plait", 0, 1.0, cpu=0.5)
    results.dashes["mcp", "row"] = "cannot"

    written = json.loads(json.dumps(results.to_json()))

    assert written["visits"] == [
        {"contender": "plait", "row": "row", "round": 0, "samples": [1.0], "cpu": 0.5}
    ]
    assert written["dashes"] == [{"contender": "mcp", "row": "row", "reason": "cannot"}]
