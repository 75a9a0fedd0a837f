"""Clients of the SDK over every transport, for the tests of the servers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
from mcp import Client, StdioServerParameters, types
from mcp.shared.message import SessionMessage
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol


async def text(client: Client, tool: str, **arguments: object) -> str:
    """Call a tool, and return its text."""
    block = (await client.call_tool(tool, arguments)).content[0]
    assert isinstance(block, types.TextContent)
    return block.text


def command_of(config: dict[str, object]) -> list[str]:
    return [cast("str", config["command"]), *cast("list[str]", config["args"])]


def parameters(config: dict[str, object]) -> StdioServerParameters:
    program, *args = command_of(config)
    return StdioServerParameters(command=program, args=args)


@asynccontextmanager
async def websocket_client(url: str) -> AsyncGenerator[Any]:
    """The least a WebSocket client needs: text frames from and to message streams."""
    received, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    async with connect(url, subprotocols=[Subprotocol("mcp")], max_size=None) as socket:

        async def receive() -> None:
            async with received:
                try:
                    async for frame in socket:
                        message = types.jsonrpc_message_adapter.validate_json(frame, by_name=False)
                        await received.send(SessionMessage(message))
                except ConnectionClosed:
                    return

        async def send() -> None:
            async with to_send:
                async for message in to_send:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await socket.send(text)

        async with anyio.create_task_group() as tasks, read, write:
            tasks.start_soon(receive)
            tasks.start_soon(send)
            yield read, write
            tasks.cancel_scope.cancel()
