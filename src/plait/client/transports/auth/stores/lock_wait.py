"""Waiting for locks that know nothing of event loops."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

from plait.errors import ConnectError

_LONGEST_SECONDS: Final = 45.0
"""Longer than any exchange with an authorization server may take."""

_PAUSE_SECONDS: Final = 0.02


async def until(acquired: Callable[[], bool], reason: str) -> None:
    """Ask again and again until it says yes; `acquired` must not block.

    Raises:
        ConnectError: It never did.
    """
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            while not acquired():  # noqa: ASYNC110  # other processes set no events
                await asyncio.sleep(_PAUSE_SECONDS * (0.5 + random.random()))
    except TimeoutError:
        raise ConnectError(f"{reason}, and has not finished in {_LONGEST_SECONDS:g} s") from None
