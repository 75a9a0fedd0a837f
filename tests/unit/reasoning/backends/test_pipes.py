"""The pipes of the modes."""

from __future__ import annotations

from dataclasses import fields

from plait.reasoning.backends.http import PIPE_SETTINGS, PipeNames, pipes_of


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
