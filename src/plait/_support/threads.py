"""Threads and event loops: blocking work and slow imports aside, and calls into a loop."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401  # pyright: ignore[reportUnusedImport]  # a lock
import gc
import os
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial, wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, ref

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

MAX_INLINE_ITEMS = 500
"""To convert so many takes some milliseconds."""


def lock_across_forks() -> threading.RLock:
    """Create a lock that no other thread holds when this process is forked.

    In the new process, a lock that such a thread held would be held for ever. The module above
    has a lock of that kind too, and must not be imported while a fork waits for this one.
    """
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock


_import_lock = lock_across_forks()
"""Threads that import packages with circular imports at the same time could deadlock."""
_imported: set[str] = set()


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in its own thread, and wait for it.

    The thread ends with the function; a pool would keep idle threads while the loop runs.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    run = partial(_run, future, partial(work, *args, **kwargs))
    threading.Thread(target=run, name="plait worker", daemon=True).start()
    return await asyncio.wrap_future(future)


def off_loop(read: Callable[P, T]) -> Callable[P, T]:
    """Have a function that reads files run in a thread where an event loop runs.

    A constructor cannot await it, so this waits for the thread. It takes as long as the reading,
    but what looks for blocking calls in event loops, such as blockbuster, finds none.
    """

    @wraps(read)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if running_loop() is None:
            return read(*args, **kwargs)
        future: Future[T] = Future()
        ended, end = socket.socketpair()
        work = partial(copy_context().run, partial(read, *args, **kwargs))

        def run() -> None:
            _run(future, work)
            end.close()

        with ended, selectors.DefaultSelector() as selector:
            selector.register(ended, selectors.EVENT_READ)
            threading.Thread(target=run, name="plait worker", daemon=True).start()
            selector.select()
        return future.result()

    return call


async def convert_aside(convert: Callable[[S], T], items: Sequence[S]) -> list[T]:
    """Convert items, in a thread if there are many, which would hold up the event loop."""
    if len(items) <= MAX_INLINE_ITEMS:
        return list(map(convert, items))
    return await in_thread(lambda: list(map(convert, items)))


def _run(future: Future[Any], work: Callable[[], Any]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001  # boundary: it is raised where it is awaited
        future.set_exception(error)


def is_imported(module: str) -> bool:
    """Return whether `import_in_thread` has imported a module."""
    return module in _imported


async def import_in_thread(module: str) -> None:
    """Import a module without blocking the event loop; an `import` statement is quick then."""
    if module not in _imported:
        await in_thread(import_once, module)


def import_once(module: str) -> None:
    """Import a module while no other thread imports one of this kind.

    Use it before an `import` statement inside a function, for packages with circular imports: a
    thread may see half of a module that another thread imports.
    """
    if module in _imported:
        return
    # Classes and functions stay; looking for garbage among them takes a tenth of the time.
    with _import_lock, collection_paused():
        import_module(module)
        _imported.add(module)


@contextmanager
def collection_paused() -> Generator[None]:
    """Pause garbage collection; only for short blocks that make objects and do not wait.

    Otherwise it runs many times for nothing, over all objects of the process.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop that runs in this thread, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class LoopCalls:
    """Calls functions in an event loop from other threads; many calls wake it only once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)
        self._waiting: deque[Callable[[], object]] = deque()

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the loop soon; a loop that has ended ignores it."""
        self._waiting.append(function)
        if len(self._waiting) == 1:  # otherwise the loop is about to take them
            self._schedule()

    def _schedule(self) -> None:
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._run)
        except RuntimeError:
            self._waiting.clear()

    def _run(self) -> None:
        try:
            while self._waiting:
                self._waiting.popleft()()
        finally:
            if self._waiting:  # a function has failed
                self._schedule()


_calls: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopCalls] = WeakKeyDictionary()


def calls_into(loop: asyncio.AbstractEventLoop) -> LoopCalls:
    """Return what makes calls into a loop."""
    return _calls.get(loop) or _calls.setdefault(loop, LoopCalls(loop))
