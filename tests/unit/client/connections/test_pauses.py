"""Pauses between attempts double, have an upper bound, and leave a bounded part to chance."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.client.config.servers import ReconnectPolicy

policies = st.builds(
    ReconnectPolicy,
    max_attempts=st.integers(1, 12),
    first_delay_seconds=st.floats(0.001, 100),
    longest_delay_seconds=st.floats(0.001, 1000),
    jitter=st.floats(0, 1),
)
chances = st.floats(0, 1, exclude_max=True)


def _exact(policy: ReconnectPolicy, doublings: int) -> float:
    return policy.delay_seconds(doublings, lambda: 0.0)


@given(policies, st.integers(0, 5000), chances)
def test_a_pause_is_never_longer_than_the_longest_nor_below_the_jitter(
    policy: ReconnectPolicy, doublings: int, chance: float
) -> None:
    pause = policy.delay_seconds(doublings, lambda: chance)

    assert 0 <= pause <= policy.longest_delay_seconds
    assert pause <= _exact(policy, doublings)
    assert pause >= _exact(policy, doublings) * (1 - policy.jitter) * (1 - 1e-9)


@given(policies, st.integers(0, 30))
def test_pauses_double_up_to_the_longest(policy: ReconnectPolicy, doublings: int) -> None:
    next_one = _exact(policy, doublings + 1)

    assert math.isclose(next_one, min(2 * _exact(policy, doublings), policy.longest_delay_seconds))


def test_the_pauses_by_default_even_in_an_outage_of_days() -> None:
    pauses = [_exact(ReconnectPolicy(), doublings) for doublings in (-1, *range(8), 10**9)]

    assert pauses == [0.5, 0.5, 1, 2, 4, 8, 16, 32, 60, 60]


@given(policies, chances)
def test_one_outage_has_one_pause_less_than_attempts(
    policy: ReconnectPolicy, chance: float
) -> None:
    pauses = list(policy.delays(lambda: chance))

    assert pauses == [
        policy.delay_seconds(doublings, lambda: chance)
        for doublings in range((policy.max_attempts or 0) - 1)
    ]


@pytest.mark.parametrize(("jitter", "shortest"), [(0.0, 8.0), (0.3, 5.6), (1.0, 0.0)])
def test_jitter_only_shortens(jitter: float, shortest: float) -> None:
    policy = ReconnectPolicy(jitter=jitter, first_delay_seconds=8.0)

    assert policy.delay_seconds(0, lambda: 0.0) == 8.0
    assert math.isclose(policy.delay_seconds(0, lambda: 1.0), shortest)


def test_chance_is_drawn_afresh_for_each_pause() -> None:
    draws = iter([0.0, 0.5])
    policy = ReconnectPolicy(jitter=1.0)

    assert list(policy.delays(lambda: next(draws))) == [0.5, 0.5]


def test_two_clients_do_not_pause_for_the_same_time() -> None:
    policy = ReconnectPolicy()

    assert len({policy.delay_seconds(1) for _ in range(20)}) > 1
