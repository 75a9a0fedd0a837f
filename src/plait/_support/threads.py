"""Runs blocking functions in threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in its own thread, and wait for it.

    The thread ends with the function; a pool would keep idle threads while the loop runs.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    thread = threading.Thread(
        target=_run, args=(loop, future, partial(work, *args, **kwargs)), name="plait worker"
    )
    thread.daemon = True
    thread.start()
    return await future


def _run(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], work: Callable[[], Any]
) -> None:
    try:
        settle = partial(_settle, future, work(), None)
    except BaseException as error:  # noqa: BLE001  # boundary: it is raised where it is awaited
        settle = partial(_settle, future, None, error)
    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)


def _settle(future: asyncio.Future[Any], value: object, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)
