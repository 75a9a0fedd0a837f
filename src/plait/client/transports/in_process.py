"""The lean wire to a server in this process: requests go to its dispatcher, without the models."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, cast

import anyio
from mcp import MCPError
from mcp.shared.dispatcher import CallOptions, Dispatcher
from mcp_types import CONNECTION_CLOSED

from plait.client.protocol.exchange import PendingRequest, parse_json
from plait.client.protocol.peer import closed
from plait.client.protocol.requests import is_lean, template_from
from plait.client.transports.lean import OF_THE_SDK
from plait.client.transports.wire import Wire
from plait.client.transports.wire_log import logged_dispatcher
from plait.traces.spans import is_traced, trace_context

Connect = Callable[[AsyncExitStack, Any, bool], Awaitable["Dispatcher[Any]"]]


def connector(connect: Connect, wire: Wire) -> Connect:
    """Return what the SDK's client connects with; the lean wire uses its dispatcher too."""

    async def connected(stack: AsyncExitStack, mode: Any, raises: bool) -> Dispatcher[Any]:
        dispatcher = logged_dispatcher(await connect(stack, mode, raises), wire)
        ending = _EndingDispatcher(dispatcher)
        stack.callback(ending.close)
        if not is_lean():
            return cast("Dispatcher[Any]", ending)
        sender = InProcessSender(dispatcher, wire)
        wire.sender = sender
        stack.callback(sender.close)
        return cast("Dispatcher[Any]", _LearningDispatcher(ending, wire))

    return connected


class _EndingDispatcher:
    """The SDK's dispatcher, whose open requests end with the session instead of waiting on."""

    def __init__(self, inner: Dispatcher[Any]) -> None:
        self._inner = inner
        self._open: set[anyio.CancelScope] = set()

    async def send_raw_request(self, *args: Any, **related: Any) -> dict[str, Any]:
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            try:
                return await self._inner.send_raw_request(*args, **related)
            finally:
                self._open.discard(scope)
        raise MCPError(CONNECTION_CLOSED, "Connection closed")

    def close(self) -> None:
        """Cancel the handlers of open requests."""
        for scope in tuple(self._open):
            scope.cancel()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _LearningDispatcher:
    """The SDK's dispatcher, from whose first request the wire learns what all have in common."""

    def __init__(self, inner: _EndingDispatcher, wire: Wire) -> None:
        self._inner = inner
        self._wire = wire

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **related: Any,
    ) -> dict[str, Any]:
        if self._wire.template is None and method not in OF_THE_SDK:
            self._wire.template = template_from(params or {}, (opts or {}).get("headers"))
        if is_traced():
            fields = dict(params or {})
            fields["_meta"] = {**(fields.get("_meta") or {}), **trace_context()}
            params = fields
        return await self._inner.send_raw_request(method, params, opts, **related)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class InProcessSender:
    """Sends requests of our own, each in a task."""

    any_thread = False
    is_direct = True

    def __init__(self, dispatcher: Dispatcher[Any], wire: Wire) -> None:
        self._dispatcher = dispatcher
        self._wire = wire
        self._running: dict[object, asyncio.Task[None]] = {}

    def send(self, body: bytes, request: PendingRequest) -> None:
        """Send one request."""
        request.written = True
        params = cast("dict[str, Any]", parse_json(body))["params"]
        task = asyncio.get_running_loop().create_task(self._send(request, params))
        self._running[request.request_id] = task

    async def deliver(self, body: bytes) -> None:
        """Leave notifications and answers to the SDK."""
        raise NotImplementedError

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        """Cancel the handler of a request."""
        del notification
        if (task := self._running.get(request.request_id)) is not None:
            task.cancel()

    def close(self) -> None:
        """End the requests that have no response."""
        self._wire.sender = None
        for task in tuple(self._running.values()):
            task.cancel()
        self._wire.fail_requests(closed())

    async def _send(self, request: PendingRequest, params: dict[str, Any]) -> None:
        options: CallOptions = {"on_progress": partial(self._progress, request)}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request.request_id}
        try:
            result = await self._dispatcher.send_raw_request(request.method, params, options)
        except MCPError as error:
            self._wire.take({**message, "error": error.error.model_dump(exclude_none=True)})
        else:
            self._wire.take({**message, "result": result})
        finally:
            self._running.pop(request.request_id, None)

    async def _progress(
        self, request: PendingRequest, progress: float, total: float | None, message: str | None
    ) -> None:
        fields = {"progress": progress, "total": total, "message": message}
        self._wire.progress({"progressToken": request.request_id, **fields})
