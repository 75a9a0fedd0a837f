"""Awaits a value that may be awaitable, or several coroutines concurrently."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any, TypeVar, cast

from plait._support.exception_groups import first_cause

T = TypeVar("T")


async def resolve(value: Awaitable[T] | T) -> T:
    """Await a value if it is awaitable."""
    return await cast("Awaitable[T]", value) if inspect.isawaitable(value) else cast("T", value)


async def gather_or_cancel(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results in order; the first failure cancels the others, and is raised."""
    # No task group: on Python 3.11 it leaves its caller cancelled when a task fails, so that the
    # next timeout around the caller takes that for a cancellation from outside.
    tasks = [asyncio.ensure_future(coroutine) for coroutine in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException as failed:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        error = first_cause(failed)
        if error is failed:
            raise
        raise error from error.__cause__
