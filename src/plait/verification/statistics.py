"""Intervals, tests and agreement for pass rates, without a dependency."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, fmean, stdev

CONFIDENCE = 0.95
POWER = 0.8
"""The chance with which the smallest detectable effect would be found."""

_NORMAL = NormalDist()
_HALVINGS = 64
"""A bisection has found all bits of a number after so many."""
_ROUNDING = 1e-12
"""Differences of scores that are smaller are rounding: 1 - 2/3 is not quite 2/3 - 1/3."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float


def wilson_interval(passed: int, total: int, confidence: float = CONFIDENCE) -> Interval:
    """Return the Wilson interval of a pass rate; without trials it is everything."""
    if total == 0:
        return Interval(0.0, 1.0)
    z = _NORMAL.inv_cdf((1 + confidence) / 2)
    rate = passed / total
    scale = 1 + z * z / total
    middle = (rate + z * z / (2 * total)) / scale
    half = z / scale * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total))
    low = 0.0 if passed == 0 else max(0.0, middle - half)
    return Interval(low, 1.0 if passed == total else min(1.0, middle + half))


def pass_at_k(total: int, passed: int, k: int) -> float:
    """Estimate the chance that at least one of k attempts passes, without bias."""
    if not 1 <= k <= total:
        raise ValueError(f"k is {k}: it must be from 1 to the {total} attempts")
    return 1.0 - math.comb(total - passed, k) / math.comb(total, k)


def pass_hat_k(total: int, passed: int, k: int) -> float:
    """Estimate the chance that all of k attempts pass (pass^k), without bias."""
    if not 1 <= k <= total:
        raise ValueError(f"k is {k}: it must be from 1 to the {total} attempts")
    return math.comb(passed, k) / math.comb(total, k)


def mcnemar_p_value(only_first: int, only_second: int) -> float:
    """Return the exact two-sided p-value of McNemar's test.

    Takes the numbers of cases that only the first, and only the second run passed.
    """
    changed = only_first + only_second
    tail = sum(math.comb(changed, k) for k in range(min(only_first, only_second) + 1))
    # Whole numbers: 2**changed has no float for long runs.
    return min(1.0, 2 * tail / 2**changed)


def fisher_p_value(passed_before: int, before: int, passed_after: int, after: int) -> float:
    """Return the chance, by Fisher's exact test, of so few passes after, if nothing changed."""
    passed, total = passed_before + passed_after, before + after
    ways = sum(
        math.comb(after, k) * math.comb(before, passed - k)
        for k in range(max(0, passed - before), passed_after + 1)
    )
    return ways / math.comb(total, passed)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """How much two runs differ on the same cases."""

    mean: float
    """The mean of second minus first."""
    interval: Interval
    p_value: float
    detectable: float
    """The smallest difference that this many cases would show, with a power of 80 %."""


def paired_difference(
    first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE
) -> PairedDifference:
    """Compare the scores of the same cases with a paired t-test; it takes at least two cases."""
    differences = [after - before for before, after in zip(first, second, strict=True)]
    count = len(differences)
    mean = fmean(differences)
    error = stdev(differences) / math.sqrt(count)
    freedom = count - 1
    if error < _ROUNDING:
        return _equal_differences(mean, count, confidence)
    quantile = t_quantile((1 + confidence) / 2, freedom)
    interval = Interval(mean - quantile * error, mean + quantile * error)
    p_value = 2 * t_tail(abs(mean / error), freedom)
    detectable = (quantile + _NORMAL.inv_cdf(POWER)) * error
    return PairedDifference(mean, interval, p_value, detectable)


def _equal_differences(mean: float, count: int, confidence: float) -> PairedDifference:
    """Return what equal differences show: they have no spread, from which a t-test could infer.

    The share of cases that differ otherwise is bounded by their number, and so is the mean.
    """
    others = wilson_interval(0, count, confidence).high
    middle = mean * (1 - others)
    interval = Interval(max(-1.0, middle - others), min(1.0, middle + others))
    p_value = 1.0 if abs(mean) < _ROUNDING else mcnemar_p_value(count, 0)
    return PairedDifference(mean, interval, p_value, _detectable_change(count, 1 - confidence))


def _detectable_change(count: int, significance: float) -> float:
    """Return the smallest chance of a change that McNemar's test would find in so many cases."""
    needed = next(n for n in itertools.count(1) if mcnemar_p_value(n, 0) < significance)
    if count < needed:
        return 1.0

    def is_missed(share: float) -> bool:
        fewer = sum(
            math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(needed)
        )
        return 1 - fewer < POWER

    return _crossing(is_missed, 0.0, 1.0)


def _crossing(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return where a condition that holds at `low`, and not at `high`, ceases to hold."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high


def t_tail(value: float, freedom: int) -> float:
    """Return the chance that Student's t is above a value that is not negative."""
    # The finite sum for whole degrees of freedom: Abramowitz and Stegun, 26.7.3 and 26.7.4.
    angle = math.atan(value / math.sqrt(freedom))
    odd = freedom % 2
    term, total = math.cos(angle) if odd else 1.0, 0.0
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (power + 1) / (power + 2)
    within = math.sin(angle) * total
    within = 2 / math.pi * (angle + within) if odd else within
    return max(0.0, (1 - within) / 2)


@cache
def t_quantile(chance: float, freedom: int) -> float:
    """Return the value that Student's t is below with this chance, above one half."""
    high = 1.0
    while t_tail(high, freedom) > 1 - chance:
        high *= 2
    return _crossing(lambda value: t_tail(value, freedom) > 1 - chance, 0.0, high)


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Return how much two judges agree beyond chance: 1 is always, 0 as often as by chance."""
    total = len(first)
    if total == 0:
        raise ValueError("there are no labels to compare")
    agreed = sum(a == b for a, b in zip(first, second, strict=True)) / total
    mine, theirs = Counter(first), Counter(second)
    by_chance = sum(mine[label] * theirs[label] for label in mine) / (total * total)
    return 1.0 if by_chance == 1 else (agreed - by_chance) / (1 - by_chance)
