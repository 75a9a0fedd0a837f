"""The Langbase pipes of the modes: their names and model settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeNames:
    """The pipe of each mode."""

    linear: str = "linear-reasoning-v1"
    tree: str = "tree-reasoning-v1"
    divergent: str = "divergent-reasoning-v1"
    reflection: str = "reflection-v1"
    auto: str = "mode-router-v1"
    backtracking: str = "backtracking-reasoning-v1"
    got_generate: str = "got-generate-v1"
    got_score: str = "got-score-v1"
    got_aggregate: str = "got-aggregate-v1"
    got_refine: str = "got-refine-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeSettings:
    """The model settings of a pipe."""

    temperature: float
    max_tokens: int


PIPE_SETTINGS: Final[Mapping[str, PipeSettings]] = {
    "linear": PipeSettings(temperature=0.7, max_tokens=2000),
    "tree": PipeSettings(temperature=0.8, max_tokens=3000),
    "divergent": PipeSettings(temperature=0.9, max_tokens=3000),
    "reflection": PipeSettings(temperature=0.6, max_tokens=2500),
    "auto": PipeSettings(temperature=0.5, max_tokens=1000),
    "backtracking": PipeSettings(temperature=0.7, max_tokens=2000),
    "got_generate": PipeSettings(temperature=0.7, max_tokens=2500),
    "got_score": PipeSettings(temperature=0.7, max_tokens=2500),
    "got_aggregate": PipeSettings(temperature=0.7, max_tokens=2500),
    "got_refine": PipeSettings(temperature=0.7, max_tokens=2500),
}
"""By the fields of `PipeNames`; other backends use the same values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipe(PipeSettings):
    """A pipe to create at Langbase."""

    name: str
    system: str | None = None
    """Its default system prompt; every request has one too."""


def pipes_of(names: PipeNames, prompts: Mapping[str, str]) -> tuple[Pipe, ...]:
    """Return the pipes to create; `prompts` are the system prompts by mode.

    A pipe that modes share has no default prompt, and the settings of the first mode.
    """
    modes = {field.name: str(getattr(names, field.name)) for field in fields(names)}
    pipes: dict[str, Pipe] = {}
    for mode, name in modes.items():
        shared = list(modes.values()).count(name) > 1
        system = None if shared else prompts.get(mode)
        pipes.setdefault(name, Pipe(name=name, system=system, **asdict(PIPE_SETTINGS[mode])))
    return tuple(pipes.values())
