"""Timeouts and reconnection policies, as data."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

_chance = random.Random()  # independent of the seed that a program sets


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconnectPolicy:
    """How often, and after which delays, a lost connection is opened again."""

    enabled: bool = True
    """If false, a failed connection stays failed."""
    max_attempts: int = 3
    """Attempts per outage while callers wait; after them the circuit breaker opens."""
    first_delay_seconds: float = 1.0
    longest_delay_seconds: float = 60.0
    """The longest pause between two background probes."""
    jitter: float = 0.3
    """The random share of each delay, from 0 to 1."""

    def delay_seconds(self, doublings: int, draw: Callable[[], float] = _chance.random) -> float:
        """Return the delay after this many doublings; `draw` returns a number in [0, 1)."""
        delay = self.first_delay_seconds * 2 ** min(max(doublings, 0), 32)
        return min(self.longest_delay_seconds, delay) * (1 - self.jitter * draw())

    def delays(self, draw: Callable[[], float] = _chance.random) -> Iterator[float]:
        """Yield the pause before each further attempt of one outage."""
        for retry in range(self.max_attempts - 1):
            yield self.delay_seconds(retry, draw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Timeouts in seconds."""

    connect_seconds: float = 20.0
    """Until a session is usable, including retries."""
    list_seconds: float = 30.0
    read_seconds: float = 30.0
    close_seconds: float = 10.0
    call_seconds: float | None = None
    """One tool call; `None` uses the client's default, then 60 s."""
    tool_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Per tool, by wire name or glob; the most specific wins over `call_seconds`."""
    longest_call_seconds: float | None = None
    """The cap on a call that progress extends; `None` is ten times its timeout."""
