"""The transport of a server in this process, which runs in a task of the session."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from copy import copy
from typing import Any

import anyio
from anyio.abc import AsyncResource
from mcp.shared.message import SessionMessage

from plait._support import mcp_types as types
from plait.client.config.budgets import DEFAULT_LIMITS
from plait.client.config.servers import InProcessServer
from plait.client.protocol.exchange import PendingRequest, parse_json
from plait.client.protocol.reading import Message
from plait.client.transports.sdk_messages import IS_SDK_1, message_from_json, message_from_sdk
from plait.client.transports.wire import Wire
from plait.errors import ConfigError


@asynccontextmanager
async def link_in_process(server: InProcessServer, wire: Wire) -> AsyncGenerator[None]:
    """Run the server during the block, which raises what the server fails with."""
    runner, inbox = _stream_server(server.server, wire), _Inbox()
    wire.use(_InProcessSender(inbox))
    serving = asyncio.get_running_loop().create_task(_serve(runner, inbox, wire))
    try:
        yield
    finally:
        # Requests fail before the server ends, which would answer them with an error of its own.
        wire.close()
        inbox.end()
        try:
            await asyncio.wait([serving], timeout=server.timeouts.close_seconds)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            await wire.aclose()
        if not serving.cancelled() and (error := serving.exception()) is not None:
            raise error


def _stream_server(server: Any, wire: Wire) -> Any:
    """Return what runs a server over streams: the `Server` itself, or that of an `MCPServer`.

    `MCPServer`, and `FastMCP` of SDK 1.x, name it in public only as the app of their HTTP sessions.
    """
    if hasattr(server, "create_initialization_options"):
        return server
    if not hasattr(server, "streamable_http_app"):
        kind = f"{type(server).__module__}.{type(server).__name__}"
        text = f"{wire.server}: {kind} is no server of the MCP SDK"
        raise ConfigError(f"{text}; start it as a process, or give its URL", server=wire.server)
    try:
        manager = server.session_manager
    except RuntimeError:  # it is not served over HTTP yet
        server = copy(server)  # that of the user does not get this manager
        server.streamable_http_app()
        manager = server.session_manager
    return manager.app


async def _serve(server: Any, inbox: _Inbox, wire: Wire) -> None:
    try:
        opening = await inbox.first()
        if _is_modern(opening):
            if not IS_SDK_1:
                from plait.client.transports.in_process_modern import serve_modern  # noqa: PLC0415

                await serve_modern(server, inbox.hand_over, wire)
                return
            # SDK 1.x would log a warning of sixty lines about a method that it does not know.
            inbox.skip()
            refusal = {"code": types.METHOD_NOT_FOUND, "message": "Method not found"}
            wire.take({"jsonrpc": "2.0", "id": opening["id"], "error": refusal})
        await server.run(inbox, _Outbox(wire), server.create_initialization_options())
    finally:
        wire.end("the server ended")
        wire.close()


def _is_modern(opening: dict[str, Any]) -> bool:
    """Return whether the first message of a session is a request of the modern era."""
    match opening:
        case {"id": _, "method": method, "params": {"_meta": {**meta}}} if method != "initialize":
            return types.PROTOCOL_VERSION_META_KEY in meta
        case _:
            return False


class _InProcessSender:
    """Passes messages to the server."""

    any_thread = False
    is_direct = True

    def __init__(self, inbox: _Inbox) -> None:
        self._inbox = inbox

    def send(self, body: bytes, request: PendingRequest) -> None:
        self._inbox.put(body)
        request.written = True

    async def deliver(self, body: bytes) -> None:
        self._inbox.put(body)

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        del request
        self._inbox.put(notification)


class _Inbox(AsyncResource):
    """The messages for the server: the stream that it reads, until they are handed over."""

    def __init__(self) -> None:
        self.last_context: contextvars.Context | None = None
        """The context the last message was sent in; SDK 2.x runs its handler there."""
        self._bodies: deque[tuple[contextvars.Context, bytes]] = deque()
        self._arrived = asyncio.Event()
        self._ended = asyncio.Event()
        self._handle: Callable[[bytes], None] | None = None

    def put(self, body: bytes) -> None:
        """Pass a message on."""
        if self._handle is not None:
            self._handle(body)
        else:
            self._bodies.append((contextvars.copy_context(), body))
            self._arrived.set()

    async def first(self) -> dict[str, Any]:
        """Wait for the first message, and return it without taking it; empty if there is none."""
        await self._arrived.wait()
        return parse_json(self._bodies[0][1]) if self._bodies else {}

    def skip(self) -> None:
        """Drop the first message."""
        self._bodies.popleft()

    async def hand_over(self, handle: Callable[[bytes], None]) -> None:
        """Give every message to a function when it is sent, until there are no more."""
        for _, body in self._bodies:
            handle(body)
        self._handle = handle
        await self._ended.wait()

    def __aiter__(self) -> _Inbox:
        return self

    async def __anext__(self) -> SessionMessage:
        while not self._bodies:
            if self._ended.is_set():
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        self.last_context, body = self._bodies.popleft()
        return message_from_json(body)

    async def receive(self) -> SessionMessage:
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    def end(self) -> None:
        """Let the server read the end of its input."""
        self._ended.set()
        self._arrived.set()

    async def aclose(self) -> None:
        self.end()


class _Outbox(AsyncResource):
    """The stream that the server writes; each message is handled in the task that writes it."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def send(self, item: SessionMessage, /) -> None:
        message = message_from_sdk(item)
        if "method" not in message:
            self._wire.take(message)
            return
        del message["jsonrpc"]
        await self._wire.dispatch(Message(**message), DEFAULT_LIMITS, None)

    async def aclose(self) -> None:
        pass
