"""The server side of MCP over WebSocket: one JSON-RPC message per text frame.

The SDK no longer has this transport; servers and clients of it are still around, and a client
needs something to be tested against.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import jsonrpc_message_adapter
from pydantic import ValidationError
from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

SUBPROTOCOL = Subprotocol("mcp")

ReadMessages: TypeAlias = MemoryObjectReceiveStream[SessionMessage | Exception]
WriteMessages: TypeAlias = MemoryObjectSendStream[SessionMessage]

ServeStreams: TypeAlias = Callable[[ReadMessages, WriteMessages], Awaitable[None]]
"""Serve one connection until its read stream ends, as `mcp.server.Server.run` does."""

CheckRequest: TypeAlias = Callable[[ServerConnection, Request], Response | None]
"""Look at the HTTP request that opens a connection; a response refuses it."""


@asynccontextmanager
async def websocket_server(
    serve_streams: ServeStreams,
    listener: socket.socket,
    *,
    check_request: CheckRequest | None = None,
    on_written: Callable[[], None] = lambda: None,
) -> AsyncGenerator[WebSocketServer]:
    """Serve MCP on a listening socket while the context is open; messages may have any size.

    `on_written` is called after each message that was sent.
    """

    async def handle(connection: ServerConnection) -> None:
        async with websocket_streams(connection, on_written=on_written) as (read, write):
            await serve_streams(read, write)

    async with serve(
        handle,
        sock=listener,
        subprotocols=[SUBPROTOCOL],
        process_request=check_request,
        max_size=None,
        compression=None,
    ) as server:
        yield server


@asynccontextmanager
async def websocket_streams(
    connection: ServerConnection, *, on_written: Callable[[], None] = lambda: None
) -> AsyncGenerator[tuple[ReadMessages, WriteMessages]]:
    """Turn an open connection into the pair of message streams that an MCP server runs on."""
    received, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, to_send = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive_frames() -> None:
        # Carried with every message, as the HTTP transports do, so that tools see the headers.
        metadata = ServerMessageMetadata(request_context=connection.request)
        async with received:
            try:
                async for frame in connection:
                    await received.send(_message_from_frame(frame, metadata))
            except (ConnectionClosed, anyio.BrokenResourceError):
                return

    async def send_frames() -> None:
        async with to_send:
            async for message in to_send:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await connection.send(text)
                except ConnectionClosed:
                    return
                on_written()

    async with anyio.create_task_group() as tasks, read, write:
        tasks.start_soon(receive_frames)
        tasks.start_soon(send_frames)
        yield read, write
        await connection.close()
        tasks.cancel_scope.cancel()


def _message_from_frame(
    frame: str | bytes, metadata: ServerMessageMetadata
) -> SessionMessage | Exception:
    try:
        message = jsonrpc_message_adapter.validate_json(frame, by_name=False)
    except ValidationError as error:
        return error
    return SessionMessage(message, metadata=metadata)
