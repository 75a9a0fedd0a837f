"""Child processes in their own process group, always terminated and reaped."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from plait._support.threads import in_thread
from plait.client.transports.guardian import guardian
from plait.client.transports.pipes import LineProtocol, PipeWriter

_STDIN_GRACE_SECONDS = 1.0
"""How long a server may take to exit once its input is closed."""
_TERM_GRACE_SECONDS = 2.0
_KILL_GRACE_SECONDS = 2.0
_STATUS_BYTES = 4096
_ALIVE_SECONDS = 0.0001
"""How long the status of a process counts as known: many calls at once read it once."""
_KILL_BIT = 1 << (signal.SIGKILL - 1) if os.name == "posix" else 0


@dataclass(slots=True)
class Child:
    """A running child, leader of its own process group, and its pipes."""

    process: asyncio.subprocess.Process
    stdin: PipeWriter
    stdout: LineProtocol
    stderr: LineProtocol | None
    status_fd: int | None
    """A descriptor of its `/proc` status, where available."""
    _alive_at: float = 0.0
    """When its status was last read, on the monotonic clock."""

    @property
    def pid(self) -> int:
        """The process id, which is the group's id too."""
        return self.process.pid

    def is_doomed(self) -> bool:
        """Return whether the process is dead, or has a pending SIGKILL.

        A dying thread may still read from the pipe on its way back from the kernel; afterwards the
        request would look like one that was run.
        """
        if self.status_fd is None:
            return self.process.returncode is not None
        now = time.monotonic()
        if now - self._alive_at < _ALIVE_SECONDS:
            return False
        self._alive_at = now
        try:
            status = os.pread(self.status_fd, _STATUS_BYTES, 0)
        except OSError:
            return True
        return _has_kill(status, b"\nSigPnd:\t") or _has_kill(status, b"\nShdPnd:\t")


def _has_kill(status: bytes, field: bytes) -> bool:
    start = status.find(field)
    if start < 0:
        return False
    start += len(field)
    return bool(int(status[start : start + 16], 16) & _KILL_BIT)


@asynccontextmanager
async def running_child(
    command: Sequence[str], *, env: Mapping[str, str], cwd: str | None, stderr: int | None
) -> AsyncGenerator[Child]:
    """Start a program in its own process group, and terminate the whole group at the end.

    `stderr` is `subprocess.PIPE`, `subprocess.DEVNULL`, or `None` to inherit ours.

    Raises:
        OSError: The program cannot be started.
    """
    async with AsyncExitStack() as stack:
        # Own pipes instead of asyncio's: its `wait` returns only when all of them are closed,
        # which a grandchild that keeps one open would prevent.
        stdin_read, stdin_write = _pipe(stack)
        stdout_read, stdout_write = _pipe(stack)
        child_ends = [stdin_read, stdout_write]
        stderr_read = None
        if stderr == asyncio.subprocess.PIPE:
            stderr_read, stderr_write = _pipe(stack)
            child_ends.append(stderr_write)
            stderr = stderr_write.fileno()
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=stdin_read.fileno(),
            stdout=stdout_write.fileno(),
            stderr=stderr,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,  # and so a process group of its own
        )
        # From here on every exit, also a cancellation, must end the process.
        stack.push_async_callback(_end, process, stdin_write)
        status_fd: int | None = None
        with anyio.CancelScope(shield=True):
            status_fd = await in_thread(_watch, process.pid)
        if status_fd is not None:
            stack.callback(os.close, status_fd)
        for end in child_ends:
            end.close()
        stdin = PipeWriter(stdin_write.fileno())
        stack.callback(stdin.close)
        yield Child(
            process,
            stdin,
            await _lines(stack, stdout_read),
            None if stderr_read is None else await _lines(stack, stderr_read),
            status_fd,
        )


def _pipe(stack: AsyncExitStack) -> tuple[io.FileIO, io.FileIO]:
    read, write = os.pipe()
    ends = io.FileIO(read, "r"), io.FileIO(write, "w")
    for end in ends:
        stack.callback(end.close)
    return ends


async def _lines(stack: AsyncExitStack, pipe: io.FileIO) -> LineProtocol:
    transport, lines = await asyncio.get_running_loop().connect_read_pipe(LineProtocol, pipe)
    stack.callback(transport.close)
    return lines


async def _end(process: asyncio.subprocess.Process, stdin: io.FileIO) -> None:
    """Close its input, then send SIGTERM, then SIGKILL, with a grace period each; and reap it."""
    with anyio.CancelScope(shield=True):
        descendants = await in_thread(_descendants, process.pid)
        stdin.close()
        for signum, grace in (
            (None, _STDIN_GRACE_SECONDS),
            (signal.SIGTERM, _TERM_GRACE_SECONDS),
            (signal.SIGKILL, _KILL_GRACE_SECONDS),
        ):
            if signum is not None:
                signal_group(process.pid, signum)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await process.wait()
                    break
        # The leader is gone, but its descendants may not be, in its group or outside.
        signal_group(process.pid, signal.SIGKILL)
        for pid in descendants:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        await in_thread(guardian.unwatch, process.pid)


def _watch(pid: int) -> int | None:
    """Have a process stopped when this one ends; return a descriptor of its status."""
    guardian.watch(pid)
    try:
        return os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _descendants(pid: int) -> set[int]:
    """Find the descendants of a process; empty where there is no /proc."""
    found: set[int] = set()
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children = {int(child) for child in listing.read_text().split()}
            for child in children - found:
                found |= {child} | _descendants(child)
    return found


def signal_group(group: int, signum: int) -> None:
    """Signal a process group; ignore one that is gone."""
    with contextlib.suppress(OSError):
        os.killpg(group, signum)
