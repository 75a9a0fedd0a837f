"""Stdio servers on Windows, where the process code of an installed MCP SDK runs them.

plait does not test this. It cannot tell there how much of a request was read, so a call that a
broken process has cut is never taken for one that was not sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache, partial
from importlib import import_module
from typing import IO, Any

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream
from typing_extensions import override

from plait._support.threads import import_in_thread, in_thread
from plait.client.config.secrets import child_environment
from plait.client.config.servers import StdioServer
from plait.client.protocol.reading import too_large
from plait.client.transports.pipes import LineSplitter
from plait.client.transports.wire import TaskSender, Wire, receiving
from plait.errors import ConfigError

logger = logging.getLogger("plait.client.transports")

_PROCESS_CODE = "mcp.os.win32.utilities"
_GRACE_SECONDS = 1.0
"""How long a server may take to exit once its input or its output is closed, and once killed."""
MAX_STDERR_BYTES = 256 * 1024
"""How much of a server's standard error is read when it has ended."""
_BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


@cache
def _warn_untested() -> None:
    logger.warning("stdio servers on Windows run on code of the MCP SDK; plait does not test this")


@asynccontextmanager
async def link_on_windows(server: StdioServer, wire: Wire) -> AsyncGenerator[None]:
    """Start the server, and receive what it sends during the block, or raise `ConnectError`."""
    try:
        await import_in_thread(_PROCESS_CODE)
        code: Any = import_module(_PROCESS_CODE)
    except ImportError:
        text = "stdio servers on Windows need the MCP SDK: pip install 'plait[sdk]'"
        raise ConfigError(f"{wire.server}: {text}", server=wire.server) from None
    _warn_untested()
    with tempfile.TemporaryFile() as captured:  # opened here, so that no cancellation loses it
        stderr = {"inherit": None, "ignore": subprocess.DEVNULL}.get(server.stderr, captured)
        command = await in_thread(code.get_windows_executable_command, server.command)
        env = child_environment(server, os.environ)
        try:
            process = await code.create_windows_process(
                command, list(server.args), env, stderr, server.cwd
            )
        except OSError as error:
            reason = error.strerror or type(error).__name__
            text = f"cannot start {server.command!r}: {reason}"
            raise wire.connect_error(text, retry="never") from error
        wire.pid = process.pid

        async def note_end() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_SECONDS):
                    wire.exit_code = await process.wait()
            lines = (await in_thread(_tail_of, captured)).splitlines()
            wire.read_stderr = lambda: lines

        try:
            wire.use(_PipeSender(process.stdin, wire))
            async with receiving(partial(_receive, process.stdout, server, wire), wire, note_end):
                yield
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process, code.terminate_windows_process_tree)


def _tail_of(file: IO[bytes]) -> bytes:
    file.seek(max(0, file.seek(0, os.SEEK_END) - MAX_STDERR_BYTES))
    return file.read()


async def _end(process: Any, terminate_tree: Callable[[Any], Any]) -> None:
    """Close its input, then stop it with its descendants, then kill it."""
    await process.stdin.aclose()
    for stop in (None, partial(terminate_tree, process), process.kill):
        # It may have ended meanwhile, and each way to stop it may be refused.
        with suppress(TimeoutError, OSError):
            if stop is not None and (stopping := stop()) is not None:
                await stopping
            async with asyncio.timeout(_GRACE_SECONDS):
                await process.wait()
                break
    await process.stdout.aclose()


async def _receive(output: ByteReceiveStream, server: StdioServer, wire: Wire) -> None:
    limits = server.incoming
    refusal = too_large(limits.message_bytes)
    splitter = LineSplitter(limits.message_bytes, partial(wire.lose_answer, reason=refusal))
    with suppress(anyio.EndOfStream, *_BROKEN):
        async for chunk in output:
            for line in splitter.feed(chunk):
                if not wire.take_line(line):
                    await wire.receive(
                        line,
                        limits,
                        encoding=server.encoding,
                        errors=server.encoding_error_handler,
                        advice="; logs belong on standard error",
                    )


class _PipeSender(TaskSender):
    """Writes one message after the other."""

    def __init__(self, pipe: ByteSendStream, wire: Wire) -> None:
        super().__init__(wire)
        self._pipe = pipe
        self._writing = asyncio.Lock()

    @override
    async def deliver(self, body: bytes) -> None:
        async with self._writing:
            try:
                await self._pipe.send(body + b"\n")
            except _BROKEN as error:
                raise anyio.BrokenResourceError from error
