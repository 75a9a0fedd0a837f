"""Pauses between attempts, and the pipes of the modes."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from plait.reasoning.backends.pipes import PIPE_SETTINGS, PipeNames, pipes_of
from plait.reasoning.backends.retry import (
    LONGEST_ASKED_SECONDS,
    Patience,
    pause_before_next,
)


def test_pauses_double() -> None:
    assert list(Patience(jitter=0).delays()) == [1.0, 2.0, 4.0]


@given(st.integers(0, 40), st.floats(0, 5), st.floats(0, 1), st.floats(0, 1, exclude_max=True))
def test_there_is_a_pause_for_each_retry_and_chance_only_shortens_it(
    retries: int, first: float, jitter: float, chance: float
) -> None:
    patience = Patience(max_retries=retries, first_delay_seconds=first, jitter=jitter)
    whole = Patience(max_retries=retries, first_delay_seconds=first, jitter=0)

    delays = list(patience.delays(lambda: chance))

    assert len(delays) == retries
    for delay, longest in zip(delays, whole.delays(), strict=True):
        assert 0 <= delay <= longest


def test_the_provider_decides_about_the_pause_but_not_about_a_long_one() -> None:
    assert pause_before_next(2.0, None) == 2.0
    assert pause_before_next(2.0, 0.5) == 0.5
    assert pause_before_next(2.0, LONGEST_ASKED_SECONDS) == LONGEST_ASKED_SECONDS
    assert pause_before_next(2.0, LONGEST_ASKED_SECONDS + 1) is None
    assert pause_before_next(None, 0.5) is None


def test_every_mode_has_settings_and_a_pipe_with_its_prompt() -> None:
    modes = [field.name for field in fields(PipeNames)]
    prompts = {mode: f"prompt of {mode}" for mode in modes}

    pipes = pipes_of(PipeNames(), prompts)

    assert set(PIPE_SETTINGS) == set(modes)
    assert [(pipe.name, pipe.system) for pipe in pipes] == [
        (getattr(PipeNames(), mode), f"prompt of {mode}") for mode in modes
    ]
    assert [(pipe.temperature, pipe.max_tokens) for pipe in pipes][:5] == [
        (0.7, 2000),
        (0.8, 3000),
        (0.9, 3000),
        (0.6, 2500),
        (0.5, 1000),
    ]


def test_a_pipe_that_modes_share_is_made_once_and_without_a_prompt() -> None:
    names = PipeNames(got_score="got", got_refine="got", linear="mine")

    pipes = {pipe.name: pipe for pipe in pipes_of(names, {"got_score": "s", "linear": "l"})}

    assert len(pipes) == 9
    assert pipes["got"].system is None
    assert pipes["mine"].system == "l"
    assert pipes["got-generate-v1"].system is None
