"""The clock of this machine."""

from __future__ import annotations

from datetime import UTC

import pytest

from plait._support.clock import Clock, SystemClock

pytestmark = pytest.mark.anyio


async def test_time_is_in_utc_and_never_goes_back() -> None:
    clock: Clock = SystemClock()
    before = clock.monotonic()

    await clock.sleep(0)

    assert clock.monotonic() >= before
    assert clock.now().tzinfo is UTC
