"""A pool of HTTP/1.1 connections for POST requests to one origin.

httptools reads the responses. Sending, and handling what arrives, needs no task: the bytes of a
request are written by its caller, and a response is handled in the callbacks of its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import ipaddress
import select
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol, cast

import anyio
import h11
import httptools
import httpx2

from plait.client.transports.http_client import set_cookies

MAX_CONNECTIONS: Final = 100
"""More requests than this at the same time wait for a connection; httpx2 has the same limit."""

MAX_HEAD_BYTES: Final = 100 * 1024
"""The status line and headers of a response may have this size; httpx2 has the same limit."""

_KEEP_ALIVE_SECONDS: Final = 4.0
"""Idle connections are closed after this time; many servers close theirs after 5 s."""

_READ_BYTES: Final = 32 * 1024
"""How much is read before other tasks have their turn: it may be tens of thousands of lines."""

DRAIN_SECONDS: Final = 2.0
MAX_DRAIN_BYTES: Final = 64 * 1024
"""How long and how much of a response is read whose end nobody waits for."""

_NEXT_ADDRESS_SECONDS: Final = 1.0
"""When the next address of a host is tried. (asyncio's own way, trying them at the same time,
leaks sockets when it is cancelled.)"""

_MAX_SWEEP_SECONDS: Final = 1.0
"""Between two looks at what has waited too long: no timeout is over by more than this."""

_INCOMPLETE: Final = "peer closed connection without sending complete message body"

_NO_EXTENSIONS: Final[Mapping[str, Any]] = {}

Fields = list[tuple[bytes, bytes]]
"""Header names in lower case, with their values."""


class ResponseReader(Protocol):
    """Reads the response of one exchange."""

    def pause(self) -> None:
        """Receive nothing until `resume`, or the end of the exchange."""
        ...

    def resume(self) -> None:
        """Go on receiving."""
        ...

    def abort(self) -> None:
        """Receive nothing more."""
        ...


class HttpExchange:
    """One POST and its response; subclasses handle what happens to it."""

    def __init__(
        self,
        head: bytes,
        body: bytes,
        template: httpx2.Request,
        *,
        ended: bool = False,
    ) -> None:
        self.head = head
        self.body = body
        self.template = template
        """The same request for httpx2, without its body."""
        self.context = contextvars.copy_context()
        """The requesting task's."""
        self.extensions = _NO_EXTENSIONS
        """Those of a response of httpx2."""
        self.since = 0.0
        """When it was submitted, on the loop's clock."""
        self.connection: ResponseReader | None = None
        """What reads the response, once the request was written."""
        self.ended = ended
        """Whether nobody waits for the rest of the response."""

    def on_write(self) -> None:
        """Called before the request is written."""

    def on_response(self, status: int, headers: Fields) -> None:
        """Called with the head of the response."""

    def on_data(self, data: bytes) -> None:
        """Called with each part of the body, unless `ended`."""

    def on_end(self) -> None:
        """Called at the end of a whole body, unless `ended`."""

    def on_fault(self, fault: Exception) -> None:
        """Called when the response can no longer arrive, unless `ended`."""


def head_of(target: bytes, headers: Fields) -> bytes:
    """Return the bytes of a POST's head, up to its `Content-Length`."""
    request = h11.Request(method=b"POST", target=target, headers=headers)
    head = h11.Connection(h11.CLIENT).send(request) or b""
    return head.removesuffix(b"\r\n")


