"""A session over stdio without the MCP SDK: its handshake, and its list of tools.

The SDK takes most of the time in which a program starts. It takes over when something needs it:
a message that is no answer, or a request other than these.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import anyio
from pydantic import ValidationError
from pydantic_core import to_json

from plait._support import mcp_types as types
from plait.client.config.servers import ServerConfig, StdioServer
from plait.client.protocol.exchange import PendingRequest, RequestTemplate, collect, wake
from plait.client.protocol.peer import RequestError, closed
from plait.client.protocol.requests import (
    HANDSHAKE_VERSION,
    encoded,
    exchange,
    is_lean,
    list_request,
    result_of,
    timed_out_error,
)
from plait.client.transports.wire import Wire
from plait.client.transports.wire_log import LoggedWire
from plait.traces.spans import is_traced

if TYPE_CHECKING:
    from plait.client.connections.session_options import SessionOptions
    from plait.client.transports.stdio import StdioRead, StdioWrite

_DISCOVER_SECONDS = 10.0
"""How long a server may take to answer whether it is modern, as in the SDK."""
_INITIALIZED = to_json({"jsonrpc": "2.0", "method": "notifications/initialized"})
MODERN_FIELDS = frozenset({"resultType", "ttlMs", "cacheScope", "inputRequests", "requestState"})
"""Fields of results that the handshake era does not know."""


_ERAS = frozenset({"auto", "legacy", "modern"})
"""Settings of the protocol other than a version."""


class _NeedsSdkError(Exception):
    """The handshake takes a turn that is left to the SDK."""


def may_be_plain(
    server: ServerConfig, wire: Wire, options: SessionOptions
) -> TypeGuard[StdioServer]:
    """Return whether a session can begin without the SDK."""
    if not isinstance(server, StdioServer) or server.protocol not in _ERAS:
        return False
    if not is_lean() or wire.tape is not None or isinstance(wire, LoggedWire) or is_traced():
        return False
    return not (server.client_options or options.extra or options.log_level)


class PlainClient:
    """Holds what the server declared, by the names that the SDK's client has."""

    def __init__(
        self,
        streams: tuple[StdioRead, StdioWrite],
        transport: AsyncExitStack,
        wire: Wire,
        mode: str,
        options: SessionOptions,
    ) -> None:
        """Take what closes the streams, and read them until the SDK does."""
        self.streams = streams
        transport.push_async_callback(self._close)
        self.transport = transport.pop_all()
        """Closes the streams."""
        self.mode = mode
        self.options = options
        self.needs_sdk = asyncio.Event()
        """Set when a message has arrived that is no answer; or by others, who need the SDK."""
        self.replaced = asyncio.Event()
        """Set when the SDK's client is known to those who handle the messages that it reads."""
        self.protocol_version = ""
        self.server_info: types.Implementation | None = None
        self.server_capabilities = types.ServerCapabilities()
        self.instructions: str | None = None
        self._sender = streams[1].sender
        self._wire = wire
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        if await self.streams[0].next_arrival():
            self.needs_sdk.set()
            return
        if self._wire.before_end is not None:
            await self._wire.before_end()
        self._wire.end("the server closed the connection")
        self._end()

    def _end(self) -> None:
        self._wire.sender = None
        self._wire.fail_requests(closed())

    async def stop_reading(self) -> None:
        """Leave the streams to another reader."""
        self._reading.cancel()
        await asyncio.wait([self._reading])

    async def _close(self) -> None:
        await self.stop_reading()
        self._end()

    async def negotiate(self) -> bool:
        """Make the handshake; return whether it is made, or the SDK has to go on with it."""
        try:
            return await self._negotiate()
        except (_NeedsSdkError, ValidationError):
            return False

    async def _negotiate(self) -> bool:
        if self.mode == "auto":
            version = types.version.LATEST_MODERN_VERSION
            meta = {
                types.PROTOCOL_VERSION_META_KEY: version,
                types.CLIENT_INFO_META_KEY: self.options.client_info_fields(),
                types.CLIENT_CAPABILITIES_META_KEY: self.options.capabilities(),
            }
            try:
                raw = await self._ask("server/discover", {"_meta": meta}, version)
            except RequestError as error:
                if self._wire.ended:
                    raise
                if error.code == types.UNSUPPORTED_PROTOCOL_VERSION:
                    raise _NeedsSdkError from error
            else:
                return self._adopt_discovered(types.DiscoverResult.model_validate(raw), meta)
        params = {
            "protocolVersion": types.version.LATEST_HANDSHAKE_VERSION,
            "capabilities": self.options.capabilities(),
            "clientInfo": self.options.client_info_fields(),
        }
        try:
            raw = await self._ask("initialize", params, HANDSHAKE_VERSION)
        except RequestError as error:
            if self._wire.ended:
                raise
            raise _NeedsSdkError from error
        return self._adopt_initialized(types.InitializeResult.model_validate(raw, by_name=False))

    def _adopt_discovered(self, result: types.DiscoverResult, meta: dict[str, Any]) -> bool:
        versions = types.version.MODERN_PROTOCOL_VERSIONS
        if versions[-1] not in result.supported_versions:
            return False
        self._adopt(result, versions[-1])
        with suppress(ValidationError):  # as in the SDK, it is only for display
            identity = (result.meta or {}).get(types.SERVER_INFO_META_KEY)
            self.server_info = identity and types.Implementation.model_validate(identity)
        self._wire.template = RequestTemplate(versions[-1], meta, None)
        return True

    def _adopt_initialized(self, result: types.InitializeResult) -> bool:
        if result.protocol_version not in types.version.HANDSHAKE_PROTOCOL_VERSIONS:
            return False
        self._adopt(result, result.protocol_version)
        self.server_info = result.server_info
        self._wire.template = RequestTemplate(HANDSHAKE_VERSION, {}, None)
        self._sender.notify(_INITIALIZED)
        self._wire.is_initialized = True
        return True

    def _adopt(self, result: types.InitializeResult | types.DiscoverResult, version: str) -> None:
        self.protocol_version = version
        self.server_capabilities = result.capabilities
        self.instructions = result.instructions

    async def _ask(self, method: str, params: dict[str, Any], version: str) -> dict[str, Any]:
        """Send a request of the handshake, which the SDK gets the outcome of when it takes over."""
        wire = self._wire
        request = PendingRequest(method, wire.next_request_id(), version)
        answered = asyncio.get_running_loop().create_future()
        request.wake = partial(wake, answered)
        collect(request)
        wire.requests[request.request_id] = request
        wire.handshake.append(request)
        try:
            self._sender.send(encoded(request, params), request)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            wire.requests.pop(request.request_id, None)
            request.fail(closed())
        interrupted = asyncio.ensure_future(self.needs_sdk.wait())
        limit = _DISCOVER_SECONDS if method == "server/discover" else None
        try:
            await asyncio.wait(
                {answered, interrupted}, timeout=limit, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            interrupted.cancel()
        if not answered.done():
            if self.needs_sdk.is_set():
                raise _NeedsSdkError
            wire.requests.pop(request.request_id, None)
            request.fail(timed_out_error(request))
        return result_of(request)

    async def list_tools(self, *, cursor: str | None) -> types.ListToolsResult:
        """List one page of the tools."""
        sender, template = self._wire.sender, self._wire.template
        if sender is None or template is None:
            raise closed()
        params: dict[str, Any] = {"_meta": dict(template.meta)} if template.meta else {}
        if cursor is not None:
            params["cursor"] = cursor
        request = list_request("tools/list", self._wire.next_request_id(), template.version)
        raw = await exchange(self._wire, sender, request, params)
        if template.version == HANDSHAKE_VERSION:
            raw = {key: value for key, value in raw.items() if key not in MODERN_FIELDS}
        return types.ListToolsResult.model_validate(raw, by_name=False)
