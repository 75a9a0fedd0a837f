"""The lean wire: our own requests beside the SDK's, one parse and one future each.

The SDK keeps the handshake, notifications, subscriptions and the requests of servers. With
`PLAIT_WIRE=sdk` it keeps every request, which tests compare with.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import anyio
from mcp import MCPError
from mcp.client._transport import Transport
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.dispatcher import CallOptions, Dispatcher, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED, PROTOCOL_VERSION_META_KEY, REQUEST_TIMEOUT
from pydantic_core import to_json

from plait._support.causes import without_secrets
from plait._support.redact import Redactor
from plait._support.threads import in_thread
from plait.client.transports.repair import repair_result
from plait.client.transports.tool_rows import current_rows, may_mirror, parse_list
from plait.client.transports.wire import (
    PendingRequest,
    RequestTemplate,
    Sender,
    Wire,
    collect,
    parse_json,
    wake,
)
from plait.traces.spans import describe_request, is_traced, trace_context

logger = logging.getLogger("plait.client.transports")

HANDSHAKE_VERSION = "2025-11-25"
"""The version the SDK validates handshake-era results against, whichever was negotiated."""
OF_THE_SDK = frozenset({"initialize", "server/discover", "subscriptions/listen"})
"""Requests that change the SDK's own state, or have a stream of their own."""
_LARGE_LIST_BYTES = 256 * 1024
"""Larger lists of tools are checked and repaired in a thread."""
_OPTIONSOF_THE_SDK = frozenset({"request_id", "resumption_token", "on_resumption_token"})


def is_lean() -> bool:
    """Return whether requests take the lean wire, where a transport has one."""
    return os.environ.get("PLAIT_WIRE", "lean") != "sdk"


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
        sender, opts = self._wire.sender, opts or {}
        if sender is None or method in OF_THE_SDK or not _OPTIONSOF_THE_SDK.isdisjoint(opts):
            return await super().send_raw_request(
                method, params, opts, _related_request_id=_related_request_id
            )
        fields = dict(params or {})
        request = self._request(method, fields, opts)
        if not is_traced():
            return await self._exchange(sender, request, fields, opts)
        describe_request({"jsonrpc.request.id": str(request.request_id)})
        context = trace_context()
        request.headers = {**context, **(request.headers or {})}
        fields["_meta"] = {**(fields.get("_meta") or {}), **context}
        return await self._exchange(sender, request, fields, opts)

    def _request(self, method: str, fields: dict[str, Any], opts: CallOptions) -> PendingRequest:
        template = template_from(fields, opts.get("headers"))
        if self._wire.template is None:
            self._wire.template = template
        request = PendingRequest(method, self._wire.next_request_id(), template.version)
        if method == "tools/list" and (rows := current_rows()) is not None:
            request.wants_body, request.parse = True, partial(parse_list, most=rows.most)
        request.headers = opts.get("headers")
        if (on_progress := opts.get("on_progress")) is not None:
            request.on_progress = on_progress
            fields["_meta"] = {**template.meta, "progressToken": request.request_id}
        return request

    async def _exchange(
        self, sender: Sender, request: PendingRequest, fields: Mapping[str, Any], opts: CallOptions
    ) -> dict[str, Any]:
        woken = asyncio.get_running_loop().create_future()
        request.wake = partial(wake, woken)
        await anyio.lowlevel.checkpoint_if_cancelled()
        collect(request)
        limit = asyncio.timeout(opts.get("timeout"))
        self._wire.requests[request.request_id] = request
        self._wire.parse = request.parse
        try:
            sender.send(encoded(request, fields), request)
            async with limit:
                await woken
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise closed() from None
        except (asyncio.CancelledError, TimeoutError) as ended:
            timed_out = isinstance(ended, TimeoutError) and limit.expired()
            if opts.get("cancel_on_abandon", True):
                reason = (f"timed out after {opts.get('timeout')}s",) if timed_out else ()
                self._wire.cancel(request, *reason)
            if timed_out:
                text = f"Request {request.method!r} timed out"
                raise MCPError(code=REQUEST_TIMEOUT, message=text) from None
            raise
        finally:
            self._wire.requests.pop(request.request_id, None)
            self._wire.parse = parse_json
        if request.body is not None and len(request.body) > _LARGE_LIST_BYTES:
            result = await in_thread(_list_of, request)
        else:
            result = _list_of(request)
        self._wire.note_repairs(request)
        if not request.wants_body or (rows := current_rows()) is None:
            return result
        body, request.body, request.message = request.body, None, None  # they are large
        return rows.take(result, body, mirror=request.may_mirror)


def template_from(params: Mapping[str, Any], headers: Mapping[str, str] | None) -> RequestTemplate:
    """Return what a request after the handshake has in common with all later ones."""
    meta: dict[str, Any] = params.get("_meta") or {}
    version = meta.get(PROTOCOL_VERSION_META_KEY) or HANDSHAKE_VERSION
    return RequestTemplate(version, meta, (headers or {}).get(MCP_PROTOCOL_VERSION_HEADER))


def encoded(request: PendingRequest, params: Mapping[str, Any]) -> bytes:
    """Write a request as JSON."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": request.request_id, "method": request.method}
    if params:
        message["params"] = params
    return to_json(message, inf_nan_mode="null")


def closed() -> MCPError:
    """Return the error of a request whose connection has ended."""
    return MCPError(code=CONNECTION_CLOSED, message="Connection closed")


def error_of(request: PendingRequest) -> Exception | None:
    """Return why an ended request has no result; `None` if it has one."""
    if request.fault is not None:
        return request.fault
    error = (request.message or {}).get("error")
    if error is None:
        return None
    return MCPError(code=error["code"], message=error["message"], data=error.get("data"))


def _list_of(request: PendingRequest) -> dict[str, Any]:
    """Return the result of an ended request, which may be a list of tools."""
    if request.body is not None:
        request.may_mirror = may_mirror(request.body)
    return result_of(request)


def result_of(request: PendingRequest) -> dict[str, Any]:
    """Return the result of an ended request, repaired where needed, or raise its `MCPError`."""
    if (error := error_of(request)) is not None:
        raise error
    message = request.message or {}
    try:
        repaired = repair_result(
            request.method, message["result"], request.version, may_mirror=request.may_mirror
        )
    except Exception as error:  # boundary: no result, however odd, may end the session
        request.wants_body = False  # the SDK has to check it
        safe = without_secrets(error, Redactor(()))
        logger.error("a result could not be repaired", exc_info=safe)
        return message["result"]
    request.notes += repaired.notes
    return repaired.result
