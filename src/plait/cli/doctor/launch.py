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
        """Look at the children of the process until the server is ready, or has failed."""
        began = time.monotonic()
        while (now := status()).state in {"idle", "connecting"}:
            self.watched_seconds = time.monotonic() - began
            if now.pid is not None:
                self._note(bool(await in_thread(descendants_of, now.pid)))
            await asyncio.sleep(_SAMPLE_SECONDS)

    def _note(self, has_children: bool) -> None:
        started = self.started_seconds
        if started is not None and self.watched_seconds - started >= _SURELY_STARTED_SECONDS:
            return
        if not has_children:
            self.started_seconds = None
        elif started is None:
            self.started_seconds = self.watched_seconds
