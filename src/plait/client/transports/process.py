"""Starts the processes of stdio servers, in their own process group; always terminated and reaped.

Imports little: a process starts up while what opens a session is imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from plait._support.threads import in_thread, lock_across_forks
from plait.client.config.secrets import child_environment
from plait.client.config.servers import StdioServer
from plait.client.transports._watchdog import MARK_VARIABLE, marked
from plait.client.transports.pipes import (
    LineProtocol,
    PipeReader,
    PipeWriter,
    ReaderStatus,
    TailProtocol,
)
from plait.client.transports.wire import Wire
from plait.errors import ConfigError

logger = logging.getLogger("plait.client.transports")

IS_POSIX = os.name == "posix"
"""Whether this module can start processes; elsewhere that is left to the MCP SDK."""
_WATCHDOG = Path(__file__).with_name("_watchdog.py")
_STDIN_GRACE_SECONDS = 1.0
"""How long a server may take to exit once its input is closed."""
_TERM_GRACE_SECONDS = 2.0
_KILL_GRACE_SECONDS = 2.0
MAX_STDERR_BYTES = 256 * 1024
"""How much of a server's standard error is kept."""
_STDERR = {"inherit": None, "ignore": asyncio.subprocess.DEVNULL}
_SMALLEST_MARK = 1 << 61
"""A limit of 70,000 years, in microseconds."""


class _Guardian:
    """Runs a watchdog while there are children, so that they end even if this process is killed."""

    def __init__(self) -> None:
        self._lock = lock_across_forks()
        self._groups: dict[int, str] = {}
        """The mark of each process group."""
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._owner_pid = os.getpid()

    def watch(self, group: int, mark: str) -> None:
        """Have a process group stopped when this process ends."""
        with self._lock:
            if self._owner_pid != os.getpid():
                # In a forked process the watchdog belongs to the parent.
                self._groups, self._watchdog, self._owner_pid = {}, None, os.getpid()
            self._groups[group] = mark
            if self._watchdog is not None and self._send(f"+{group} {mark}\n"):
                return
            self._start()

    def unwatch(self, group: int) -> None:
        """Stop watching a process group; the last one ends the watchdog."""
        with self._lock:
            self._groups.pop(group, None)
            if self._watchdog is None:
                return
            if not self._groups:
                self._stop()
            elif not self._send(f"-{group}\n"):
                self._start()

    def _start(self) -> None:
        self._stop()
        try:
            self._watchdog = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_WATCHDOG), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            logger.warning("children will not be stopped if this process is killed: %s", error)
            return
        self._send("".join(f"+{group} {mark}\n" for group, mark in self._groups.items()))

    def _send(self, text: str) -> bool:
        watchdog = self._watchdog
        if watchdog is None or watchdog.stdin is None or watchdog.poll() is not None:
            return False
        try:
            watchdog.stdin.write(text.encode())
            watchdog.stdin.flush()
        except OSError:
            return False
        return True

    def _stop(self) -> None:
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is None:
            return
        # Killed at once: it has nothing left to do, and a new one must not run beside it.
        watchdog.kill()
        if watchdog.stdin is not None:
            with contextlib.suppress(OSError):
                watchdog.stdin.close()
        watchdog.wait()


_guardian = _Guardian()


@dataclass(slots=True)
class Child:
    """A running child, leader of its own process group, and its pipes."""

    process: asyncio.subprocess.Process
    stdin: PipeWriter
    stdout: LineProtocol
    stderr: TailProtocol | None
    stack: AsyncExitStack
    """What terminates its whole group, and closes the pipes."""

    @property
    def pid(self) -> int:
        """The process id, which is the group's id too."""
        return self.process.pid


@asynccontextmanager
async def process_of(server: StdioServer, wire: Wire) -> AsyncGenerator[Child]:
    """Hold the process that was started for the wire, or start one; it ends with the block."""
    child, wire.started_process = wire.started_process, None
    if child is None:
        child = await start_process(server, wire)
    async with child.stack:
        yield child


async def end_unused_process(wire: Wire) -> None:
    """End a process that was started for the wire, if no transport has taken it."""
    child, wire.started_process = wire.started_process, None
    if child is not None:
        await child.stack.aclose()


