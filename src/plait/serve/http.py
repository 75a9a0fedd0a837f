"""Serves clients over Streamable HTTP, in both eras of the protocol.

A client of the handshake era has a session by its id. One of the modern era has none: its requests
share servers behind with all others of its token that can do the same.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import gc
import json
import logging
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import uvicorn
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from plait._support import mcp_types as types
from plait._support.connection_limits import ConnectionLimits, protocol_with
from plait._support.http_servers import LOOPBACK, KnownHostsOnly
from plait._support.threads import in_thread
from plait.client.protocol.headers import (
    METHOD_HEADER,
    NAME_HEADER,
    VERSION_HEADER,
    routing_headers,
)
from plait.client.protocol.peer import RequestError
from plait.client.protocol.reading import LARGE_BYTES, Message, RequestId, coerced_id, read
from plait.serve.session import ClientSession, current_stream
from plait.serve.tokens import client_of, read_tokens

if TYPE_CHECKING:
    import socket

    from plait.client.protocol.exchange import PendingRequest

logger = logging.getLogger("plait.serve")

PATH: Final = "/mcp"
HEALTH: Final = "/health"
SESSION_HEADER: Final = "mcp-session-id"
MAX_BODY_BYTES: Final = 32_000_000
"""The size of a request, as large as a message of a server may be."""
MAX_SESSIONS: Final = 100
"""Sessions of all clients, each with servers of its own; the one idle for longest makes room."""
IDLE_SECONDS: Final = 1800.0
"""How long a session is kept that no request and no stream uses."""
MAX_WAITING_MESSAGES: Final = 256
"""How many messages wait for a client that has no stream open."""
GRACE_SECONDS: Final = 5
"""How long running requests may take after a signal."""
KEEP_ALIVE_SECONDS: Final = 15.0
"""How often something is sent on a stream that is quiet, so that proxies keep it open."""

OpenSession = Callable[[str], ClientSession]
"""Creates the session of a client, by the name of its token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """The address to listen on, and the clients to accept."""

    tokens: Path | None = None
    """The file with the hashes of tokens; while it has none, every client is accepted."""
    allowed_hosts: tuple[str, ...] = ()
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)


