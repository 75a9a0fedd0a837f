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
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in work]
    except BaseExceptionGroup as failed:
        error = first_cause(failed)
        raise error from error.__cause__
    return [task.result() for task in tasks]
