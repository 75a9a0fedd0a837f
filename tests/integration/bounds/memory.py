"""Measures by how much the memory of this process grows."""

from __future__ import annotations

import gc
import threading
from types import TracebackType
from typing import Self

import psutil

_SAMPLE_SECONDS = 0.01


class MemoryGrowth:
    """Samples the memory of this process in a thread, and keeps the highest growth."""

    def __init__(self) -> None:
        self.worst_bytes = 0
        self._process = psutil.Process()
        self._before = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        gc.collect()
        self._before = self._process.memory_info().rss
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._done.wait(_SAMPLE_SECONDS):
            grown = self._process.memory_info().rss - self._before
            self.worst_bytes = max(self.worst_bytes, grown)