class _Stream:
    """The messages for one response, or for the stream of a session."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self.closed = False

    @property
    def has_messages(self) -> bool:
        return bool(self._messages)

    def put(self, body: bytes) -> None:
        if self.closed:
            raise anyio.BrokenResourceError
        self._messages.append(body)
        self._changed.set()

    async def deliver(self, body: bytes) -> None:
        self.put(body)

    def close(self) -> None:
        self.closed = True
        self._changed.set()

    def wake(self) -> None:
        """Let those who wait look whether anything has changed."""
        self._changed.set()

    async def changed(self, task: asyncio.Task[bytes] | None = None) -> None:
        """Wait until there is a message, or the end, also of a task that wakes the stream."""
        while not self._messages and not self.closed and (task is None or not task.done()):
            self._changed.clear()
            await self._changed.wait()

    async def events(self) -> AsyncGenerator[bytes]:
        """Yield the messages as events, until the end."""
        try:
            while True:
                while self._messages:
                    yield b"event: message\ndata: " + self._messages.popleft() + b"\n\n"
                if self.closed:
                    return
                try:
                    async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                        await self.changed()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self.closed = True


class _Outlet:
    """Sends what belongs to no request of a client on the stream that it has opened."""

    any_thread = False
    is_direct = True

    def __init__(self) -> None:
        self.stream: _Stream | None = None
        self._waiting: deque[bytes] = deque(maxlen=MAX_WAITING_MESSAGES)

    def attach(self, stream: _Stream) -> None:
        self.stream = stream
        while self._waiting:
            stream.put(self._waiting.popleft())

    def _put(self, body: bytes) -> None:
        if self.stream is not None and not self.stream.closed:
            self.stream.put(body)
        else:
            self._waiting.append(body)

    def send(self, body: bytes, request: PendingRequest) -> None:
        request.written = True
        own = current_stream.get()
        if isinstance(own, _Stream) and not own.closed:
            own.put(body)
        else:
            self._put(body)

    async def deliver(self, body: bytes) -> None:
        self._put(body)

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        del request
        self._put(notification)


@dataclass(slots=True, eq=False)
class _Session:
    """A session, and the task that it lives in."""

    owner: str
    session: ClientSession
    outlet: _Outlet = field(default_factory=_Outlet)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    running: dict[object, asyncio.Task[bytes]] = field(
        default_factory=dict["object", "asyncio.Task[bytes]"]
    )
    """The requests under way, in the handshake era by their ids."""
    used_at: float = 0.0

    @property
    def is_idle(self) -> bool:
        stream = self.outlet.stream
        return not self.running and (stream is None or stream.closed)


class HttpServer:
    """The clients of `plait serve --http`."""

    def __init__(self, open_session: OpenSession, options: HttpOptions) -> None:
        self._open_session = open_session
        self._options = options
        self._sessions: dict[str, _Session] = {}
        """Sessions of the handshake era, by their ids."""
        self._modern: dict[tuple[str, str], _Session] = {}
        """The servers behind of clients of the modern era, by token and capabilities."""
        self._needs_token = False
        """Whether there was a token; removing the last one lets nobody in."""
        self._tasks: set[asyncio.Task[None]] = set()
        """Those in which the sessions live."""
        routes = [
            Route(PATH, self._serve, methods=["GET", "POST", "DELETE"]),
            Route(HEALTH, self._health, methods=["GET"]),
        ]
        names = (*LOOPBACK, *options.allowed_hosts)
        self._routed = Starlette(routes=routes, lifespan=self._running)
        self.app = KnownHostsOnly(self._dispatch, names, open_paths=(HEALTH,))

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer requests of MCP; everything else goes through Starlette's routes."""
        # Its layers would take a third of the time that a call takes here.
        if scope["type"] == "http" and scope["path"] == PATH and scope["method"] == "POST":
            response = await self._serve(Request(scope, receive, send))
            await response(scope, receive, send)
        else:
            await self._routed(scope, receive, send)

    @asynccontextmanager
    async def _running(self, _app: object) -> AsyncGenerator[None]:
        sweeping = asyncio.get_running_loop().create_task(self._sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            for one in (*self._sessions.values(), *self._modern.values()):
                one.ended.set()
            await asyncio.gather(sweeping, *self._tasks, return_exceptions=True)

    def end_streams(self) -> None:
        """End the streams that no request has opened: they would go on for ever."""
        for one in self._sessions.values():
            if one.outlet.stream is not None:
                one.outlet.stream.close()
        for one in self._modern.values():
            one.session.end_listeners()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(60.0, IDLE_SECONDS / 10))
            for sessions in (self._sessions, self._modern):
                for key, one in tuple(sessions.items()):
                    if one.is_idle and time.monotonic() - one.used_at > IDLE_SECONDS:
                        del sessions[key]  # pyright: ignore[reportArgumentType]
                        one.ended.set()

    async def _health(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok", "sessions": len(self._sessions) + len(self._modern)})

    async def _serve(self, request: Request) -> Response:
        owner = self._owner(request)
        if owner is None:
            return JSONResponse({"error": "unauthorized"}, 401, {"WWW-Authenticate": "Bearer"})
        if request.method == "POST":
            try:
                return await self._post(request, owner)
            except ClientDisconnect:
                return Response(status_code=400)
        key = request.headers.get(SESSION_HEADER)
        if request.method == "GET" and key is None:
            return Response(status_code=405, headers={"Allow": "POST"})
        found = self._find(key, owner)
        if found is None:
            return _refusal(404 if key else 400, types.INVALID_REQUEST, "Session not found")
        if request.method == "DELETE":
            self._sessions.pop(str(key)).ended.set()
            return Response(status_code=204)
        return self._open_stream(found)

    def _owner(self, request: Request) -> str | None:
        """Return whose request it is; `None` if its token is not known."""
        if self._options.tokens is None:
            return ""
        # Read for each request, so that a token that was removed is refused at once.
        tokens = read_tokens(self._options.tokens)
        self._needs_token = self._needs_token or bool(tokens)
        if not self._needs_token:
            return ""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            return None
        return client_of(tokens, token.strip())

    def _find(self, key: str | None, owner: str) -> _Session | None:
        found = self._sessions.get(key or "")
        return found if found is not None and found.owner == owner else None

    def _open_stream(self, found: _Session) -> Response:
        stream = found.outlet.stream
        if stream is not None and not stream.closed:
            stream.close()  # the client has lost it, or it would not open another
        stream = _Stream()
        found.outlet.attach(stream)
        found.used_at = time.monotonic()
        return _event_stream(stream.events())

    async def _post(self, request: Request, owner: str) -> Response:
        accepted = request.headers.get("accept", "*/*")
        if "*/*" not in accepted and "application/json" not in accepted:
            return _refusal(406, types.INVALID_REQUEST, "Not Acceptable: accept application/json")
        if "application/json" not in request.headers.get("content-type", ""):
            return _refusal(415, types.INVALID_REQUEST, "Content-Type must be application/json")
        body = await _body_of(request)
        if body is None:
            text = f"a request has at most {MAX_BODY_BYTES:,} bytes"
            return _refusal(413, types.INVALID_REQUEST, text)
        try:
            message = await in_thread(read, body) if len(body) > LARGE_BYTES else read(body)
        except ValueError:
            return _refusal(400, types.PARSE_ERROR, "Parse error: it is no JSON-RPC message")
        if _is_modern(request, message):
            return await self._post_modern(request, owner, message)
        return await self._post_handshake(request, owner, message, body)

    async def _post_handshake(
        self, request: Request, owner: str, message: Message, body: bytes
    ) -> Response:
        headers: dict[str, str] = {}
        if message.method == "initialize" and message.id is not None:
            key = secrets.token_urlsafe(24)
            found = self._sessions[key] = self._open(owner)
            await self._started(found)
            headers = {SESSION_HEADER: key}
        else:
            key = request.headers.get(SESSION_HEADER)
            maybe = self._find(key, owner)
            if maybe is None:
                status, text = (404, "Session not found") if key else (400, "Missing session ID")
                return _refusal(status, types.INVALID_REQUEST, text, message.id)
            found = maybe
            version = request.headers.get(VERSION_HEADER)
            if version is not None and version not in types.version.HANDSHAKE_PROTOCOL_VERSIONS:
                text = f"Unsupported protocol version: {version}"
                return _refusal(400, types.INVALID_REQUEST, text, message.id)
        found.used_at = time.monotonic()
        if message.kind != "request" or message.id is None:
            self._take(found, message)
            if not found.session.peer.take_line(body) and message.method is None:
                await found.session.peer.receive(body)
            return Response(status_code=202)
        return await self._answer(found, message.id, message, headers)

    def _take(self, found: _Session, message: Message) -> None:
        if message.method == "notifications/cancelled":
            cancelled = coerced_id((message.params or {}).get("requestId"))
            if cancelled is not None and (task := found.running.get(cancelled)) is not None:
                task.cancel()
        elif message.method is not None:
            found.session.notified(message.method, message.params)

    async def _post_modern(self, request: Request, owner: str, message: Message) -> Response:
        if message.kind != "request" or message.id is None:
            return Response(status_code=202)
        params = message.params or {}
        if (text := _missing_meta(params)) is not None:
            return _refusal(400, types.INVALID_PARAMS, text, message.id)
        if (text := _mismatch(request, message.method or "", params)) is not None:
            return _refusal(400, _HEADER_MISMATCH, text, message.id)
        meta: dict[str, Any] = params.get("_meta") or {}
        declared = meta.get(types.CLIENT_CAPABILITIES_META_KEY)
        key = (owner, json.dumps(declared, sort_keys=True))
        if (found := self._modern.get(key)) is None:
            found = self._modern[key] = self._open(owner)
        await self._started(found)
        return await self._answer(found, message.id, message)

    def _open(self, owner: str) -> _Session:
        self._make_room()
        found = _Session(owner, self._open_session(owner))
        found.session.peer.use(found.outlet)

        async def live() -> None:
            async with found.session.open():
                found.ready.set()
                await found.ended.wait()

        found.task = asyncio.get_running_loop().create_task(live())
        self._tasks.add(found.task)
        found.task.add_done_callback(self._tasks.discard)
        return found

    async def _started(self, found: _Session) -> None:
        found.used_at = time.monotonic()
        await found.ready.wait()

    def _make_room(self) -> None:
        while len(self._sessions) + len(self._modern) >= MAX_SESSIONS:
            every = [
                (sessions, key, one)
                for sessions in (self._sessions, self._modern)
                for key, one in sessions.items()
            ]
            idle = [found for found in every if found[2].is_idle]
            sessions, key, oldest = min(idle or every, key=lambda found: found[2].used_at)
            del sessions[key]  # pyright: ignore[reportArgumentType]
            oldest.ended.set()

    async def _answer(
        self,
        found: _Session,
        request_id: RequestId,
        message: Message,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Answer a request: as JSON, or as events if something is told before the answer.

        `headers` are those of the handshake era.
        """
        stream, is_modern = _Stream(), headers is None
        work = _answer_body(found.session, stream, request_id, message)
        task = asyncio.get_running_loop().create_task(work)
        # Clients of the modern era may count their requests alike.
        key: object = task if is_modern else coerced_id(request_id) or request_id
        found.running[key] = task

        def ended(_task: object) -> None:
            found.running.pop(key, None)
            stream.wake()

        task.add_done_callback(ended)
        try:
            await stream.changed(task)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.done() and not stream.has_messages:
            if task.cancelled():
                return Response(status_code=202)
            return _json(task.result(), headers, is_modern=is_modern)

        def end(ended: asyncio.Task[bytes]) -> None:
            with suppress(anyio.BrokenResourceError):
                if not ended.cancelled():
                    stream.put(ended.result())
            stream.close()

        async def events() -> AsyncGenerator[bytes]:
            try:
                async for event in stream.events():
                    yield event
            finally:
                if is_modern:  # a client of the modern era cancels by closing the stream
                    task.cancel()

        task.add_done_callback(end)
        return _event_stream(events(), headers)


async def _answer_body(
    session: ClientSession, stream: _Stream, request_id: RequestId, message: Message
) -> bytes:
    current_stream.set(stream)
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id}
    try:
        answer["result"] = await session.answer(request_id, message.method or "", message.params)
    except RequestError as error:
        answer["error"] = {"code": error.code, "message": error.message}
        if error.data is not None:
            answer["error"]["data"] = error.data
    return to_json(answer, inf_nan_mode="null")


_HEADER_MISMATCH: Final = -32020
_STATUSES: Final = {
    _HEADER_MISMATCH: 400,
    -32021: 400,
    types.UNSUPPORTED_PROTOCOL_VERSION: 400,
    types.METHOD_NOT_FOUND: 404,
}
"""The HTTP status of errors in the modern era."""


def _json(body: bytes, headers: Mapping[str, str] | None, *, is_modern: bool) -> Response:
    status = 200
    if is_modern and body.startswith(b'{"jsonrpc":"2.0","id":') and b'"error":' in body[:4096]:
        error: dict[str, Any] = json.loads(body).get("error") or {}
        status = _STATUSES.get(error.get("code", 0), 200)
    return Response(body, status, dict(headers or {}), "application/json")


def _event_stream(events: AsyncGenerator[bytes], headers: Mapping[str, str] | None = None) -> Any:
    plain = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
    return StreamingResponse(
        events, headers={**plain, **(headers or {})}, media_type="text/event-stream"
    )


def _refusal(status: int, code: int, text: str, request_id: RequestId | None = None) -> Response:
    error = {"code": code, "message": text}
    return JSONResponse({"jsonrpc": "2.0", "id": request_id, "error": error}, status)


async def _body_of(request: Request) -> bytes | None:
    """Return the body of a request; `None` if it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)


def _is_modern(request: Request, message: Message) -> bool:
    if request.headers.get(SESSION_HEADER) is not None:
        return False
    version = request.headers.get(VERSION_HEADER)
    meta: Any = (message.params or {}).get("_meta")
    named = isinstance(meta, dict) and types.PROTOCOL_VERSION_META_KEY in meta
    handshake = types.version.HANDSHAKE_PROTOCOL_VERSIONS
    return named or (version is not None and version not in handshake)


def _missing_meta(params: Mapping[str, Any]) -> str | None:
    """Say what a request of the modern era does not tell about its client."""
    found: object = params.get("_meta")
    if not isinstance(found, dict):
        return "Invalid params: the request has no _meta"
    meta = cast("dict[str, object]", found)
    if not isinstance(meta.get(types.PROTOCOL_VERSION_META_KEY), str):
        return f"Invalid params: _meta has no {types.PROTOCOL_VERSION_META_KEY}"
    if not isinstance(meta.get(types.CLIENT_CAPABILITIES_META_KEY), dict):
        return f"Invalid params: _meta has no {types.CLIENT_CAPABILITIES_META_KEY}"
    return None


def _mismatch(request: Request, method: str, params: Mapping[str, Any]) -> str | None:
    """Say which header differs from the request that it repeats; `None` if none does."""
    # https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
    meta: Mapping[str, Any] = params.get("_meta") or {}
    expected = {VERSION_HEADER: str(meta.get(types.PROTOCOL_VERSION_META_KEY))}
    expected |= routing_headers(method, params)
    for name in (VERSION_HEADER, METHOD_HEADER, NAME_HEADER):
        if name not in expected:
            continue
        sent = request.headers.get(name)
        if sent is None:
            return f"Missing header {name}"
        if _decoded(sent) != _decoded(expected[name]):
            return f"Header {name} differs from the request"
    return None


def _decoded(value: str) -> str | None:
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, ValueError):
        return None


async def serve_http(server: HttpServer, options: HttpOptions, listener: socket.socket) -> None:
    """Serve until a signal arrives; running requests get a few seconds to finish."""
    config = uvicorn.Config(
        server.app,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        http=protocol_with(options.limits),
        ws="none",
        proxy_headers=False,
        # uvicorn declares whole seconds, and passes any number on to the loop.
        timeout_keep_alive=options.limits.idle_seconds,  # pyright: ignore[reportArgumentType]
    )
    # What is loaded by now lives until the end: the collector need not look at it again and again.
    gc.freeze()
    await _Server(config, server.end_streams).serve(sockets=[listener])


class _Server(uvicorn.Server):
    """Ends what only waits before it shuts down."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_streams = end_streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams, then answer what is under way, and close."""
        self._end_streams()
        await super().shutdown(sockets)
