"""Writes files atomically, locks them, and follows their changes."""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
from collections.abc import AsyncGenerator
from pathlib import Path

from plait._support.threads import in_thread

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None


WATCH_SECONDS = 0.5
"""How often a file is looked at; editors replace it, so that its folder would be watched too."""

FileStamp = tuple[int, int, int]
"""What changes with a file."""


def file_stamp(path: Path) -> FileStamp | None:
    """Return what changes with the file; `None` while there is none."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


async def file_changes(path: Path, known: FileStamp | None) -> AsyncGenerator[None]:
    """Yield whenever the file is another than the one that is known."""
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        stamp = await in_thread(file_stamp, path)
        if stamp not in {known, None}:
            known = stamp
            yield


def write_atomically(path: Path, text: str, *, mode: int | None = None) -> None:
    """Write a file that readers see either as it was or complete; its folder must exist.

    Without `mode`, the permissions stay as they are, and a new file gets the usual ones.

    Raises:
        OSError: It cannot be written; the file before is still there.
    """
    if mode is None and path.exists():
        mode = path.stat().st_mode & 0o777
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    descriptor = os.open(draft, flags, 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            draft.chmod(mode)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read; one that was there loses other permissions.

    Raises:
        OSError: It cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        make_private(descriptor)
        file.write(text)


def make_private(descriptor: int) -> None:
    """Take the permissions of others from an open file, which may have been there before.

    Raises:
        OSError: The file belongs to somebody else.
    """
    mode = os.fstat(descriptor).st_mode
    if os.name == "posix" and stat.S_ISREG(mode) and mode & 0o077:
        os.fchmod(descriptor, mode & 0o700)


def try_lock(descriptor: int) -> bool:
    """Lock an open file, unless another process has locked it; return whether this one has.

    The lock ends when the file is closed, also by the death of the process. On Windows it does not
    exclude other processes.
    """
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
