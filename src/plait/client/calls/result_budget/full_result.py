"""Whole results that were too large, kept for a while under handles that nobody can guess."""

from __future__ import annotations

import base64
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from plait._support.clock import Clock, SystemClock
from plait.client.calls.outcome import ToolResult
from plait.client.config.budgets import Limit


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose call a result came of."""

    access: str
    """The key of the credentials; empty for the server's own."""

    thread: str | None
    """The conversation, where it is known."""

    def is_also(self, other: Owner) -> bool:
        """Say whether somebody else may read what belongs to this one."""
        return self.access == other.access and self.thread in (None, other.thread)


@dataclass(frozen=True, slots=True, kw_only=True)
class FullResult:
    """A whole result, and who may read it."""

    result: ToolResult = field(repr=False)
    server: str
    """The server that was asked; a backup may have answered."""
    owner: Owner = field(repr=False)
    limit: Limit
    size_bytes: int


class FullResultStore:
    """Keeps results until they are not read for long, or too many others have come."""

    def __init__(self, *, keep_seconds: float, keep_bytes: int, clock: Clock | None = None) -> None:
        self._keep_seconds = keep_seconds
        self._keep_bytes = keep_bytes
        self._clock = clock or SystemClock()
        self._kept: OrderedDict[str, tuple[float, FullResult]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @staticmethod
    def new_handle() -> str:
        """Make a handle: short, and one of 2 to the power of 80."""
        return f"r_{base64.b32encode(secrets.token_bytes(10)).decode().lower()}"

    def put(self, handle: str, full_result: FullResult) -> None:
        """Keep a result; what was not read for longest makes room for it."""
        with self._lock:
            self._kept[handle] = (self._expiry(), full_result)
            self._bytes += full_result.size_bytes
            self._drop_expired()
            while self._bytes > self._keep_bytes and self._kept:
                self._drop(next(iter(self._kept)))

    def peek(self, handle: str) -> FullResult | None:
        """Return a result without keeping it for longer."""
        with self._lock:
            self._drop_expired()
            return self._kept[handle][1] if handle in self._kept else None

    def get(self, handle: str) -> FullResult | None:
        """Return a result, and keep it for longer."""
        with self._lock:
            self._drop_expired()
            if handle not in self._kept:
                return None
            full_result = self._kept[handle][1]
            self._kept[handle] = (self._expiry(), full_result)
            self._kept.move_to_end(handle)
            return full_result

    @property
    def size_bytes(self) -> int:
        """How much is kept."""
        with self._lock:
            self._drop_expired()
            return self._bytes

    def _expiry(self) -> float:
        return self._clock.monotonic() + self._keep_seconds

    def _drop_expired(self) -> None:
        now = self._clock.monotonic()
        while self._kept and next(iter(self._kept.values()))[0] <= now:
            self._drop(next(iter(self._kept)))

    def _drop(self, handle: str) -> None:
        _, full_result = self._kept.pop(handle)
        self._bytes -= full_result.size_bytes
