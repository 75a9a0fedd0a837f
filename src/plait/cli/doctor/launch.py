"""Tells the download by a launcher such as npx or uvx from the start of the server itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path, PurePath

from plait._support.threads import in_thread
from plait.client.config.servers import ServerConfig, StdioServer
from plait.client.connections.status import ServerStatus
from plait.client.transports.process import descendants_of

LAUNCHERS = frozenset({"npx", "npm", "pnpm", "yarn", "bunx", "uvx", "uv", "pipx"})
"""Programs that install a server, and then start it as a child process."""

_LAUNCHER_SCRIPTS = frozenset({"npx-cli", "npm-cli"})
"""What Node runs as npx and npm, before they change the title of their process."""

_SAMPLE_SECONDS = 0.05
_SURELY_STARTED_SECONDS = 1.0
"""A child that lives as long is the server; launchers have helpers that end at once."""


class Launch:
    """Watches the process of a launcher while its server is being connected."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.watched_seconds = 0.0
        """How long the process was watched, until the server was ready or failed."""
        self.started_seconds: float | None = None
        """When the launcher had started the server; `None` if it had not."""

    @classmethod
    def of(cls, server: ServerConfig) -> Launch | None:
        """Watch a server that a launcher starts; `None` for others, and where there is no /proc."""
        if not isinstance(server, StdioServer) or not Path("/proc/self/task").exists():
            return None
        program = PurePath(server.command).name.removesuffix(".exe").removesuffix(".cmd")
        return cls(program) if program in LAUNCHERS else None

    async def watch(self, status: Callable[[], ServerStatus]) -> None:
        """Look at the processes it starts until the server is ready, or has failed."""
        began = time.monotonic()
        while (now := status()).state in {"idle", "connecting"}:
            self.watched_seconds = time.monotonic() - began
            if now.pid is not None:
                self._note(await in_thread(_has_started_server, now.pid))
            await asyncio.sleep(_SAMPLE_SECONDS)

    def _note(self, has_server: bool) -> None:
        started = self.started_seconds
        if started is not None and self.watched_seconds - started >= _SURELY_STARTED_SECONDS:
            return
        if not has_server:
            self.started_seconds = None
        elif started is None:
            self.started_seconds = self.watched_seconds


def _has_started_server(pid: int) -> bool:
    """Whether a descendant is no launcher: `npx` may be a script that starts the real one."""
    return not all(map(_is_launcher, descendants_of(pid)))


def _is_launcher(pid: int) -> bool:
    """Whether a process is a launcher, runs one as a script, or has ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ").split()
    except OSError:
        return True
    programs = {PurePath(word).stem for word in words[:2]}
    return not programs or not programs.isdisjoint(LAUNCHERS | _LAUNCHER_SCRIPTS)