class HttpPool:
    """Connections that are kept open between requests; the last one used is used next."""

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        *,
        exchange_seconds: float,
        read_seconds: float,
    ) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._address: str | None = None
        self._exchange_seconds = exchange_seconds
        self._read_seconds = read_seconds
        self._loop = asyncio.get_running_loop()
        # Of the session, not of a request: connections outlive the request that opens them.
        self._context = contextvars.copy_context()
        self._idle: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()
        self._waiting: deque[HttpExchange] = deque()
        self._opening: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        shortest = min(exchange_seconds, read_seconds) / 4
        self._sweep_seconds = min(_MAX_SWEEP_SECONDS, max(shortest, 0.005))

    def submit(self, exchange: HttpExchange) -> None:
        """Write a request now, or as soon as there is a connection."""
        if self._closed:
            raise anyio.ClosedResourceError
        exchange.since = now = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._sweep_seconds, self._sweep)
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable(now):
                connection.start(exchange, now)
                return
            connection.abort()
        self._waiting.append(exchange)
        self._open_more()

    def drop(self, exchange: HttpExchange) -> None:
        """Give up an exchange: it is not written, or its connection is closed."""
        exchange.ended = True
        if exchange.connection is not None:
            exchange.connection.abort()
        elif exchange in self._waiting:
            self._waiting.remove(exchange)

    def abandon(self, exchange: HttpExchange) -> None:
        """Stop waiting for a response; its connection is closed if it does not end soon."""
        exchange.ended = True

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
        for connection in tuple(self._open):
            connection.abort()
        opening = tuple(self._opening)
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        await asyncio.sleep(0)  # the loop closes the sockets

    def reuse(self, connection: HttpConnection, now: float) -> None:
        """Use a connection for the next request, or keep it for later."""
        if not self._waiting:
            self._idle.append(connection)
        elif connection.is_usable(now):
            connection.start(self._waiting.popleft(), now)
        else:
            connection.abort()  # the server has closed it after the response

    def close_idle(self) -> None:
        """Close idle connections: a server that cut one connection may cut them all."""
        while self._idle:
            self._idle.pop().abort()

    def forget(self, connection: HttpConnection) -> None:
        """Forget a connection that is closed."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if not self._closed:
            self._open_more()

    def _open_more(self) -> None:
        while (
            len(self._opening) < len(self._waiting)
            and len(self._open) + len(self._opening) < MAX_CONNECTIONS
        ):
            task = self._loop.create_task(self._connect(), context=self._context.copy())
            self._opening.add(task)
            task.add_done_callback(self._end_opening)

    def _end_opening(self, task: asyncio.Task[None]) -> None:
        self._opening.discard(task)
        if not self._closed:
            self._open_more()

    async def _connect(self) -> None:
        """Open a connection to the first address of the host that can be reached."""
        try:
            async with asyncio.timeout(self._exchange_seconds):
                connection = await self._new_connection()
        except TimeoutError as error:
            self._fail_first(httpx2.ConnectTimeout(str(error)))
            return
        except OSError as error:
            self._fail_first(httpx2.ConnectError(str(error)))
            return
        self._open.add(connection)
        now = self._loop.time()
        # With TLS there may be something to read: tickets for later sessions.
        if self._tls is None and not connection.is_usable(now):
            connection.abort()
            self._fail_first(httpx2.ConnectError("the server closed the connection at once"))
        elif self._waiting:
            connection.start(self._waiting.popleft(), now)
        else:
            self._idle.append(connection)

    async def _new_connection(self) -> HttpConnection:
        try:
            addresses = [str(ipaddress.ip_address(self._host))]
        except ValueError:
            found = await self._loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
            addresses.sort(key=lambda address: address != self._address)  # the one used last first
        while True:
            address = addresses.pop(0)
            try:
                async with asyncio.timeout(_NEXT_ADDRESS_SECONDS if addresses else None):
                    _, connection = await self._loop.create_connection(
                        lambda: HttpConnection(self, self._loop),
                        address,
                        self._port,
                        ssl=self._tls,
                        server_hostname=self._host if self._tls is not None else None,
                    )
            except OSError:
                if not addresses:
                    raise
            else:
                self._address = address
                return connection

    def _fail_first(self, fault: httpx2.TransportError) -> None:
        if self._waiting:
            self._waiting.popleft().on_fault(fault)

    def _sweep(self) -> None:
        """End what has taken too long."""
        self._timer = None
        now = self._loop.time()
        while self._idle and not self._idle[0].is_young(now):
            self._idle.pop(0).abort()
        for connection in tuple(self._open):
            connection.check(now, self._read_seconds, self._exchange_seconds)
        while len(self._waiting) > len(self._opening) and (
            now - self._waiting[0].since > self._exchange_seconds
        ):
            self._fail_first(httpx2.PoolTimeout(""))
        if self._open or self._waiting:
            self._timer = self._loop.call_later(self._sweep_seconds, self._sweep)


class HttpConnection(asyncio.Protocol):
    """A connection, which handles one exchange at a time."""

    def __init__(self, pool: HttpPool, loop: asyncio.AbstractEventLoop) -> None:
        self._pool = pool
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._poll: select.poll | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._exchange: HttpExchange | None = None
        self._last_active = 0.0
        self._unflushed = False
        """Whether a part of the request is still to be given to the system."""
        self._drained_bytes = 0
        self._is_paused = False
        self._expect_response()

    def _expect_response(self) -> None:
        self._status = 0
        self._headers: Fields = []
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._bytes_without_body = 0
        self._is_whole = False
        self._may_be_kept = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Prepare the connection for its first exchange."""
        self._transport = cast("asyncio.Transport", transport)
        self._last_active = self._loop.time()
        self._transport.set_write_buffer_limits(high=0)
        if hasattr(transport, "max_size"):  # of asyncio's own, without TLS
            transport.max_size = _READ_BYTES  # pyright: ignore[reportAttributeAccessIssue]
        plain = transport.get_extra_info("socket")
        if hasattr(select, "poll") and plain is not None:
            self._poll = select.poll()
            self._poll.register(plain.fileno(), select.POLLIN)

    def is_young(self, now: float) -> bool:
        """Return whether the server is likely to keep the idle connection open."""
        return now - self._last_active < _KEEP_ALIVE_SECONDS

    def is_usable(self, now: float) -> bool:
        """Return whether an idle connection is open, as far as this end can know."""
        if self._transport is None or self._transport.is_closing() or not self.is_young(now):
            return False
        # What can be read from an idle connection is its end, which the loop has not seen yet.
        return self._poll is None or not self._poll.poll(0)

    def start(self, exchange: HttpExchange, now: float) -> None:
        """Write a request."""
        self._exchange, exchange.connection = exchange, self
        self._last_active, self._drained_bytes = now, 0
        exchange.on_write()
        length = b"content-length: %d\r\n\r\n" % len(exchange.body)
        if self._transport is not None:
            self._transport.write(b"".join((exchange.head, length, exchange.body)))
        if self._transport is None or self._transport.is_closing():
            self._fail(httpx2.WriteError("the connection was closed while the request was sent"))

    def pause(self) -> None:
        """Receive nothing until `resume`, or the end of the exchange."""
        if self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Go on receiving."""
        self._last_active = self._loop.time()
        if self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close the connection at once."""
        self._exchange = None
        if self._transport is not None:
            self._transport.abort()

    def check(self, now: float, read_seconds: float, write_seconds: float) -> None:
        """Close the connection if its exchange takes too long."""
        exchange, silence = self._exchange, now - self._last_active
        if exchange is None:
            return
        if exchange.ended:
            if silence > DRAIN_SECONDS:
                self.abort()
        elif self._unflushed:
            if silence > write_seconds:
                self._fail(httpx2.WriteTimeout(""))
        elif silence > read_seconds:
            self._fail(httpx2.ReadTimeout(""))

    def pause_writing(self) -> None:
        """Note that the system takes no more bytes."""
        self._unflushed = True

    def resume_writing(self) -> None:
        """Note that the system has taken all bytes."""
        self._unflushed = False
        self._last_active = self._loop.time()

    def data_received(self, data: bytes) -> None:
        """Handle a part of the response."""
        exchange = self._exchange
        if exchange is None:
            self.abort()  # nothing was requested
            return
        self._last_active = self._loop.time()
        had_status, fault = bool(self._status), None
        self._bytes_without_body += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            fault = httpx2.RemoteProtocolError(str(error))
            self._may_be_kept = False
        if self._status and not had_status:
            exchange.on_response(self._status, self._headers)
        if self._body:
            # All at once: a server may send each byte in a chunk of its own.
            body, self._body = b"".join(self._body), []
            self._bytes_without_body = 0
            if not exchange.ended:
                exchange.on_data(body)
            else:
                self._drained_bytes += len(body)
                if self._drained_bytes > MAX_DRAIN_BYTES:
                    self.abort()
        if self._exchange is not exchange:
            return
        if self._is_whole:
            self._finish(exchange)
        elif fault is not None:
            self._fail(fault)
        elif self._bytes_without_body > MAX_HEAD_BYTES:
            self._fail(httpx2.RemoteProtocolError("Receive buffer too long"))

    def eof_received(self) -> None:
        """Handle the end of what the server sends; the connection is closed then."""
        exchange, headers = self._exchange, dict(self._headers)
        if exchange is None:
            return
        if not self._status:
            text = "Server disconnected without sending a response."
        elif b"transfer-encoding" in headers:
            text = f"{_INCOMPLETE} (incomplete chunked read)"
        elif (length := headers.get(b"content-length")) is not None:
            missing = f"received {self._body_bytes} bytes, expected {int(length)}"
            text = f"{_INCOMPLETE} ({missing})"
        else:  # the body ends with the connection
            self._finish(exchange)
            return
        self._fail(httpx2.RemoteProtocolError(text))

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        self._transport = None
        if self._exchange is not None and self._unflushed:
            self._fail(httpx2.WriteError(str(exc or "the connection was closed")))
        elif self._exchange is not None:
            self._fail(httpx2.ReadError(str(exc or "the connection was closed")))
        self._pool.forget(self)

    def on_message_begin(self) -> None:
        """Called by the parser; more than one response means that the connection is unusable."""
        if self._is_whole:
            self._may_be_kept = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser for each header, and for those after a chunked body."""
        if not self._status:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Called by the parser; informational responses are skipped."""
        status = self._parser.get_status_code()
        if status < HTTPStatus.OK:
            self._headers = []
        elif not self._is_whole:
            self._status = status

    def on_body(self, data: bytes) -> None:
        """Called by the parser for each part of the body."""
        if not self._is_whole:  # what follows was not requested
            self._body.append(data)
            self._body_bytes += len(data)

    def on_message_complete(self) -> None:
        """Called by the parser at the end of a response."""
        if self._status and not self._is_whole:
            self._is_whole = True
            self._may_be_kept = self._parser.should_keep_alive()

    def _finish(self, exchange: HttpExchange) -> None:
        """End a whole response; the connection is kept if both ends want that."""
        self._exchange, exchange.connection = None, None
        if self._is_paused:
            self.resume()
        if self._may_be_kept and not self._unflushed and self._transport is not None:
            self._expect_response()
            self._pool.reuse(self, self._last_active)
        else:
            self.abort()
        if not exchange.ended:
            exchange.on_end()

    def _fail(self, fault: httpx2.TransportError) -> None:
        """End the exchange, and with it the connection."""
        exchange = self._exchange
        self.abort()
        self._pool.close_idle()
        if exchange is not None:
            exchange.connection = None
            if not exchange.ended:
                exchange.on_fault(fault)


