"""Waiting for something that gives no signal, with a bound."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

import anyio

_PAUSE_SECONDS = 0.01


async def eventually(
    holds: Callable[[], bool | Awaitable[bool]], *, timeout_seconds: float = 5.0
) -> None:
    """Return as soon as `holds()` is true; ask it again every few milliseconds.

    Raises:
        TimeoutError: It was not true in time.
    """
    with anyio.fail_after(timeout_seconds):
        while not await _asked(holds):  # noqa: ASYNC110  there is no event to wait for
            await anyio.sleep(_PAUSE_SECONDS)


async def _asked(holds: Callable[[], bool | Awaitable[bool]]) -> bool:
    answer = holds()
    return await answer if inspect.isawaitable(answer) else answer
