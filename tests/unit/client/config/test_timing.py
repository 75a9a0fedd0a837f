"""Pauses between attempts grow, and stay within their bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plait.client.config.servers import ReconnectPolicy

policies = st.builds(
    ReconnectPolicy,
    max_attempts=st.integers(1, 20),
    first_delay_seconds=st.floats(0, 100),
    longest_delay_seconds=st.floats(0.1, 1000),
    jitter=st.floats(0, 1),
)
chances = st.floats(0, 1, exclude_max=True)


@given(policies, chances)
def test_there_is_one_pause_less_than_attempts_and_none_is_too_long(
    policy: ReconnectPolicy, chance: float
) -> None:
    delays = list(policy.delays(lambda: chance))

    assert len(delays) == (policy.max_attempts or 0) - 1
    assert all(0 <= delay <= policy.longest_delay_seconds for delay in delays)


@given(policies, st.integers(0, 10_000))
def test_pauses_do_not_shrink_as_failures_go_on(policy: ReconnectPolicy, failures: int) -> None:
    assert policy.delay_seconds(failures + 1, lambda: 0.0) >= policy.delay_seconds(
        failures, lambda: 0.0
    )
