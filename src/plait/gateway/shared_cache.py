"""A cache in which one caller computes a value while others wait for it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from cachetools import LRUCache

from plait._support.clock import Clock

T = TypeVar("T")


class SharedCache(Generic[T]):
    """Caches values for a while; may be used from any loop and any thread.

    Expired values stay available to `stale` until newer ones need their place.
    """

    def __init__(self, ttl_seconds: float, clock: Clock, *, max_entries: int = 1024) -> None:
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: LRUCache[Hashable, tuple[T, float]] = LRUCache(max_entries)
        """Values, and when they expire."""
        self._pending: dict[Hashable, concurrent.futures.Future[None]] = {}

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        """Return the cached value, or compute and cache it; a failure is not cached."""
        while True:
            with self._lock:
                entry = self._entries.get(key)
                if entry is not None and self._clock.monotonic() < entry[1]:
                    return entry[0]
                pending = self._pending.get(key)
                if pending is None:
                    mine = self._pending[key] = concurrent.futures.Future()
                    break
            await asyncio.wrap_future(pending)
        try:
            value = await compute()
            with self._lock:
                self._entries[key] = (value, self._clock.monotonic() + self._ttl_seconds)
        finally:
            with self._lock:
                del self._pending[key]
            mine.set_result(None)  # waiting callers look again, and one of them takes over
        return value

    def stale(self, key: Hashable) -> T | None:
        """Return the value even if it has expired."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None else entry[0]

    def prolong(self, key: Hashable, seconds: float) -> None:
        """Let a value expire that many seconds from now."""
        with self._lock:
            if (entry := self._entries.get(key)) is not None:
                self._entries[key] = (entry[0], self._clock.monotonic() + seconds)
