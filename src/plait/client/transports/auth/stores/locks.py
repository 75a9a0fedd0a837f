"""Locks between processes and threads, awaited without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from plait._support.threads import in_thread
from plait.errors import ConfigError, ConnectError

try:
    import fcntl
except ImportError:  # Windows: logins of several processes are renewed one by one
    fcntl = None


_LONGEST_SECONDS: Final = 45.0
"""Longer than any exchange with an authorization server may take."""

_PAUSE_SECONDS: Final = 0.02


async def wait_for_lock(acquire: Callable[[], bool], reason: str) -> None:
    """Poll until `acquire`, which must not block, returns true.

    Raises:
        ConnectError: The lock was not free in time.
    """
    try:
        async with asyncio.timeout(_LONGEST_SECONDS):
            while not acquire():  # noqa: ASYNC110  # other processes set no events
                await asyncio.sleep(_PAUSE_SECONDS * (0.5 + random.random()))
    except TimeoutError:
        raise ConnectError(f"{reason}, and has not finished in {_LONGEST_SECONDS:g} s") from None


@asynccontextmanager
async def lock_file(path: Path) -> AsyncGenerator[None]:
    """Hold the lock on a file; the system releases it when a process dies.

    Raises:
        ConfigError: The file cannot be created.
        ConnectError: Another process holds the lock for too long.
    """
    try:
        descriptor = await in_thread(_opened, path)
    except OSError as error:
        raise ConfigError(f"logins cannot be kept in {path.parent}: {error.strerror}") from error
    try:
        # Each descriptor has its own lock, so threads of this process wait for each other too.
        await wait_for_lock(lambda: _taken(descriptor), "another process renews the login")
        yield
    finally:
        os.close(descriptor)


def private_folder(path: Path) -> None:
    """Create a folder that only its owner can read."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.stat().st_mode & 0o077:
        path.chmod(0o700)


def _opened(path: Path) -> int:
    private_folder(path.parent)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _taken(descriptor: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
