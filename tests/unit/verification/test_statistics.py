"""The statistics agree with those of scipy."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest
from scipy import stats

from plait.verification.statistics import (
    cohen_kappa,
    fisher_p_value,
    mcnemar_p_value,
    paired_difference,
    pass_at_k,
    pass_hat_k,
    wilson_interval,
)


def test_a_thousand_tables_have_the_intervals_and_p_values_of_scipy() -> None:
    chance = random.Random(7)
    for _ in range(1000):
        total = chance.randint(1, 400)
        passed = chance.randint(0, total)
        confidence = chance.choice([0.8, 0.9, 0.95, 0.99])
        expected = stats.binomtest(passed, total).proportion_ci(confidence, method="wilson")
        interval = wilson_interval(passed, total, confidence)
        assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))

        b, c = chance.randint(0, 60), chance.randint(0, 60)
        if b + c:
            assert mcnemar_p_value(b, c) == pytest.approx(stats.binomtest(b, b + c).pvalue)

        before, after = chance.randint(1, 40), chance.randint(1, 40)
        passed_before, passed_after = chance.randint(0, before), chance.randint(0, after)
        table = [[passed_after, after - passed_after], [passed_before, before - passed_before]]
        fisher: Any = stats.fisher_exact(table, alternative="less")
        found = fisher_p_value(passed_before, before, passed_after, after)
        assert found == pytest.approx(fisher[1], rel=1e-9)


def test_a_thousand_paired_runs_have_the_differences_of_scipy() -> None:
    chance = random.Random(11)
    for _ in range(1000):
        count = chance.randint(2, 60)
        first = [chance.random() for _ in range(count)]
        second = [min(1.0, score + chance.gauss(0.05, 0.2)) for score in first]
        result = stats.ttest_rel(second, first)
        interval = result.confidence_interval(0.95)
        found = paired_difference(first, second)
        assert found.p_value == pytest.approx(result.pvalue, rel=1e-9, abs=1e-15)
        assert (found.interval.low, found.interval.high) == pytest.approx(
            (interval.low, interval.high), rel=1e-9, abs=1e-12
        )


def test_without_changes_nothing_is_significant_and_equal_differences_prove_little() -> None:
    assert mcnemar_p_value(0, 0) == paired_difference([1, 0, 1], [1, 0, 1]).p_value == 1.0
    assert wilson_interval(0, 0).high == 1.0
    same = paired_difference([1.0] * 8, [1.0] * 8)
    assert (same.mean, same.p_value) == (0.0, 1.0)
    assert same.interval.high == -same.interval.low == pytest.approx(wilson_interval(0, 8).high)
    # Five cases that turn one way are not beyond chance; of twenty, six must.
    assert paired_difference([1.0] * 5, [1.0] * 5).detectable == 1.0
    share = paired_difference([1.0] * 20, [1.0] * 20).detectable
    assert stats.binom(20, share).sf(5) == pytest.approx(0.8)
    # Equal but for the last bit: 2/3 - 1 and 1/3 - 2/3.
    worse = paired_difference([1.0, 2 / 3], [2 / 3, 1 / 3])
    assert worse.p_value == mcnemar_p_value(2, 0) == 0.5
    assert worse.interval.low < -1 / 3 < worse.interval.high


def test_the_smallest_effect_would_be_found_in_four_of_five_suites() -> None:
    chance = random.Random(3)
    found = 0
    for _ in range(400):
        first = [chance.gauss(0.5, 0.1) for _ in range(40)]
        noise = [chance.gauss(0, 0.2) for _ in first]
        detectable = paired_difference(first, [a + b for a, b in zip(first, noise, strict=True)])
        shifted = [a + chance.gauss(detectable.detectable, 0.2) for a in first]
        found += paired_difference(first, shifted).p_value < 0.05
    assert 0.72 < found / 400 < 0.88


@pytest.mark.parametrize(("total", "passed", "k"), [(5, 3, 1), (5, 3, 2), (8, 2, 4), (4, 4, 4)])
def test_passes_of_k_are_the_shares_of_all_choices(total: int, passed: int, k: int) -> None:
    results = [True] * passed + [False] * (total - passed)
    chosen = list(combinations(results, k))
    assert pass_at_k(total, passed, k) == pytest.approx(sum(map(any, chosen)) / len(chosen))
    assert pass_hat_k(total, passed, k) == pytest.approx(sum(map(all, chosen)) / len(chosen))
    for estimate in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match=f"from 1 to the {total} attempts"):
            estimate(total, passed, total + 1)


def test_agreement_is_measured_beyond_chance() -> None:
    assert cohen_kappa("yyyynnnn", "yyyynnnn") == 1.0
    assert cohen_kappa("yynn", "ynyn") == 0.0
    first, second = "y" * 25 + "n" * 25, "y" * 20 + "n" * 5 + "y" * 10 + "n" * 15
    assert cohen_kappa(first, second) == pytest.approx(0.4)
