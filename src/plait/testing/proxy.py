"""A TCP proxy that breaks the network between a client and a server on demand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Literal, Self
from urllib.parse import urlsplit, urlunsplit

from plait.testing.ports import bind

_WAIT_SECONDS = 5.0
_CHUNK_BYTES = 64 * 1024

Mode = Literal["forward", "blackhole", "refuse"]


class FaultProxy:
    """Forwards a local port to another, with network faults on demand.

    It runs in its own thread, so it works with any event loop or none. With `idle_seconds`, idle
    connections are cut after that time.
    """

    def __init__(
        self, target_port: int, *, host: str = "127.0.0.1", idle_seconds: float | None = None
    ) -> None:
        self.port = 0
        """The port for clients; set inside the context."""
        self.connections = 0
        """The number of accepted connections."""
        self._target = (host, target_port)
        self._idle_seconds = idle_seconds
        self._mode: Mode = "forward"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: asyncio.Server | None = None
        self._stopping = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(_WAIT_SECONDS) or not self.port:
            raise RuntimeError("the proxy could not listen")
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_WAIT_SECONDS)

    def url_for(self, url: str) -> str:
        """Return a URL of the target with the proxy's port in it."""
        parts = urlsplit(url)
        return urlunsplit(parts._replace(netloc=f"{parts.hostname}:{self.port}"))

    @property
    def open_connections(self) -> int:
        """The number of open client connections."""
        return len(self._tasks)

    def forward(self) -> None:
        """Forward everything."""
        self._do(self._change("forward"))

    def blackhole(self) -> None:
        """Accept connections and discard all data, also on open connections."""
        self._do(self._change("blackhole"))

    def refuse(self) -> None:
        """Refuse new connections, and cut the open ones."""
        self._do(self._change("refuse"))

    def cut(self) -> None:
        """Cut every open connection; new ones are accepted."""
        self._do(self._cut())

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        if self._loop is None:
            what.close()
            raise RuntimeError("the proxy is not running: use it as a context manager")
        asyncio.run_coroutine_threadsafe(what, self._loop).result(_WAIT_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._change("forward")
        self._started.set()
        await self._stopping.wait()
        await self._change("refuse")
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._loop = None

    async def _change(self, mode: Mode) -> None:
        self._mode = mode
        if mode == "refuse":
            if self._server is not None:
                self._server.close()
                self._server = None
            await self._cut()
        elif self._server is None:
            listener = bind(port=self.port)
            self._server = await asyncio.start_server(self._accept, sock=listener)
            self.port = int(listener.getsockname()[1])

    async def _cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._open.add(writer)
        try:
            await self._link(reader, writer)
        except* OSError:
            pass  # one side closed or was idle: close the other
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode == "blackhole":
            while await reader.read(_CHUNK_BYTES):
                pass
            return
        target_reader, target_writer = await asyncio.open_connection(*self._target)
        self._open.add(target_writer)
        try:
            async with asyncio.timeout(self._idle_seconds) as idle, asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(reader, target_writer, idle))
                pumps.create_task(self._pump(target_reader, writer, idle))
        finally:
            self._open.discard(target_writer)
            target_writer.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, idle: asyncio.Timeout
    ) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            if self._idle_seconds is not None:
                idle.reschedule(asyncio.get_running_loop().time() + self._idle_seconds)
            if self._mode == "forward":
                writer.write(data)
                await writer.drain()
        writer.write_eof()