async def start_process(server: StdioServer, wire: Wire) -> Child:
    """Start the process of a server in its own process group."""
    if not IS_POSIX:
        raise ConfigError("processes are started in another way here", server=wire.server)
    env = child_environment(server, os.environ)
    command: str | None = server.command
    if os.sep not in server.command:  # it is looked for on the child's `PATH`
        path = env.get("PATH", os.defpath)
        command = await in_thread(shutil.which, server.command, path=path)
        if command is None and server.command in {"python", "python3"}:
            command = sys.executable
    if not command:
        text = f"cannot start: the command {server.command!r} was not found on PATH"
        raise wire.connect_error(text, retry="never")
    async with AsyncExitStack() as stack:
        # Own pipes instead of asyncio's: its `wait` returns only when all of them are closed,
        # which a grandchild that keeps one open would prevent.
        stdin_read, stdin_write = _pipe(stack)
        stdout_read, stdout_write = _pipe(stack)
        child_ends = [stdin_read, stdout_write]
        stderr_read = None
        stderr = _STDERR.get(server.stderr, asyncio.subprocess.PIPE)
        if stderr == asyncio.subprocess.PIPE:
            stderr_read, stderr_write = _pipe(stack)
            child_ends.append(stderr_write)
            stderr = stderr_write.fileno()
        mark = str(_SMALLEST_MARK + secrets.randbelow(_SMALLEST_MARK))
        try:
            process = await asyncio.create_subprocess_exec(
                command,
                *server.args,
                stdin=stdin_read.fileno(),
                stdout=stdout_write.fileno(),
                stderr=stderr,
                env={**env, MARK_VARIABLE: mark},
                cwd=server.cwd,
                start_new_session=True,  # and so a process group of its own
            )
        except OSError as error:
            reason = f" {server.command!r}: {error.strerror or type(error).__name__}"
            if server.cwd is not None and not await in_thread(Path(server.cwd).is_dir):
                reason = f": the folder {server.cwd!r} (cwd) does not exist"
            raise wire.connect_error(f"cannot start{reason}", retry="never") from error
        # From here on every exit, also a cancellation, must end the process.
        _limit(process.pid, int(mark))
        stack.push_async_callback(_end, process, stdin_write, mark)
        stat_fd: int | None = None
        with anyio.CancelScope(shield=True):
            stat_fd = await in_thread(_watch, process.pid, mark)
        if stat_fd is not None:
            stack.callback(os.close, stat_fd)
        for end in child_ends:
            end.close()
        stdin = PipeWriter(stdin_write.fileno())
        stdin.is_doomed = ReaderStatus(stat_fd, lambda: process.returncode is not None).is_doomed
        stack.callback(stdin.close)
        lines = LineProtocol(server.incoming.message_bytes)
        stack.callback(PipeReader(stdout_read.fileno(), lines).close)
        tail = None
        if stderr_read is not None:
            tail = TailProtocol(MAX_STDERR_BYTES)
            stack.callback(PipeReader(stderr_read.fileno(), tail).close)
        return Child(process, stdin, lines, tail, stack.pop_all())


def _pipe(stack: AsyncExitStack) -> tuple[io.FileIO, io.FileIO]:
    read, write = os.pipe()
    ends = io.FileIO(read, "r"), io.FileIO(write, "w")
    for end in ends:
        stack.callback(end.close)
    return ends


async def _end(process: asyncio.subprocess.Process, stdin: io.FileIO, mark: str) -> None:
    """Close its input, then send SIGTERM, then SIGKILL, with a grace period each; and reap it."""
    descendants: set[int] = set()
    try:
        with anyio.CancelScope(shield=True):
            descendants = await in_thread(descendants_of, process.pid)
            stdin.close()
            for signum, grace in (
                (None, _STDIN_GRACE_SECONDS),
                (signal.SIGTERM, _TERM_GRACE_SECONDS),
            ):
                if signum is not None:
                    signal_group(process.pid, signum)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(grace):
                        await process.wait()
                        break
    finally:
        # No scope shields from the end of the time to close, which is `Task.cancel`: then there is
        # no more grace. The leader may be gone, but not its descendants, in its group or outside.
        signal_group(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await in_thread(_kill_rest, process.pid, descendants, mark)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_KILL_GRACE_SECONDS):
                    await process.wait()


def _kill_rest(group: int, descendants: set[int], mark: str) -> None:
    """Kill the descendants of a process, and stop watching it; in a thread, which goes on."""
    for pid in descendants | marked({mark.encode()}):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    _guardian.unwatch(group)


def _limit(pid: int, mark: int) -> None:
    """Mark a process and its future descendants, where the system has something for it.

    Descendants that fork twice are adopted by the first process of the system, and their group and
    environment are theirs to change. The limit means nothing to a process without realtime
    priority, and nothing at this size to others. Those that were started before are found by the
    variable.
    """
    if not sys.platform.startswith("linux"):
        return
    import resource  # noqa: PLC0415  # POSIX only

    with contextlib.suppress(OSError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_RTTIME)
        if hard == resource.RLIM_INFINITY:
            resource.prlimit(pid, resource.RLIMIT_RTTIME, (mark, hard))


def _watch(pid: int, mark: str) -> int | None:
    """Have a process stopped when this one ends; return a descriptor of its status."""
    _guardian.watch(pid, mark)
    try:
        return os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def descendants_of(pid: int) -> set[int]:
    """Find the descendants of a process; empty where there is no /proc."""
    found: set[int] = set()
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children = {int(child) for child in listing.read_text().split()}
            for child in children - found:
                found |= {child} | descendants_of(child)
    return found


def signal_group(group: int, signum: int) -> None:
    """Signal a process group; ignore one that is gone."""
    with contextlib.suppress(OSError):
        os.killpg(group, signum)
