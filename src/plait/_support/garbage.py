"""Pausing the garbage collector while many objects are made that stay."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


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
