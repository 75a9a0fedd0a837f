"""The life of a client: opened when it is first used, in one loop or another, and closed once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from plait._support.logs import show_debug_log
from plait.client.connections.loop_bridge import LoopBridge
from plait.client.runtime import Core
from plait.errors import ClientClosedError

P = ParamSpec("P")
T = TypeVar("T")


class ClientLife:
    """Opens and closes the parts of a client, and runs work in the loop that owns them.

    Used as `async with`, the connections live in the caller's loop; otherwise in a loop of their
    own, in a thread that is started when it is first needed.
    """

    def __init__(self, build: Callable[[LoopBridge], Core]) -> None:
        """Take what builds the parts; it must not refer to this object, or nothing is freed."""
        show_debug_log()
        self._build = build
        self._bridge = LoopBridge()
        self._core = build(self._bridge)
        self._closed = False
        # Whoever forgets to close a client must not keep its processes.
        self._finalizer = weakref.finalize(self, self._bridge.stop)

    async def __aenter__(self) -> Self:
        self._check_open()
        if self._bridge.started:
            await self._shut()
        self._bridge.use_current_loop()
        # Again, so that callbacks run in this loop and this context.
        self._core = self._build(self._bridge)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close()

    async def aclose(self) -> None:
        """Close every connection; tools handed out raise `ClientClosedError` from now on."""
        self._closed = True
        if self._bridge.started:
            await self._shut()

    def close(self) -> None:
        """Do what `aclose` does, and block until it is done."""
        self._closed = True
        if self._bridge.started:
            self._bridge.run_blocking(self._core.close)
            self._bridge.stop()

    def run_blocking(
        self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call an asynchronous method of this client, and block until it is done.

        Raises:
            BlockingCallError: The connections live in the loop of this very thread.
        """
        self._check_open()
        return self._bridge.run_blocking(work, *args, **kwargs)

    async def _shut(self) -> None:
        await self._bridge.run(self._core.close)
        await self._bridge.astop()

    async def _on_owner(self, work: Callable[[Core], Coroutine[Any, Any, T]]) -> T:
        """Run something on the open parts, in the loop that owns them."""
        self._check_open()

        async def run() -> T:
            self._check_open()
            self._core.open()
            return await work(self._core)

        return await self._bridge.run(run)

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError("the client is closed; its tools can no longer be called")
