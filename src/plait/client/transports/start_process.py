"""Starts the processes of stdio servers.

Needs nothing of the MCP SDK: a process starts up while the SDK is imported.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from plait._support.threads import in_thread
from plait.client.config.environment import child_environment
from plait.client.transports.process import Child, running_child
from plait.errors import ConfigError

if TYPE_CHECKING:
    from plait.client.config.servers import StdioServer
    from plait.client.transports.wire import Wire


@dataclass(frozen=True, slots=True)
class StartedProcess:
    """A running process, and what ends it."""

    child: Child
    stack: AsyncExitStack


async def start_process(server: StdioServer, wire: Wire) -> StartedProcess:
    """Start the process of a server.

    Raises:
        ConnectError: The program cannot be started.
    """
    if os.name != "posix":
        raise ConfigError("stdio servers need a POSIX system", server=wire.server)
    env = child_environment(server, os.environ)
    command = await in_thread(_resolved, server, env, wire)
    stack = AsyncExitStack()
    try:
        child = await stack.enter_async_context(
            running_child(
                [command, *server.args], env=env, cwd=server.cwd, stderr=_stderr_of(server)
            )
        )
    except OSError as error:
        reason = await in_thread(_start_failure, server, error)
        raise wire.connect_error(f"cannot start{reason}", retry="never") from error
    return StartedProcess(child, stack)


@asynccontextmanager
async def process_of(server: StdioServer, wire: Wire) -> AsyncGenerator[Child]:
    """Hold the process that was started for the wire, or start one; it ends with the block.

    Raises:
        ConnectError: The program cannot be started.
    """
    started, wire.started_process = wire.started_process, None
    if started is None:
        started = await start_process(server, wire)
    async with started.stack:
        yield started.child


async def end_unused_process(wire: Wire) -> None:
    """End a process that was started for the wire, if no transport has taken it."""
    started, wire.started_process = wire.started_process, None
    if started is not None:
        await started.stack.aclose()


def _resolved(server: StdioServer, env: dict[str, str], wire: Wire) -> str:
    """Find the program on the child's `PATH`."""
    if os.sep in server.command:
        return server.command
    path = shutil.which(server.command, path=env.get("PATH", os.defpath))
    if path is None and server.command in {"python", "python3"}:
        path = sys.executable
    if not path:
        text = f"cannot start: the command {server.command!r} was not found on PATH"
        raise wire.connect_error(text, retry="never")
    return path


def _start_failure(server: StdioServer, error: OSError) -> str:
    if server.cwd is not None and not Path(server.cwd).is_dir():
        return f": the folder {server.cwd!r} (cwd) does not exist"
    return f" {server.command!r}: {error.strerror or type(error).__name__}"


def _stderr_of(server: StdioServer) -> int | None:
    if server.stderr == "inherit":
        return None
    return asyncio.subprocess.DEVNULL if server.stderr == "ignore" else asyncio.subprocess.PIPE
