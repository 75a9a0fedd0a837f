"""Runs coroutines on one event loop, from any other loop, from any thread, or without a loop.

Not anyio's blocking portal: its thread is no daemon, so a client that is never closed would keep
the interpreter alive, and it cannot adopt a loop that is already running.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import contextvars
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache, partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from plait._support.threads import running_loop
from plait.client.protocol.passing import sent_request
from plait.errors import BlockingCallError, ClientClosedError

logger = logging.getLogger("plait.client.connections")

P = ParamSpec("P")
T = TypeVar("T")

_JOIN_SECONDS = 15.0
_CLOSING_SECONDS = 10.0
"""How long work that was cancelled may take to end."""
_MAX_RUNNING_CALLBACKS = 10_000
"""How often one callback may run at the same time: a server could fill the memory otherwise."""
_CLOSED_DURING_CALL = "the client was closed during the call"


def run_blocking(
    work: Callable[[], Coroutine[Any, Any, T]],
    *,
    seconds: float,
    timeout_error: Exception,
    closing_seconds: float = _CLOSING_SECONDS,
) -> T:
    """Run a coroutine function in a loop and thread of its own, and block until it is done.

    Works whether or not a loop runs in this thread. After `seconds`, or on Ctrl-C, the work is
    cancelled and has `closing_seconds` to end; then `timeout_error` is raised, unless the work
    returned a value after all.
    """
    bridge = LoopBridge()
    cancellable = _CancellableWork(work)
    try:
        loop = bridge.running_loop()
        future = asyncio.run_coroutine_threadsafe(cancellable.run(), loop)
        if concurrent.futures.wait([future], seconds).not_done:
            loop.call_soon_threadsafe(cancellable.cancel)
            concurrent.futures.wait([future], closing_seconds)
            if not future.done() or future.cancelled() or future.exception() is not None:
                raise timeout_error
        return future.result()
    finally:
        bridge.stop(closing_seconds)


class RunsBlocking(Protocol):
    """Has asynchronous methods, and can block until one of them is done."""

    def run_blocking(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call an asynchronous method, and block until it is done."""
        ...


OwnerT = TypeVar("OwnerT", bound=RunsBlocking)


