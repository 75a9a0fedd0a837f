"""Timeouts and reconnection policies, as data."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields

from plait._support.durations import check_counts, check_durations, is_finite_number
from plait.errors import ConfigError

_chance = random.Random()  # independent of the seed that a program sets

_ATTEMPTS = 3
"""Attempts of one request, where a policy has no number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconnectPolicy:
    """How often, and after which delays, a lost connection is opened again."""

    enabled: bool = True
    """If false, a failed connection stays failed."""
    max_attempts: int | None = None
    """Attempts per outage while callers wait, after which calls fail at once; `None` lets each
    caller wait as long as it has time."""
    first_delay_seconds: float = 0.5
    longest_delay_seconds: float = 60.0
    """The longest pause between two attempts."""
    jitter: float = 0.3
    """The random share of each delay, from 0 to 1."""

    def __post_init__(self) -> None:
        """Validate the numbers."""
        check_durations(self, "first_delay_seconds", "longest_delay_seconds", may_be_zero=True)
        check_counts(self, "max_attempts")
        if not is_finite_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise ConfigError("jitter: expected a number from 0 to 1")

    def delay_seconds(self, doublings: int, draw: Callable[[], float] = _chance.random) -> float:
        """Return the delay after this many doublings; `draw` returns a number in [0, 1)."""
        delay = self.first_delay_seconds * 2 ** min(max(doublings, 0), 32)
        return min(self.longest_delay_seconds, delay) * (1 - self.jitter * draw())

    def delays(self, draw: Callable[[], float] = _chance.random) -> Iterator[float]:
        """Yield the pause before each further attempt of one outage."""
        for retry in range((self.max_attempts or _ATTEMPTS) - 1):
            yield self.delay_seconds(retry, draw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Timeouts in seconds."""

    connect_seconds: float | None = None
    """Until a session is usable, including retries; `None` is 20 s, and for a call that waits 30 s
    or its own time, if that is longer."""
    list_seconds: float = 30.0
    read_seconds: float = 30.0
    close_seconds: float = 10.0
    call_seconds: float | None = None
    """One tool call; `None` uses the client's default, then 60 s."""
    tool_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Per tool, by wire name or glob; the most specific wins over `call_seconds`."""
    longest_call_seconds: float | None = None
    """The cap on a call that progress extends; `None` is ten times its timeout."""

    def __post_init__(self) -> None:
        """Validate the durations, and store them in seconds."""
        check_durations(self, *(item.name for item in fields(self)))
