"""How long to wait for a model, and how often to ask again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

LONGEST_ASKED_SECONDS: Final = 60.0
"""A provider that wants us to wait longer is not waited for: whoever called would give up first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The limits of one request to a model."""

    timeout_seconds: float = 30.0
    """For each attempt."""

    max_retries: int = 3
    """Attempts after the first."""

    first_delay_seconds: float = 1.0
    """The pause before the second attempt; each further one is twice as long."""

    jitter: float = 0.3
    """Share of each pause left to chance, from 0 to 1."""

    def delays(self, draw: Callable[[], float] = random.random) -> Iterator[float]:
        """Yield the pause before each further attempt; `draw` returns a number in [0, 1)."""
        for retry in range(self.max_retries):
            yield self.first_delay_seconds * 2 ** min(retry, 32) * (1 - self.jitter * draw())


def pause_before_next(delay: float | None, asked: float | None) -> float | None:
    """Say how long to wait before another attempt; `None` means that there is none.

    `delay` is our own pause, `None` when the attempts are used up; `asked` is what the provider
    said in `Retry-After`.
    """
    if delay is None or (asked is not None and asked > LONGEST_ASKED_SECONDS):
        return None
    return delay if asked is None else asked
