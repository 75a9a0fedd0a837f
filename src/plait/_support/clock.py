"""A clock that can be replaced in tests."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Reads the time and sleeps."""

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        ...

    def now(self) -> datetime:
        """Return the current time in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        ...


class SystemClock:
    """The system clock."""

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)
