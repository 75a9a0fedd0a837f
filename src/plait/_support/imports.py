"""Imports modules that are slow to import, in threads."""

from __future__ import annotations

import threading
from importlib import import_module

from plait._support.garbage import collection_paused
from plait._support.threads import in_thread

_lock = threading.Lock()
"""Threads that import packages with circular imports at the same time could deadlock."""

_imported: set[str] = set()


def is_imported(module: str) -> bool:
    """Return whether `import_in_thread` has imported a module."""
    return module in _imported


async def import_in_thread(module: str) -> None:
    """Import a module without blocking the event loop; an `import` statement is quick then."""
    if module not in _imported:
        await in_thread(_import, module)


def _import(module: str) -> None:
    # Classes and functions stay; looking for garbage among them takes a tenth of the time.
    with _lock, collection_paused():
        import_module(module)
        _imported.add(module)
