"""Opening and closing a client: which event loop owns its connections, and for how long."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from plait._support.logs import show_debug_log
from plait.client.connections.loop_bridge import LoopBridge
from plait.errors import ClientClosedError

if TYPE_CHECKING:
    from plait.client.catalog.lock.guard import LockReport
    from plait.client.connections.status import Event, Status
    from plait.client.runtime import Runtime

P = ParamSpec("P")
T = TypeVar("T")


class Lifecycle:
    """Owns the runtime of a client, and runs work in the event loop that its connections live in.

    That is the caller's loop after `use_current_loop`; otherwise a loop in a thread of its own,
    started on first use.
    """

    def __init__(self, build: Callable[[LoopBridge], Runtime]) -> None:
        """Take the function that builds the runtime.

        It must not refer to this object, or an unclosed client is never garbage-collected.
        """
        show_debug_log()
        self._build = build
        self.bridge = LoopBridge()
        self.runtime = build(self.bridge)
        self._closed = False
        # Ends the child processes of a client that is dropped without `close`.
        self._finalizer = weakref.finalize(self, self.bridge.stop)

    async def use_current_loop(self) -> None:
        """Move the connections to the running loop, closing those that are open elsewhere."""
        self.check_open()
        if self.bridge.started:
            await self._shut_down()
        self.bridge.use_current_loop()
        # Rebuilt, so that callbacks run in this loop and this context.
        self.runtime = self._build(self.bridge)

    async def aclose(self) -> None:
        """Close every connection."""
        self._closed = True
        if self.bridge.started:
            await self._shut_down()

    def close(self) -> None:
        """Blocking form of `aclose`."""
        self._closed = True
        if self.bridge.started:
            self.bridge.run_blocking(self.runtime.pool.close)
            self.bridge.stop()

    async def _shut_down(self) -> None:
        await self.bridge.run(self.runtime.pool.close)
        await self.bridge.astop()

    def check_open(self) -> None:
        """Raise `ClientClosedError` after the client was closed."""
        if self._closed:
            raise ClientClosedError("the client is closed; its tools can no longer be called")

    async def open(self) -> Runtime:
        """Return the runtime, usable for calls; no server is contacted."""
        self.check_open()
        if not self.runtime.pool.opened:
            await self.run(_return_runtime)
        return self.runtime

    async def run(self, work: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine function on the open runtime, in the loop that owns it."""
        self.check_open()

        async def run() -> T:
            self.check_open()
            self.runtime.pool.open()
            return await work(self.runtime)

        return await self.bridge.run(run)

    def run_blocking(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a coroutine function in the owning loop, and block until it is done."""
        self.check_open()
        return self.bridge.run_blocking(work, *args, **kwargs)


class ConnectionOwner:
    """Base of clients: opens and closes their connections, and calls methods without a loop."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self.lifecycle = lifecycle

    async def __aenter__(self) -> Self:
        await self.lifecycle.use_current_loop()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        self.lifecycle.check_open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def aclose(self) -> None:
        """Close every connection; tools raise `ClientClosedError` from now on."""
        await self.lifecycle.aclose()

    def close(self) -> None:
        """Blocking form of `aclose`."""
        self.lifecycle.close()

    def run_blocking(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call an async method of this client, and block until it is done.

        Raises:
            BlockingCallError: The connections live in the loop of the current thread.
        """
        return self.lifecycle.run_blocking(work, *args, **kwargs)

    def status(self) -> Status:
        """Return the state of every server, without contacting any."""
        return self.lifecycle.runtime.pool.status()

    def events(self) -> tuple[Event, ...]:
        """Return recent connection events, as in `status()`; the last is the newest."""
        return self.lifecycle.runtime.pool.events

    async def forget(self, thread_id: str) -> None:
        """Close the sessions that belong to one conversation (`scope: thread`)."""
        await self.lifecycle.run(lambda runtime: runtime.pool.forget_thread(str(thread_id)))

    def lock_report(self) -> LockReport:
        """Compare the tools listed so far with the lockfile, without contacting servers."""
        return self.lifecycle.runtime.catalog.lock_report()


async def _return_runtime(runtime: Runtime) -> Runtime:
    return runtime
