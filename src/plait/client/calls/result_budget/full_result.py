"""Keeps the full results of shortened ones for a while, under handles that cannot be guessed."""

from __future__ import annotations

import base64
import contextlib
import secrets
import threading
from dataclasses import dataclass, field

from cachetools import TTLCache

from plait._support.clock import Clock, SystemClock
from plait.client.calls.outcome import ToolResult
from plait.client.config.budgets import Limit


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose call a result came from."""

    access: str
    """The key of the credentials; empty for the server's own."""

    thread: str | None
    """The conversation, if it is known."""

    def may_be_read_by(self, other: Owner) -> bool:
        """Say whether another owner may read the results of this one."""
        return self.access == other.access and self.thread in (None, other.thread)


@dataclass(frozen=True, slots=True, kw_only=True)
class FullResult:
    """A full result, and who may read it."""

    result: ToolResult = field(repr=False)
    server: str
    """The server that was called; its fallback may have answered."""
    owner: Owner = field(repr=False)
    limit: Limit
    size_bytes: int


class FullResultStore:
    """Keeps results until they expire unread, or until newer ones need their space."""

    def __init__(self, *, keep_seconds: float, keep_bytes: int, clock: Clock | None = None) -> None:
        self._results: TTLCache[str, FullResult] = TTLCache(
            keep_bytes,
            keep_seconds,
            timer=(clock or SystemClock()).monotonic,
            getsizeof=lambda full_result: full_result.size_bytes,
        )
        self._lock = threading.Lock()

    @staticmethod
    def new_handle() -> str:
        """Create a short handle with 80 random bits."""
        return f"r_{base64.b32encode(secrets.token_bytes(10)).decode().lower()}"

    def put(self, handle: str, full_result: FullResult) -> None:
        """Keep a result, unless it is larger than the whole store."""
        with self._lock, contextlib.suppress(ValueError):
            self._results[handle] = full_result

    def peek(self, handle: str) -> FullResult | None:
        """Return a result without extending its time."""
        with self._lock:
            return self._results.get(handle)

    def get(self, handle: str) -> FullResult | None:
        """Return a result, and keep it for the full time again."""
        with self._lock:
            full_result = self._results.get(handle)
            if full_result is not None:
                self._results[handle] = full_result
            return full_result

    @property
    def size_bytes(self) -> int:
        """The size of all results that are kept."""
        with self._lock:
            return int(self._results.currsize)
