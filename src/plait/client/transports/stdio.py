"""The stdio transport: MCP on the standard input and output of a child process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage

from plait._support.threads import in_thread
from plait.client.config.environment import child_environment
from plait.client.config.servers import StdioServer
from plait.client.transports.framing import frames_of
from plait.client.transports.pipes import LineReader
from plait.client.transports.process import Child, running_child, signal_group
from plait.client.transports.streams import BorrowedStream, MessageSource
from plait.client.transports.wire import Wire, current_exchange
from plait.errors import ConfigError, ConnectError

logger = logging.getLogger("plait.client.transports.stdio")

_EXIT_GRACE_SECONDS = 0.5
"""How long to wait for exit code and stderr of a process whose output has ended."""

_ORPHAN_GRACE_SECONDS = 5.0
"""How long the children of an ended process, such as a wrapper, may finish their calls."""

_LONGEST_LINE = 4000
_LONGEST_READ = 64_000
"""How much of a line is searched for secrets."""


class _StdioWrite(BorrowedStream):
    """The child's standard input, one message per line."""

    def __init__(self, child: Child) -> None:
        self._child = child

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message in the sender's task."""
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        exchange = current_exchange()
        if self._child.is_doomed():
            raise anyio.BrokenResourceError
        if exchange is not None:
            exchange.written = True
        try:
            end = await self._child.stdin.send(text.encode() + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            if exchange is not None:
                exchange.written = False
            raise
        if exchange is not None:
            exchange.end_offset = end


class _StdioRead(MessageSource):
    """The child's standard output, as messages."""

    def __init__(self, lines: LineReader, wire: Wire, server: StdioServer) -> None:
        self._lines = lines
        self._wire = wire
        self._server = server
        self._messages: deque[JSONRPCMessage] = deque()

    async def __anext__(self) -> SessionMessage:
        while not self._messages:
            line = await self._lines.next_line()
            if line is None:
                raise StopAsyncIteration
            framed = frames_of(
                line,
                encoding=self._server.encoding,
                errors=self._server.encoding_error_handler,
            )
            if framed.noise:
                self._note_noise(line)
            self._messages.extend(framed.messages)
        return SessionMessage(self._messages.popleft())

    def _note_noise(self, line: bytes) -> None:
        self._wire.noise_lines += 1
        if self._wire.noise_lines == 1:
            sample = self._wire.redact.excerpt(line[:_LONGEST_READ].decode("utf-8", "replace"), 80)
            logger.warning(
                "%s writes to standard output what is not MCP (%s); logs belong on standard error",
                self._wire.server,
                sample,
            )


@asynccontextmanager
async def open_stdio(
    server: StdioServer, wire: Wire
) -> AsyncGenerator[tuple[_StdioRead, _StdioWrite]]:
    """Start the server and yield its two streams.

    Raises:
        ConnectError: The program cannot be started.
    """
    if os.name != "posix":
        raise ConfigError("stdio servers need a POSIX system", server=wire.server)
    env = child_environment(server, os.environ)
    command = await in_thread(_resolved, server, env, wire)
    try:
        async with (
            running_child(
                [command, *server.args], env=env, cwd=server.cwd, stderr=_stderr_of(server)
            ) as child,
            anyio.create_task_group() as tasks,
        ):
            wire.pid = child.pid
            stderr_ended = anyio.Event()
            tasks.start_soon(_keep_stderr, child, wire, stderr_ended)
            tasks.start_soon(_watch_exit, child, wire)
            wire.before_end = partial(_find_end_reason, child, wire, stderr_ended)
            try:
                yield _StdioRead(LineReader(child.stdout), wire, server), _StdioWrite(child)
            finally:
                tasks.cancel_scope.cancel()
    except OSError as error:
        if wire.pid is not None:
            raise
        reason = await in_thread(_cannot_start, server, error, wire)
        raise ConnectError(reason, server=wire.server, retry="never") from error


def _resolved(server: StdioServer, env: dict[str, str], wire: Wire) -> str:
    """Find the program on the child's `PATH`."""
    if os.sep in server.command:
        return server.command
    found = shutil.which(server.command, path=env.get("PATH", os.defpath))
    if found is None:
        if server.command in {"python", "python3"} and sys.executable:
            return sys.executable
        raise ConnectError(
            f"{wire.server}: cannot start: the command {server.command!r} was not found on PATH",
            server=wire.server,
            retry="never",
        )
    return found


def _cannot_start(server: StdioServer, error: OSError, wire: Wire) -> str:
    reason = error.strerror or type(error).__name__
    if server.cwd is not None and not Path(server.cwd).is_dir():
        return f"{wire.server}: cannot start: the folder {server.cwd!r} (cwd) does not exist"
    return f"{wire.server}: cannot start {server.command!r}: {reason}"


def _stderr_of(server: StdioServer) -> int | None:
    match server.stderr:
        case "inherit":
            return None
        case "ignore":
            return asyncio.subprocess.DEVNULL
        case _:
            return asyncio.subprocess.PIPE


async def _keep_stderr(child: Child, wire: Wire, stderr_ended: anyio.Event) -> None:
    if child.stderr is not None:
        lines = LineReader(child.stderr)
        while (line := await lines.next_line()) is not None:
            # Redacted before it is cut: half of a secret would not be found.
            text = wire.redact(line[:_LONGEST_READ].decode("utf-8", "replace").rstrip("\r"))
            wire.stderr.append(text[:_LONGEST_LINE])
            logger.debug("%s: %s", wire.server, text[:_LONGEST_LINE])
    stderr_ended.set()


async def _watch_exit(child: Child, wire: Wire) -> None:
    """End the session of an ended process, though its children may still answer."""
    wire.exit_code = await child.process.wait()
    await asyncio.sleep(0)  # its last output is read first
    wire.end("the server ended")
    await asyncio.sleep(_ORPHAN_GRACE_SECONDS)
    signal_group(child.pid, signal.SIGKILL)


async def _find_end_reason(child: Child, wire: Wire, stderr_ended: anyio.Event) -> None:
    """Find out why the output ended, and which requests the process never read."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_EXIT_GRACE_SECONDS):
            wire.exit_code = await child.process.wait()
            await stderr_ended.wait()
    consumed = child.stdin.consumed_bytes()
    for exchange in wire.pending.values():
        if exchange.end_offset > consumed:
            exchange.written = False
