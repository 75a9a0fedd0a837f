"""A clock for tests that must not wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Stands still until a test moves it, or somebody sleeps; goes on by a step at each look."""

    def __init__(self, seconds: float = 0.0, *, step: float = 0.0) -> None:
        self.seconds = seconds
        self.pauses: list[float] = []
        """How long was slept, in order."""
        self._step = step

    def monotonic(self) -> float:
        """Return the seconds of this clock."""
        self.seconds += self._step
        return self.seconds

    def now(self) -> datetime:
        """Return a time of day in February of 2026."""
        return datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC) + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        """Move the clock."""
        self.pauses.append(seconds)
        self.seconds += seconds
