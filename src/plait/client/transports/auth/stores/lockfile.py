"""A lock between processes, and between the threads of one."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from plait._support.threads import in_thread
from plait.client.transports.auth.stores.lock_wait import until
from plait.errors import ConfigError

try:
    import fcntl
except ImportError:  # Windows: logins of several processes are renewed one by one
    fcntl = None


@asynccontextmanager
async def lock_file(path: Path) -> AsyncGenerator[None]:
    """Hold the lock on a file; the system lets go of it when a process dies.

    Raises:
        ConfigError: The file cannot be made.
        ConnectError: Somebody else holds it for too long.
    """
    try:
        descriptor = await in_thread(_opened, path)
    except OSError as error:
        raise ConfigError(f"logins cannot be kept in {path.parent}: {error.strerror}") from error
    try:
        # Each opening has a lock of its own, so threads of this process wait for each other too.
        await until(lambda: _taken(descriptor), "another process renews the login")
        yield
    finally:
        os.close(descriptor)


def private_folder(path: Path) -> None:
    """Make a folder that only its owner can look into."""
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
