"""The loop of a worker: reads a request per line, measures, writes a reply per line."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

from benchmarks.compare.workers import measure
from benchmarks.compare.workers.peer import Connection, Peer, Server, Unsupported


def serve(peer: Peer) -> None:
    """Serve requests until the input ends."""
    # Libraries print; only replies may reach the driver.
    replies = os.dup(1)
    os.dup2(2, 1)
    asyncio.run(Worker(peer, replies).run())
    # Threads and loops of libraries must not delay the end.
    sys.stderr.flush()
    os._exit(0)


class Worker:
    """Measures one contender and keeps its connections open between requests."""

    def __init__(self, peer: Peer, replies: int) -> None:
        self._peer = peer
        self._replies = replies
        self._held: dict[str, Holder] = {}

    async def run(self) -> None:
        """Answer every request, then close the connections."""
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                reply = await self._handle(json.loads(line))
            except Unsupported as error:
                reply = {"unsupported": str(error)}
            except Exception as error:  # noqa: BLE001 - boundary: a library may raise anything
                traceback.print_exc()
                reply = {"error": f"{type(error).__name__}: {error}"[:300]}
            if reply is not None:
                self._reply(reply)
        for holder in reversed(self._held.values()):
            await holder.close()

    def _reply(self, reply: dict[str, Any]) -> None:
        data = memoryview(json.dumps(reply).encode() + b"\n")
        while data:
            data = data[os.write(self._replies, data) :]

    async def _handle(self, request: dict[str, Any]) -> dict[str, Any] | None:
        kind = request["run"]
        if kind == "versions":
            return {"versions": versions(self._peer.packages)}
        if kind == "import":
            return {"rows": {"import": measure.one(self._peer.load)}}
        servers = [Server.from_json(server) for server in request["servers"]]
        if kind == "cold":
            return await self._cold(servers, request)
        if kind == "tools":
            return {"rows": await measure.catalogue(self._peer, servers, request["count"])}
        if kind == "heal":
            async with held(self._peer.connect(servers)) as connection:
                return {"rows": {"heal": await measure.heal(connection)}}
        connection = await self._connection(servers)
        return {"rows": {request["row"]: await measure.warm(kind, connection, request)}}

    async def _cold(self, servers: Sequence[Server], request: dict[str, Any]) -> None:
        """Reply at the first result, not after the connections are closed."""
        async with held(self._peer.connect(servers)) as connection:
            await connection.call("echo" + request["suffix"], {"text": "hello"})
            # The driver knows when it started this process, and measures the time itself.
            sample = {"samples": [0.0], "cpu": time.process_time()}
            self._reply({"rows": {request["row"]: sample}})

    async def _connection(self, servers: Sequence[Server]) -> Connection:
        key = repr(servers)
        holder = self._held.get(key)
        if holder is None:
            holder = self._held[key] = Holder(self._peer.connect(servers))
        return await holder.connection()


class Holder:
    """Enters and leaves a context in one task of its own, as libraries on anyio require."""

    def __init__(self, context: AbstractAsyncContextManager[Connection]) -> None:
        self._ready: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._hold(context))

    async def connection(self) -> Connection:
        """Wait until it is open."""
        return await asyncio.shield(self._ready)

    async def close(self) -> None:
        """Leave the context; errors of a library that cannot close go to the log."""
        self._stop.set()
        await asyncio.wait({self._task}, timeout=10)

    async def _hold(self, context: AbstractAsyncContextManager[Connection]) -> None:
        try:
            async with context as connection:
                self._ready.set_result(connection)
                await self._stop.wait()
        except BaseException as error:  # noqa: BLE001 - boundary: passed on to who waits
            if self._ready.done():
                traceback.print_exc()
            else:
                self._ready.set_exception(first_cause(error))


@asynccontextmanager
async def held(context: AbstractAsyncContextManager[Connection]) -> AsyncGenerator[Connection]:
    """Hold a context for a block."""
    holder = Holder(context)
    try:
        yield await holder.connection()
    finally:
        await holder.close()


def first_cause(error: BaseException) -> BaseException:
    """Unwrap groups of exceptions."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        error = group.exceptions[0]
    return error


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the installed versions of packages."""
    found = {"python": platform.python_version()}
    for package in packages:
        found[package] = importlib.metadata.version(package)
    return found