class ClientPool:
    """Posts each exchange in a task, in the context of its request."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client
        self._tasks: dict[HttpExchange, asyncio.Task[None]] = {}
        self._closed = False

    def submit(self, exchange: HttpExchange) -> None:
        """Start to post a request."""
        if self._closed:
            raise anyio.ClosedResourceError
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._run(exchange), context=exchange.context.copy())
        self._tasks[exchange] = task
        task.add_done_callback(lambda _: self._tasks.pop(exchange, None))

    def drop(self, exchange: HttpExchange) -> None:
        """Give up an exchange, and close its connection."""
        exchange.ended = True
        if (task := self._tasks.get(exchange)) is not None:
            task.cancel()

    def abandon(self, exchange: HttpExchange) -> None:
        """Stop waiting for a response; its connection is closed if it does not end soon."""
        exchange.ended = True
        if (task := self._tasks.get(exchange)) is not None:
            asyncio.get_running_loop().call_later(DRAIN_SECONDS, task.cancel)

    async def close(self) -> None:
        """Give up all exchanges."""
        self._closed = True
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, exchange: HttpExchange) -> None:
        try:
            await self._post(exchange)
        except Exception as fault:  # noqa: BLE001  # boundary: code of the user may raise anything
            if not exchange.ended:
                exchange.on_fault(fault)
        else:
            if not exchange.ended:
                exchange.on_end()

    async def _post(self, exchange: HttpExchange) -> None:
        template = exchange.template
        headers = template.headers.copy()
        headers.pop("content-length", None)
        if "cookie" not in self._client.headers:
            headers.pop("cookie", None)  # the server may have set others since
        request = httpx2.Request(
            "POST",
            template.url,
            headers=headers,
            content=exchange.body,
            extensions=template.extensions,
        )
        set_cookies(request, self._client)
        response = await self._client.send(request, stream=True)
        async with contextlib.aclosing(response):
            reader = exchange.connection = _Reader()
            exchange.extensions = response.extensions
            fields = [(name.lower(), value) for name, value in response.headers.raw]
            exchange.on_response(response.status_code, fields)
            try:
                if response.is_stream_consumed:
                    exchange.on_data(response.content)
                    return
                async with contextlib.aclosing(response.aiter_raw()) as chunks:
                    async for chunk in chunks:
                        if not exchange.ended:
                            exchange.on_data(chunk)
                        if exchange.ended:
                            await _drain(chunks)
                            return
                        await reader.going.wait()
                        await asyncio.sleep(0)  # what has arrived is returned without waiting
            finally:
                exchange.connection = None


class _Reader:
    """Reads the response of an exchange, and may be paused."""

    def __init__(self) -> None:
        self.going = asyncio.Event()
        self.going.set()

    def pause(self) -> None:
        self.going.clear()

    def resume(self) -> None:
        self.going.set()

    def abort(self) -> None:
        self.going.set()  # the exchange has ended, so that what is read is dropped


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read a little more, so that the connection can be used again if the response ends there."""
    drained = 0
    with contextlib.suppress(TimeoutError, httpx2.RequestError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for chunk in chunks:
                drained += len(chunk)
                if drained > MAX_DRAIN_BYTES:
                    return
