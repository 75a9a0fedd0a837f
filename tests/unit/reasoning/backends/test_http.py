"""The pauses between attempts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plait.reasoning.backends.http import RetryPolicy


def test_pauses_double() -> None:
    assert list(RetryPolicy(jitter=0).delays()) == [1.0, 2.0, 4.0]


@given(st.integers(0, 40), st.floats(0, 5), st.floats(0, 1), st.floats(0, 1, exclude_max=True))
def test_there_is_a_pause_for_each_retry_and_chance_only_shortens_it(
    retries: int, first: float, jitter: float, chance: float
) -> None:
    policy = RetryPolicy(max_retries=retries, first_delay_seconds=first, jitter=jitter)
    whole = RetryPolicy(max_retries=retries, first_delay_seconds=first, jitter=0)

    delays = list(policy.delays(lambda: chance))

    assert len(delays) == retries
    for delay, longest in zip(delays, whole.delays(), strict=True):
        assert 0 <= delay <= longest