def blocking(
    method: Callable[Concatenate[OwnerT, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[OwnerT, P], T]:
    """Make the blocking form of an asynchronous method; it takes the same arguments."""

    @wraps(method)
    def call(owner: OwnerT, *args: P.args, **kwargs: P.kwargs) -> T:
        return owner.run_blocking(getattr(owner, method.__name__), *args, **kwargs)

    call.__name__ = f"{method.__name__}_blocking"
    call.__doc__ = f"Blocking form of `{method.__name__}`."
    return call


class LoopBridge:
    """Runs coroutines on the loop that owns the connections.

    That is the caller's loop after `use_current_loop`, otherwise a loop in a thread of its own,
    started on first use. Context variables are passed on.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: _LoopThread | None = None

    @property
    def started(self) -> bool:
        """Whether there is a loop."""
        return self._loop is not None

    def stopped_loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the owning loop if it is the caller's and does not run any more."""
        loop = self._loop
        return loop if self._thread is None and loop is not None and not loop.is_running() else None

    def use_current_loop(self) -> None:
        """Own the connections in the loop that is running now."""
        self._loop = asyncio.get_running_loop()

    async def run(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a coroutine function on the owning loop and wait for it.

        Cancelling the caller cancels the work.
        """
        loop = self.running_loop()
        if loop is asyncio.get_running_loop():
            return await work(*args, **kwargs)
        future = asyncio.run_coroutine_threadsafe(work(*args, **kwargs), loop)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise ClientClosedError(_CLOSED_DURING_CALL) from None

    def run_blocking(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a coroutine function on the owning loop, from another thread, and block."""
        loop = self.running_loop()
        if running_loop() is loop:
            raise BlockingCallError(
                "a blocking call would stop the event loop that has to answer it: await the "
                "asynchronous form, or call from another thread (asyncio.to_thread), or do not "
                "open the client with `async with` in this loop"
            )
        cancellable = _CancellableWork(partial(work, *args, **kwargs))
        try:
            return asyncio.run_coroutine_threadsafe(cancellable.run(), loop).result()
        except concurrent.futures.CancelledError:
            raise ClientClosedError(_CLOSED_DURING_CALL) from None
        except BaseException:
            # Also for Ctrl-C, which may come before there is a future to cancel.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(cancellable.cancel)
            raise

    def bind_callback(
        self, callback: Callable[P, Awaitable[None] | None], *, outlasting: bool = False
    ) -> Callable[P, None]:
        """Wrap a callback so that it runs in the caller's current loop and context.

        Without a current loop it runs in the owning one. Once the caller's loop has ended, the
        callback is dropped, or with `outlasting` runs in the owning loop.
        """
        bound_loop, context = running_loop(), contextvars.copy_context()
        running: set[asyncio.Future[None]] = set()

        def call(*args: P.args, **kwargs: P.kwargs) -> None:
            current = asyncio.get_running_loop()
            target = bound_loop or current
            if outlasting and not target.is_running():
                target = current
            run = partial(_run_callback, running, partial(callback, *args, **kwargs))
            if target is current:
                # At once: scheduled, it would run after the result that it precedes.
                context.copy().run(run)
            elif not target.is_closed():
                target.call_soon_threadsafe(run, context=context.copy())

        return call

    def bind_handler(
        self, callback: Callable[P, Coroutine[Any, Any, T]]
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        """Wrap a callback with a result, so that it runs in the caller's current loop and context.

        Without a current loop it runs in the owning one.
        """
        target = running_loop()
        context = contextvars.copy_context()

        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            current, own = asyncio.get_running_loop(), context.copy()
            own.run(sent_request.set, sent_request.get())  # it is of the server, not of the caller
            if target is None or target is current:
                return await current.create_task(callback(*args, **kwargs), context=own)
            future = own.run(asyncio.run_coroutine_threadsafe, callback(*args, **kwargs), target)
            return await asyncio.wrap_future(future)

        return call

    def forget(self) -> _LoopThread | None:
        """Have the thread end, and do not wait for it; the interpreter does, before it exits."""
        with self._lock:
            thread, self._thread, self._loop = self._thread, None, None
        if thread is not None:
            thread.end()
        return thread

    def stop(self, join_seconds: float = _JOIN_SECONDS) -> None:
        """End the thread, if there is one, and wait for it; the next use starts another."""
        thread = self.forget()
        if thread is not None and thread is not threading.current_thread():
            thread.join(join_seconds)

    async def astop(self) -> None:
        """Do what `stop` does, without blocking the current loop."""
        thread = self.forget()
        if thread is not None:
            await asyncio.wrap_future(thread.ended)

    def running_loop(self) -> asyncio.AbstractEventLoop:
        """Return the owning loop, starting its thread if there is no loop yet."""
        with self._lock:
            if self._loop is None:
                self._thread = _LoopThread()
                self._loop = self._thread.loop
                self._thread.start()
            elif self._thread is None and not self._loop.is_running():
                raise ClientClosedError(
                    "the event loop in which the client was entered has ended, or does not run "
                    "now: use it in that loop, or do not enter it with `async with`, which gives "
                    "it a loop of its own for calls from any loop; `aclose()` closes it then"
                )
            return self._loop


class _CancellableWork(Generic[T]):
    """Work for another loop, which can be cancelled before or after it begins."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    async def run(self) -> T:
        if self._cancelled:
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        return await self._work()

    def cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()


@cache
def _warn_flooded() -> None:
    """Warn once in this process: a server that floods one callback would flood the log too."""
    text = "%d callbacks are running; until some end, further notifications are dropped"
    logger.warning(text, _MAX_RUNNING_CALLBACKS)


def _run_callback(
    running: set[asyncio.Future[None]], callback: Callable[[], Awaitable[None] | None]
) -> None:
    """Run a callback; `running` holds an asynchronous one until it ends, and errors are logged."""

    def done(future: asyncio.Future[None]) -> None:
        running.discard(future)
        if not future.cancelled() and (error := future.exception()) is not None:
            logger.error("a callback failed", exc_info=error)

    if len(running) >= _MAX_RUNNING_CALLBACKS:
        _warn_flooded()
        return
    try:
        result = callback()
    except Exception:  # boundary: a user's callback must not fail the call
        logger.exception("a callback failed")
        return
    if inspect.isawaitable(result):
        future = asyncio.ensure_future(result)
        running.add(future)
        future.add_done_callback(done)


class _LoopThread(threading.Thread):
    """A thread that runs an event loop until it is stopped."""

    def __init__(self) -> None:
        super().__init__(name="plait", daemon=True)
        self.loop = asyncio.new_event_loop()
        self.ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self.ended.set_running_or_notify_cancel()  # so that no waiter can cancel it
        self._told_to_end = threading.Lock()

    def end(self) -> None:
        """Stop the loop, once: a second stop would interrupt the clean-up of `run`."""
        if self._told_to_end.acquire(blocking=False):
            self.loop.call_soon_threadsafe(self.loop.stop)

    def run(self) -> None:
        """Run the loop, then cancel the tasks left in it."""
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            leftover = asyncio.all_tasks(self.loop)
            for task in leftover:
                task.cancel()
            if leftover:
                self.loop.run_until_complete(asyncio.gather(*leftover, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.run_until_complete(asyncio.sleep(0))  # closed transports close their sockets
        finally:
            self.loop.close()
            self.ended.set_result(None)


@atexit.register
def _end_threads() -> None:
    """End what runs in loops of their own: processes must not outlive the interpreter."""
    threads = [one for one in threading.enumerate() if isinstance(one, _LoopThread)]
    for thread in threads:
        thread.end()
    for thread in threads:
        thread.join(_JOIN_SECONDS)
