"""Waiting for several things at the same time; one alone needs no task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def gather_all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return what each returned, in order; the first failure is raised."""
    waiting = list(work)
    if len(waiting) == 1:
        return [await waiting[0]]
    return await asyncio.gather(*waiting)


async def gather_outcomes(work: Iterable[Coroutine[Any, Any, T]]) -> list[T | BaseException]:
    """Return what each returned or raised, in order."""
    waiting = list(work)
    if len(waiting) != 1:
        return await asyncio.gather(*waiting, return_exceptions=True)
    try:
        return [await waiting[0]]
    except Exception as error:  # noqa: BLE001  # whoever asked raises it
        return [error]
