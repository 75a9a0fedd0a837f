"""A memory in which one caller does the work, and those who want the same wait for it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from plait._support.clock import Clock

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kept(Generic[T]):
    """Something that was found out, and until when it holds."""

    value: T
    until: float


class SharedMemory(Generic[T]):
    """Keeps what was found out for a while; may be used from any loop and any thread."""

    def __init__(self, ttl_seconds: float, clock: Clock, *, most: int = 1024) -> None:
        """Keep at most so many things; the longest unused goes first."""
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Kept[T]] = OrderedDict()
        self._working: dict[Hashable, concurrent.futures.Future[None]] = {}

    async def get(self, key: Hashable, find: Callable[[], Awaitable[T]]) -> T:
        """Return what is kept, or find it out; what fails is not kept."""
        while True:
            with self._lock:
                kept = self._kept.get(key)
                if kept is not None and self._clock.monotonic() < kept.until:
                    self._kept.move_to_end(key)
                    return kept.value
                others = self._working.get(key)
                if others is None:
                    mine = self._working[key] = concurrent.futures.Future()
                    break
            await asyncio.wrap_future(others)
        try:
            value = await find()
            self._keep(key, value)
        finally:
            with self._lock:
                del self._working[key]
            mine.set_result(None)  # those who wait look again, and one of them takes over
        return value

    def stale(self, key: Hashable) -> T | None:
        """Return what is kept, even if it no longer holds."""
        with self._lock:
            kept = self._kept.get(key)
            return None if kept is None else kept.value

    def prolong(self, key: Hashable, seconds: float) -> None:
        """Let what is kept hold for a while longer."""
        with self._lock:
            if (kept := self._kept.get(key)) is not None:
                self._kept[key] = Kept(kept.value, self._clock.monotonic() + seconds)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()

    def _keep(self, key: Hashable, value: T) -> None:
        with self._lock:
            self._kept[key] = Kept(value, self._clock.monotonic() + self._ttl_seconds)
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
