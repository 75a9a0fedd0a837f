"""The hand-over between whoever calls and the loop that owns the connections."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from plait.errors import BlockingCallError, ClientClosedError

logger = logging.getLogger("plait.client.connections")

P = ParamSpec("P")
T = TypeVar("T")

_JOIN_SECONDS = 15.0


class LoopBridge:
    """Runs coroutines on one loop, from any loop, any thread, and from code without a loop.

    The loop is the caller's after `use_current_loop`; otherwise a thread of its own, started when
    it is first needed. Context variables travel along.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: _LoopThread | None = None

    @property
    def started(self) -> bool:
        """Whether there is a loop."""
        return self._loop is not None

    @property
    def owns_thread(self) -> bool:
        """Whether the loop runs in a thread of its own."""
        return self._thread is not None

    def use_current_loop(self) -> None:
        """Let the connections live in the loop that is running now."""
        self._loop = asyncio.get_running_loop()

    async def run(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a coroutine function on the owning loop and wait for it.

        Cancelling the caller cancels the work.
        """
        loop = self._running_loop()
        if loop is asyncio.get_running_loop():
            return await work(*args, **kwargs)
        future = asyncio.run_coroutine_threadsafe(work(*args, **kwargs), loop)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise _closed_meanwhile() from None

    def run_blocking(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a coroutine function on the owning loop and block until it is done.

        Raises:
            BlockingCallError: This thread runs the owning loop, which could then do nothing.
        """
        loop = self._running_loop()
        if _loop_of_this_thread() is loop:
            raise BlockingCallError(
                "a blocking call would stop the event loop that has to answer it: await the "
                "asynchronous form, or call from another thread (asyncio.to_thread), or do not "
                "open the client with `async with` in this loop"
            )
        errand = _CancellableWork(partial(work, *args, **kwargs))
        try:
            return asyncio.run_coroutine_threadsafe(errand.run(), loop).result()
        except concurrent.futures.CancelledError:
            raise _closed_meanwhile() from None
        except BaseException:
            # Also Ctrl-C, which may come before there is a future to cancel.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(errand.cancel)
            raise

    def bind_callback(
        self, callback: Callable[P, Awaitable[None] | None], *, outlasting: bool = False
    ) -> Callable[P, None]:
        """Wrap a callback so that it runs in the loop and the context of whoever is here now.

        Where there is no loop here, it runs in the owning one. When the loop that is here has
        ended, nothing runs any more, unless the callback outlasts it: then the owning one is used.
        """
        home = _loop_of_this_thread()
        context = contextvars.copy_context()
        return _BoundCallback(callback, home, context, outlasting=outlasting)

    def bind_handler(
        self, callback: Callable[P, Coroutine[Any, Any, T]]
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        """Wrap a callback that answers, so that it runs in the loop and context of who is here now.

        Where there is no loop here, it runs in the owning one.
        """
        home = _loop_of_this_thread()
        context = contextvars.copy_context()

        async def ask(*args: P.args, **kwargs: P.kwargs) -> T:
            here = asyncio.get_running_loop()
            if home is None or home is here:
                return await here.create_task(callback(*args, **kwargs), context=context.copy())
            answer = context.copy().run(
                asyncio.run_coroutine_threadsafe, callback(*args, **kwargs), home
            )
            return await asyncio.wrap_future(answer)

        return ask

    def stop(self) -> None:
        """End the thread, if there is one, and wait for it; the next use starts another."""
        thread = self._stopping()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_SECONDS)

    async def astop(self) -> None:
        """Do what `stop` does, without blocking the loop that asks."""
        thread = self._stopping()
        if thread is not None:
            await asyncio.wrap_future(thread.ended)

    def _stopping(self) -> _LoopThread | None:
        with self._lock:
            thread, self._thread, self._loop = self._thread, None, None
        if thread is not None:
            thread.loop.call_soon_threadsafe(thread.loop.stop)
        return thread

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._thread = _LoopThread()
                self._loop = self._thread.loop
                self._thread.start()
            elif self._thread is None and not self._loop.is_running():
                raise ClientClosedError("the event loop that owns the connections has ended")
            return self._loop


class _CancellableWork(Generic[T]):
    """Work handed to another loop, which can be called off at any time."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._task: asyncio.Task[Any] | None = None
        self._called_off = False

    async def run(self) -> T:
        if self._called_off:
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        return await self._work()

    def cancel(self) -> None:
        self._called_off = True
        if self._task is not None:
            self._task.cancel()


class _BoundCallback(Generic[P]):
    """A callback that finds its way back to the loop it came from."""

    def __init__(
        self,
        callback: Callable[P, Awaitable[None] | None],
        home: asyncio.AbstractEventLoop | None,
        context: contextvars.Context,
        *,
        outlasting: bool,
    ) -> None:
        self._callback = callback
        self._outlasting = outlasting
        self._home = home
        self._context = context
        self._running: set[asyncio.Future[None]] = set()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        here = asyncio.get_running_loop()
        home = self._home or here
        if self._outlasting and not home.is_running():
            home = here
        context = self._context.copy()
        if home is here:
            # At once: later, it would come after the answer it belongs before.
            context.run(self._run, *args, **kwargs)
        elif not home.is_closed():
            home.call_soon_threadsafe(partial(self._run, *args, **kwargs), context=context)

    def _run(self, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            told = self._callback(*args, **kwargs)
        except Exception:  # boundary: a callback of the user's must not hurt the call
            logger.exception("a callback failed")
            return
        if inspect.isawaitable(told):
            future = asyncio.ensure_future(told)
            self._running.add(future)
            future.add_done_callback(self._done)

    def _done(self, future: asyncio.Future[None]) -> None:
        self._running.discard(future)
        if not future.cancelled() and (error := future.exception()) is not None:
            logger.error("a callback failed", exc_info=error)


class _LoopThread(threading.Thread):
    """A thread that runs an event loop until it is stopped."""

    def __init__(self) -> None:
        super().__init__(name="plait", daemon=True)
        self.loop = asyncio.new_event_loop()
        self.ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self.ended.set_running_or_notify_cancel()  # so that nobody who waits for it can cancel it

    def run(self) -> None:
        """Run the loop, then end what is left in it."""
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self._cancel_all()
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()
            self.ended.set_result(None)

    def _cancel_all(self) -> None:
        leftover = asyncio.all_tasks(self.loop)
        for task in leftover:
            task.cancel()
        if leftover:
            self.loop.run_until_complete(asyncio.gather(*leftover, return_exceptions=True))


def _loop_of_this_thread() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _closed_meanwhile() -> ClientClosedError:
    return ClientClosedError("the client was closed during the call")
