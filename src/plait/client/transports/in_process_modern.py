"""The modern era of a server of SDK 2.x in this process: requests go to their handlers at once.

A request of that era has all that its handler needs, so there is no session to be kept in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast

import anyio
from mcp import MCPError
from mcp.server import Server
from mcp.server.runner import modern_on_request
from mcp.shared.direct_dispatcher import DirectDispatcher, create_direct_dispatcher_pair
from mcp.shared.dispatcher import CallOptions

from plait.client.config.budgets import DEFAULT_LIMITS
from plait.client.protocol.exchange import parse_json
from plait.client.protocol.reading import Message, RequestId
from plait.client.transports.wire import Wire

Receive = Callable[[Callable[[bytes], None]], Awaitable[None]]
"""Gives every message to a function, until there are no more."""


async def serve_modern(server: Server[Any], receive: Receive, wire: Wire) -> None:
    """Handle requests until there are no more messages, as the SDK's own client does it."""
    ours, theirs = create_direct_dispatcher_pair(raise_handler_exceptions=False)

    async def notified(_context: Any, method: str, params: Mapping[str, Any] | None) -> None:
        message = Message(method=method, params=None if params is None else dict(params))
        await wire.dispatch(message, DEFAULT_LIMITS, None)

    async def never_called(*_arguments: Any) -> Any:
        raise NotImplementedError  # a server sends no requests, and we no notifications

    async with server.lifespan(server) as state, anyio.create_task_group() as dispatching:
        await dispatching.start(theirs.run, modern_on_request(server, state), never_called)
        await dispatching.start(ours.run, never_called, notified)
        handlers = _Handlers(ours, wire)
        try:
            await receive(handlers.take)
        finally:
            await handlers.cancel_all()
            dispatching.cancel_scope.cancel()


class _Handlers:
    """Runs the handler of each request in a task."""

    def __init__(self, dispatcher: DirectDispatcher, wire: Wire) -> None:
        self._dispatcher = dispatcher
        self._wire = wire
        self._running: dict[RequestId, asyncio.Task[None]] = {}

    def take(self, body: bytes) -> None:
        """Start the handler of a request, or cancel it; there are no other messages."""
        message = cast("dict[str, Any]", parse_json(body))
        request_id: RequestId | None = message.get("id")
        params: dict[str, Any] = message.get("params") or {}
        if request_id is not None:
            running = self._run(request_id, message["method"], params)
            self._running[request_id] = asyncio.get_running_loop().create_task(running)
        elif (task := self._running.get(params.get("requestId", ""))) is not None:
            task.cancel()

    async def _run(self, request_id: RequestId, method: str, params: dict[str, Any]) -> None:
        options: CallOptions = {"request_id": request_id}
        meta: dict[str, Any] = params.get("_meta") or {}
        if (token := meta.get("progressToken")) is not None:
            options["on_progress"] = partial(self._progressed, token)
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id}
        try:
            answer["result"] = await self._dispatcher.send_raw_request(method, params, options)
        except MCPError as error:
            answer["error"] = error.error.model_dump(exclude_none=True)
        finally:
            self._running.pop(request_id, None)
        self._wire.take(answer)

    async def _progressed(
        self, token: RequestId, progress: float, total: float | None, message: str | None
    ) -> None:
        fields = {"progressToken": token, "progress": progress, "total": total, "message": message}
        params = {key: value for key, value in fields.items() if value is not None}
        notification = Message(method="notifications/progress", params=params)
        await self._wire.dispatch(notification, DEFAULT_LIMITS, None)

    async def cancel_all(self) -> None:
        """Cancel the handlers, and wait until they have ended."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
