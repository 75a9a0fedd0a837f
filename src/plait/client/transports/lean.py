"""The lean wire: our own requests beside the SDK's, one parse and one future each.

The SDK keeps notifications, subscriptions and the requests of servers. With `PLAIT_WIRE=sdk` it
keeps every request, which tests compare with.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import anyio
from mcp import MCPError
from mcp.client._transport import Transport
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.dispatcher import CallOptions, Dispatcher, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext

from plait.client.protocol.exchange import PendingRequest
from plait.client.protocol.peer import RequestError, closed
from plait.client.protocol.requests import (
    exchange,
    list_request,
    template_from,
)
from plait.client.transports.wire import Wire
from plait.traces.spans import describe_request, is_traced, trace_context

OF_THE_SDK = frozenset({"initialize", "server/discover", "subscriptions/listen"})
"""Requests that change the SDK's own state, or have a stream of their own."""
_OPTIONS_OF_THE_SDK = frozenset({"request_id", "resumption_token", "on_resumption_token"})


def connector(
    transport: Transport, wire: Wire
) -> Callable[[AsyncExitStack, object, bool], Awaitable[Dispatcher[Any]]]:
    """Return what the SDK's client connects with."""

    async def connect(stack: AsyncExitStack, _mode: object, _raise: bool) -> Dispatcher[Any]:
        read, write = await stack.enter_async_context(transport)
        return LeanDispatcher(read, write, wire)

    return connect


class LeanDispatcher(JSONRPCDispatcher[TransportContext]):
    """The SDK's dispatcher, with requests of our own."""

    def __init__(
        self,
        read: ReadStream[SessionMessage | Exception],
        write: WriteStream[SessionMessage],
        wire: Wire,
    ) -> None:
        super().__init__(read, write)
        self._wire = wire

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Dispatch messages until the stream ends; then no request can be answered."""
        try:
            await super().run(on_request, on_notify, on_notify_intercept, task_status=task_status)
        finally:
            self._wire.sender = None
            self._wire.fail_requests(closed())

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: str | int | None = None,
    ) -> dict[str, Any]:
        """Send a request and return its result, or raise `MCPError`."""
        wire, opts = self._wire, opts or {}
        if wire.sender is None or method in OF_THE_SDK or not _OPTIONS_OF_THE_SDK.isdisjoint(opts):
            return await super().send_raw_request(
                method, params, opts, _related_request_id=_related_request_id
            )
        fields = dict(params or {})
        request = self._request(method, fields, opts)
        if is_traced():
            describe_request({"jsonrpc.request.id": str(request.request_id)})
            context = trace_context()
            request.headers = {**context, **(request.headers or {})}
            fields["_meta"] = {**(fields.get("_meta") or {}), **context}
        try:
            return await exchange(
                wire,
                request,
                fields,
                timeout_seconds=opts.get("timeout"),
                cancel=opts.get("cancel_on_abandon", True),
            )
        except RequestError as error:
            raise mcp_error(error) from None

    def _request(self, method: str, fields: dict[str, Any], opts: CallOptions) -> PendingRequest:
        template = template_from(fields, opts.get("headers"))
        if self._wire.template is None:
            self._wire.template = template
        request = list_request(method, self._wire.next_request_id(), template.version)
        request.headers = opts.get("headers")
        if (on_progress := opts.get("on_progress")) is not None:
            request.on_progress = on_progress
            fields["_meta"] = {**template.meta, "progressToken": request.request_id}
        return request


def mcp_error(error: RequestError) -> MCPError:
    """Return an error as the SDK raises it."""
    return MCPError(code=error.code, message=error.message, data=error.data)
