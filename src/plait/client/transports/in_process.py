"""The transport of a server in this process, which runs in a task of the session."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from copy import copy
from functools import partial
from typing import Any, cast

import anyio
import mcp
from anyio.abc import AsyncResource
from mcp.shared.message import SessionMessage

from plait._support import mcp_types as types
from plait.client.config.budgets import DEFAULT_LIMITS
from plait.client.config.servers import InProcessServer
from plait.client.protocol.exchange import PendingRequest
from plait.client.protocol.reading import ErrorDetail, Message, RequestId, message_from, parse_json
from plait.client.transports.sdk_messages import IS_SDK_1, message_from_plain, message_from_sdk
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
                await _serve_modern(server, inbox, wire)
                return
            # SDK 1.x would log a warning of sixty lines about a method that it does not know.
            inbox.skip()
            refusal = ErrorDetail(types.METHOD_NOT_FOUND, "Method not found")
            wire.take(Message(opening["id"], error=refusal))
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


async def _serve_modern(server: Any, inbox: _Inbox, wire: Wire) -> None:
    """Hand the requests of the modern era to their handlers at once, as SDK 2.x does it.

    Such a request has all that its handler needs, so there is no session to be kept in between.
    """
    # SDK 1.x does not have them.
    from mcp.server.runner import modern_on_request  # noqa: PLC0415
    from mcp.shared.direct_dispatcher import create_direct_dispatcher_pair  # noqa: PLC0415

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
            await inbox.hand_over(handlers.take)
        finally:
            await handlers.cancel_all()
            dispatching.cancel_scope.cancel()


class _Handlers:
    """Runs the handler of each request in a task."""

    def __init__(self, dispatcher: Any, wire: Wire) -> None:
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
        options: dict[str, Any] = {"request_id": request_id}
        meta: dict[str, Any] = params.get("_meta") or {}
        if (token := meta.get("progressToken")) is not None:
            options["on_progress"] = partial(self._report_progress, token)
        answer = Message(request_id)
        try:
            answer.result = await self._dispatcher.send_raw_request(method, params, options)
        except mcp.MCPError as error:
            answer.error = ErrorDetail(error.code, error.message, error.data)
        finally:
            self._running.pop(request_id, None)
        self._wire.take(answer)

    async def _report_progress(
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
        return message_from_plain(parse_json(body))

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
        message = message_from(message_from_sdk(item))
        if message is not None:
            await self._wire.dispatch(message, DEFAULT_LIMITS, None)

    async def aclose(self) -> None:
        pass
