"""Runs a stock session of the installed MCP SDK, 1.x or 2.x, over a transport of our own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from math import inf
from typing import Any

import anyio
import mcp
from anyio.abc import AsyncResource
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import ClientSession
from mcp import types as sdk_types
from mcp.shared.message import SessionMessage
from pydantic_core import to_json

from plait._support import mcp_types as types
from plait.client.protocol.exchange import PendingRequest, RequestTemplate, collect
from plait.client.protocol.handshake import supported_versions
from plait.client.protocol.peer import Peer, RequestError, closed
from plait.client.protocol.read_results import HANDSHAKE_VERSION, read_aside, result_of
from plait.client.protocol.reading import RequestId, coerced_id
from plait.client.transports.sdk_messages import IS_SDK_1, message_from_plain, message_from_sdk
from plait.errors import ClientClosedError, ConfigError

_OF_SDK_2 = frozenset({"cache", "log_level"})
"""Arguments that a session of SDK 1.x does not have."""
_MODELS = {
    "client_info": sdk_types.Implementation,
    "sampling_capabilities": sdk_types.SamplingCapability,
}
"""Arguments that are models of the SDK."""

StockStreams = tuple[MemoryObjectReceiveStream[SessionMessage], "StockWrite"]
"""What a stock session reads and writes."""


async def enter_stock(
    stack: AsyncExitStack,
    transport: AbstractAsyncContextManager[StockStreams],
    mode: str,
    arguments: Mapping[str, Any],
) -> ClientSession:
    """Open a stock session on the stack, and make the handshake.

    The arguments are those of the client of SDK 2.x.
    """
    if IS_SDK_1:
        return await _enter_sdk_1(stack, transport, mode, arguments)
    client = mcp.Client(transport, mode=mode, **arguments)
    await stack.enter_async_context(client)
    if mode in types.version.MODERN_PROTOCOL_VERSIONS:
        # The SDK does not verify a pinned version; discovery notices a dead server.
        raw = await _discover(client.session, mode)
        client.session.adopt(types.DiscoverResult.model_validate(raw))
    return client.session


async def _discover(session: ClientSession, version: str) -> dict[str, Any]:
    """Discover a modern server; retry once if it refuses a version that it then lists."""
    try:
        return await session.send_discover(version)
    except mcp.MCPError as error:
        listed = version in (supported_versions(error.data) or ())
        if error.code != types.UNSUPPORTED_PROTOCOL_VERSION or not listed:
            raise
    return await session.send_discover(version)


async def _enter_sdk_1(
    stack: AsyncExitStack,
    transport: AbstractAsyncContextManager[StockStreams],
    mode: str,
    arguments: Mapping[str, Any],
) -> ClientSession:
    if mode in types.version.MODERN_PROTOCOL_VERSIONS:
        text = f"a session of MCP SDK 1 does not speak protocol {mode}"
        raise ConfigError(f'{text}: leave "protocol" out, or install mcp>=2.3')
    known = {name: value for name, value in arguments.items() if name not in _OF_SDK_2}
    for name, kind in _MODELS.items():
        if known[name] is not None:
            known[name] = kind.model_validate(known[name].model_dump(by_alias=True))
    read, write = await stack.enter_async_context(transport)
    session = await stack.enter_async_context(ClientSession(read, write, **known))
    await session.initialize()
    return session


@asynccontextmanager
async def stock_streams(
    link: AbstractAsyncContextManager[None], peer: Peer
) -> AsyncGenerator[StockStreams]:
    """Open a transport, and yield the streams of a stock session that uses it."""
    to_session, read = anyio.create_memory_object_stream[SessionMessage](inf)
    write = StockWrite(peer, to_session)
    peer.handler = write
    with to_session, read:
        async with link:
            yield read, write


class StockWrite(AsyncResource):
    """The stream that the session writes; what the server sends goes to the one that it reads.

    Its requests are pending requests of the peer, with the ids that the session has given them.
    """

    def __init__(self, peer: Peer, to_session: MemoryObjectSendStream[SessionMessage]) -> None:
        self._peer = peer
        self._to_session = to_session
        self._asked: dict[RequestId, asyncio.Future[dict[str, Any]]] = {}
        """Requests of the server that the session has not answered."""
        self._loop = asyncio.get_running_loop()

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message of the session.

        Raises:
            ClientClosedError: It is used in another event loop, where no answer would arrive.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise ClientClosedError(
                f"{self._peer.server}: this session was opened in another event loop: use it "
                "there, or open one here. The tools of get_tools() can be called in every loop"
            )
        message = message_from_sdk(item)
        match message:
            case {"method": "notifications/cancelled", "params": {"requestId": request_id}} if (
                request := self._peer.requests.pop(request_id, None)
            ) is not None:
                self._peer.cancel(request, message["params"].get("reason") or "caller cancelled")
            case {"method": _, "id": _}:
                self._send_request(message, getattr(item.metadata, "headers", None))
            case {"method": _}:
                await self._peer.deliver(message)
            case {"id": request_id}:
                answer = self._asked.get(coerced_id(request_id) or request_id)
                if answer is not None and not answer.done():
                    answer.set_result(message)
            case _:
                pass

    async def aclose(self) -> None:
        """Leave the transport to who has opened it."""

    def _send_request(self, message: dict[str, Any], headers: dict[str, str] | None) -> None:
        peer, request_id = self._peer, message["id"]
        match message:
            case {"params": {"_meta": {types.PROTOCOL_VERSION_META_KEY: str() as version}}}:
                pass
            case _:
                version = HANDSHAKE_VERSION
        request = PendingRequest(message["method"], request_id, version)
        request.headers = headers
        request.wake = partial(self._pass_outcome, request)
        collect(request)
        if peer.sender is None:
            request.fail(closed())
            return
        peer.requests[request_id] = request
        try:
            peer.sender.send(to_json(message, inf_nan_mode="null"), request)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            peer.requests.pop(request_id, None)
            request.fail(closed())

    def _pass_outcome(self, request: PendingRequest) -> None:
        if request.fault is None:
            self._peer.start(self._pass_result(request))
        else:
            self._pass_error(request, request.fault)

    async def _pass_result(self, request: PendingRequest) -> None:
        try:
            result = await read_aside(request, result_of)
        except RequestError as error:
            self._pass_error(request, error)
            return
        self._peer.note_repairs(request)
        if request.method == "initialize":
            # HTTP transports name the version that was agreed on in every request.
            version = result.get("protocolVersion")
            self._peer.template = RequestTemplate(HANDSHAKE_VERSION, {}, version)
        self._pass_on(id=request.request_id, result=result)

    def _pass_error(self, request: PendingRequest, error: Exception) -> None:
        code = error.code if isinstance(error, RequestError) else types.CONNECTION_CLOSED
        detail: dict[str, Any] = {"code": code, "message": str(error)}
        if isinstance(error, RequestError) and error.data is not None:
            detail["data"] = error.data
        self._pass_on(id=request.request_id, error=detail)

    def _pass_on(self, **fields: Any) -> None:
        present = {key: value for key, value in fields.items() if value is not None}
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._to_session.send_nowait(message_from_plain({"jsonrpc": "2.0", **present}))

    def notified(self, method: str, params: dict[str, Any] | None) -> None:
        """Pass a notification of the server on."""
        self._pass_on(method=method, params=params)

    async def answer(
        self, request_id: RequestId, method: str, params: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Let the session answer a request of the server, or raise `RequestError`."""
        key = coerced_id(request_id) or request_id
        answer = self._asked[key] = asyncio.get_running_loop().create_future()
        self._pass_on(id=request_id, method=method, params=params)
        try:
            message = await answer
        finally:
            del self._asked[key]
        if (error := message.get("error")) is not None:
            raise RequestError(error["code"], error["message"], error.get("data"))
        return message["result"]
