"""The HTTP client under the HTTP transports.

In the SDK a network fault in one request ends the whole session, and status, headers and body of
an error response are lost. This client records them on their exchange, and turns a fault into a
response that fails only that request.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, Final, cast

import httpx2
from cachetools import TTLCache, cached
from mcp import MCPError
from mcp.client.streamable_http import MAX_RECONNECTION_ATTEMPTS

from plait._support.gather import resolve
from plait._support.threads import in_thread, lock_across_forks
from plait.client.config.budgets import IncomingLimits
from plait.client.config.secrets import secrets_in_headers
from plait.client.config.servers import HttpServer, RemoteOptions, SseServer
from plait.client.protocol.exchange import Exchange, PendingRequest, current_exchange
from plait.client.protocol.http_reply import Advice, HttpReply
from plait.client.transports.auth.challenge import ADVICE, SignInNeededError
from plait.client.transports.auth.choose import auth_of
from plait.client.transports.auth.oauth import OAuthAuth
from plait.client.transports.http_answers import (
    checked_answer,
    longest_answer,
    misread,
    readable_events,
    too_large_answer,
)
from plait.client.transports.http_decoding import decoded_body
from plait.client.transports.library_logs import redacted_library_logs
from plait.client.transports.wire import Wire
from plait.errors import ConfigError, PlaitError

logger = logging.getLogger("plait.client.transports")

Send = Callable[..., Awaitable[httpx2.Response]]

Observe = Callable[[Exchange | None, httpx2.Response], None]
"""Gets each response, with the exchange whose message it answers."""

SESSION_HEADER: Final = "mcp-session-id"
VERSION_HEADER: Final = "mcp-protocol-version"
MOST_REDIRECTS: Final = 5

NEVER_COMPLETE = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.WriteError,
    httpx2.WriteTimeout,
    httpx2.UnsupportedProtocol,
    httpx2.ProxyError,
)
"""Faults after which the server cannot have received the whole request."""

_NOTIFICATION_SECONDS = 5.0
"""The SDK sends one message at a time, so an unanswered notification would block the rest."""
LONGEST_REFUSAL_BYTES: Final = 1024 * 1024
"""How much is read of a body that is no message: of an error, a redirect, or of OAuth."""
_LONGEST_BODY = 4000
_LONGEST_READ = 64_000
"""How much of an error's body is searched for secrets."""
_FAULT_CODE = -32000
_TRUST_SECONDS = 600
"""How long certificates that were read are used for new sessions."""
_SAME_METHOD = frozenset({301, 302, 307, 308})
"""Statuses after which the same method is repeated. Browsers turn a POST into a GET after the first
two, which would lose the message; 303 requires that, so it is not followed."""
"""Its tools are bounded by their number."""
_UNPATCHED_SEND = httpx2.AsyncHTTPTransport.handle_async_request


@cached(
    TTLCache[Any, ssl.SSLContext](4, _TRUST_SECONDS),
    key=lambda: (os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
    lock=lock_across_forks(),
)
def trusted_certificates() -> ssl.SSLContext:
    """Read the certificates that the machine trusts, which takes longer than a small session."""
    return httpx2.create_ssl_context()


async def headers_of(server: RemoteOptions, wire: Wire) -> dict[str, str]:
    """Return the current headers; a function is called, and the secrets in its result hidden."""
    if not callable(server.headers):
        return dict(server.headers)
    headers = dict(await resolve(server.headers()))
    wire.hide(secrets_in_headers(headers))
    return headers


@asynccontextmanager
async def open_http_client(
    server: HttpServer | SseServer,
    wire: Wire,
    *,
    observe: Observe | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[httpx2.AsyncClient]:
    """Open the HTTP client for one session, by default with the certificates of the machine."""
    timeout = httpx2.Timeout(server.exchange_seconds, read=server.stream_read_seconds)
    headers = await headers_of(server, wire)
    auth = auth_of(server, wire.server, wire.hide)
    factory: Callable[..., object] | None = server.http_client_factory
    if factory is None:
        # In threads: they read files.
        verify = tls or await in_thread(trusted_certificates)
        factory = partial(httpx2.AsyncClient, verify=verify)
    client: object = await in_thread(factory, headers=headers, timeout=timeout, auth=auth)
    if not isinstance(client, httpx2.AsyncClient):
        raise ConfigError(
            f"{wire.server}: the HTTP client factory returned {type(client).__module__}."
            f"{type(client).__name__}; it must return an httpx2.AsyncClient",
            server=wire.server,
        )
    if isinstance(auth, OAuthAuth):
        auth.attach(client.send)
    client.event_hooks["response"].append(partial(_bound_body, wire, server.incoming))
    # Every request goes through `send`, also those of auth flows and redirects.
    setattr(client, "send", _Send(client, wire, server, observe))  # noqa: B010
    async with client:
        yield client


class _Send:
    """`AsyncClient.send`, which records what happens to each exchange."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        wire: Wire,
        server: HttpServer | SseServer,
        observe: Observe | None,
    ) -> None:
        self._client = client
        self._plain_send: Send = client.send
        self._wire = wire
        self._server = server
        self._observe = observe
        self._origin = origin_of(httpx2.URL(server.url))
        self._notifications = _NotificationStream(wire)

    async def __call__(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        exchange = current_exchange()
        if callable(self._server.headers) and origin_of(request.url) == self._origin:
            # Called every time: its result, such as a token, may change.
            request.headers.update(await headers_of(self._server, self._wire))
        if isinstance(exchange, PendingRequest) and isinstance(self._server, HttpServer):
            exchange.written = True
            return await self._send_signed_in(request, **options)  # its sender handles the rest
        if request.method == "DELETE":
            return await self._end_session(request, **options)
        if request.method == "GET" and SESSION_HEADER in request.headers:
            opened = self._notifications.opened(self._send_signed_in(request, **options))
            # A response on it answers the request whose stream it resumes, if it resumes one.
            resumed = None if exchange is None or exchange.request_id is None else exchange
            return self._with_readable_events(await opened, resumed)
        if request.method != "POST" or exchange is None:
            return await self._send_signed_in(request, **options)
        if exchange.request_id is None:
            timeout = cast("dict[str, float]", request.extensions.get("timeout", {}))
            request.extensions = {
                **request.extensions,
                "timeout": {**timeout, "read": _NOTIFICATION_SECONDS},
            }
        response: httpx2.Response | None = None
        try:
            exchange.written = True
            response = await self._send_signed_in(request, **options)
            if not response.is_success:
                exchange.reply = self._wire.reply = await reply_from(response, self._wire)
                return _whole(response, exchange.reply)
            if is_json(response):
                await response.aread()
            else:
                response.stream = _Stream(response.stream, partial(_note_end, exchange))
            if exchange.request_id is not None and isinstance(self._server, HttpServer):
                return await self._checked(response, exchange)
        except TooLargeError:
            reason = too_large_answer(exchange, self._wire, self._server.incoming)
            # The SDK may try another handshake, whose error would hide this one.
            logger.warning("%s: %s", self._wire.server, reason)
            if response is not None:
                await response.aclose()
            return misread(httpx2.Response(200, request=request), exchange, reason)
        except (httpx2.RequestError, PlaitError) as fault:
            if response is not None:
                await response.aclose()
            return self._failed(request, exchange, fault)
        return response

    async def _checked(self, response: httpx2.Response, exchange: Exchange) -> httpx2.Response:
        """Return what the SDK can read of the response to a request."""
        if not response.headers.get(SESSION_HEADER, "").isascii():
            # https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
            # It has only visible ASCII characters; others cannot be sent in a header.
            await response.aclose()
            return misread(response, exchange, "the server gave a session id that is not ASCII")
        kind = response.headers.get("content-type", "").lower()
        if not kind.startswith("text/event-stream"):
            checked = await checked_answer(response, exchange, kind, self._server.incoming)
            if checked is not response:
                await response.aclose()
            return checked
        return self._with_readable_events(response, exchange)

    def _with_readable_events(
        self, response: httpx2.Response, exchange: Exchange | None
    ) -> httpx2.Response:
        if "content-encoding" not in response.headers:
            watch = partial(readable_events, self._wire, self._server, exchange)
            response.stream = _Stream(response.stream, watch)
        return response

    async def _send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send, following redirects within the same origin only.

        The client's own redirect handling is off: it would forward the configured headers.
        """
        options["follow_redirects"] = False
        followed = 0
        while True:
            response = await self._send_once(request, **options)
            if not response.has_redirect_location:
                return response
            await response.aread()
            await response.aclose()
            following = redirected(request, response, self._client)
            if following is None or followed == MOST_REDIRECTS:
                return refused_redirect(request, response)
            request = following
            followed += 1

    async def _send_once(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        before = dict(request.headers)
        try:
            # Here too: the SDK sends in the context of the requesting task.
            with redacted_library_logs(self._wire):
                response = await self._plain_send(request, **options)
            if self._observe is not None:
                self._observe(current_exchange(), response)
            return response
        finally:
            # Headers that appear only now were added by an auth object, or from the URL's userinfo.
            added = dict(request.headers.items() - before.items())
            if added:
                self._wire.hide(secrets_in_headers(added))

    async def _send_signed_in(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send; if signing in is needed, return a response with the advice."""
        try:
            return await self._send(request, **options)
        except SignInNeededError as needed:
            return needed.response(request)

    async def _end_session(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """End the session on the server, if it is still open."""
        if not self._wire.ended:
            with contextlib.suppress(httpx2.TransportError, PlaitError, SignInNeededError):
                response = await self._send(request, **options)
                if response.is_success or response.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
                    return response
                await response.aclose()
        return httpx2.Response(204, request=request)

    def _failed(
        self, request: httpx2.Request, exchange: Exchange, fault: httpx2.RequestError | PlaitError
    ) -> httpx2.Response:
        """Return a response for a fault, so that only this request fails, not the session.

        A `PlaitError` comes from signing in, before the request was sent.
        """
        exchange.failure = fault
        exchange.written = not isinstance(fault, (*NEVER_COMPLETE, PlaitError))
        text = f"{type(fault).__name__}: {self._wire.redact(str(fault))}"
        body = {"jsonrpc": "2.0", "id": None, "error": {"code": _FAULT_CODE, "message": text}}
        return httpx2.Response(503, request=request, json=body)


def fail_request(request: PendingRequest, wire: Wire, fault: Exception) -> None:
    """Make a request fail with a network fault, or with what its headers or sign-in raised."""
    request.failure = fault
    request.written = request.written and not isinstance(fault, (*NEVER_COMPLETE, PlaitError))
    text = f"{type(fault).__name__}: {wire.redact(str(fault))}"
    request.fail(MCPError(code=_FAULT_CODE, message=text))


class TooLargeError(httpx2.RequestError):
    """The body of a response has more bytes than a message may have."""


async def _bound_body(wire: Wire, limits: IncomingLimits, response: httpx2.Response) -> None:
    """Bound the body of a response, after decompression.

    Events have bounds of their own. What is no message, such as a refusal or the answer of an
    authorization server, is cut.
    """
    may_be_message = "text/event-stream" in response.request.headers.get("accept", "")
    is_message = may_be_message and response.is_success
    kind = response.headers.get("content-type", "").lower()
    is_stream = is_message and kind.startswith("text/event-stream")
    if is_stream and "content-encoding" not in response.headers:
        return
    # httpx2 keeps all that follows the end of gzip, and knows the other encodings.
    is_gzip = response.headers.get("content-encoding", "").lower() in {"gzip", "x-gzip"}
    inner = httpx2.Response(200, headers=response.headers, stream=response.stream)
    response.headers.pop("content-encoding", None)
    longest = longest_answer(current_exchange(), wire, limits)
    most = longest if is_message else LONGEST_REFUSAL_BYTES

    async def bounded(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        received = 0
        async for piece in decoded_body(chunks) if is_gzip else inner.aiter_bytes():
            received += 0 if is_stream else len(piece)
            if received > most and is_message:
                raise TooLargeError("", request=response.request)
            yield piece
            if received > most:
                return

    response.stream = _Stream(response.stream, bounded)


class _Stream(httpx2.AsyncByteStream):
    """The bytes of a response, passed through a generator that watches them."""

    def __init__(self, inner: Any, watch: Callable[[Any], AsyncIterator[bytes]]) -> None:
        self._inner = inner
        self._watch = watch

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._watch(self._inner)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _note_end(exchange: Exchange, chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    try:
        async for chunk in chunks:
            yield chunk
    finally:
        exchange.stream_ended = True


class _NotificationStream:
    """Watches the stream of server notifications, which the SDK reopens when it ends.

    The SDK silently gives up after a few failures in a row; this class counts them too.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._worked = False
        self._failures = 0

    async def opened(self, pending: Awaitable[httpx2.Response]) -> httpx2.Response:
        try:
            response = await pending
        except httpx2.RequestError:
            self._failed()
            raise
        if response.is_success:
            self._worked = True
            response.stream = _Stream(response.stream, self._watch)
        else:
            self._failed()
        return response

    async def _watch(self, chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        """Note how the stream ends; a read timeout counts as its end."""
        try:
            async for chunk in chunks:
                yield chunk
        except httpx2.ReadTimeout:
            pass
        except httpx2.RequestError:
            self._failed()
            raise
        self._failures = 0

    def _failed(self) -> None:
        """Note that it broke or was refused; a server without such a stream loses nothing."""
        self._failures += 1
        if self._worked and self._failures >= MAX_RECONNECTION_ATTEMPTS:
            self._wire.lose_notifications()


async def reply_from(response: httpx2.Response, wire: Wire) -> HttpReply:
    """Read an error response, and record its relevant parts."""
    try:
        await response.aread()
        body = response.text
    except httpx2.RequestError:
        body = ""  # the status is known, even if the body is lost
    return reply_of(response, body, wire)


def reply_of(response: httpx2.Response, body: str, wire: Wire) -> HttpReply:
    """Record the relevant parts of an error response."""
    return HttpReply(
        status=response.status_code,
        retry_after=response.headers.get("retry-after"),
        challenge=response.headers.get("www-authenticate"),
        # Redacted before it is cut: half of a secret would not be found.
        body=wire.redact(body[:_LONGEST_READ])[:_LONGEST_BODY],
        error_code=_error_code(body) if is_json(response) else None,
        had_session=SESSION_HEADER in response.request.headers,
        advice=cast("Advice | None", response.extensions.get(ADVICE)),
    )


def _whole(response: httpx2.Response, reply: HttpReply) -> httpx2.Response:
    """Return a response whose body can be read, even if it was cut off."""
    try:
        _ = response.content
    except httpx2.ResponseNotRead:
        return httpx2.Response(reply.status, request=response.request)
    return response


def is_json(response: httpx2.Response) -> bool:
    """Return whether a response says that its body is JSON."""
    return response.headers.get("content-type", "").lower().startswith("application/json")


def _error_code(body: str) -> int | None:
    try:
        match json.loads(body):
            case {"error": {"code": int() as code}}:
                return code
            case _:
                return None
    except (ValueError, RecursionError):
        return None


def is_plain(server: HttpServer, client: httpx2.AsyncClient) -> bool:
    """Return whether requests to a server need nothing but HTTP/1.1, TLS and fixed headers.

    Auth objects, functions for headers, client factories, proxies and credentials in the URL need
    httpx2, as does a program that replaces its transport, to trace requests or to answer them.
    """
    url = httpx2.URL(server.url)
    transport = client._transport  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    direct = client._transport_for_url(url) is transport  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return (
        direct
        and server.auth is None
        and server.http_client_factory is None
        and not callable(server.headers)
        and not url.userinfo
        and url.scheme in {"http", "https"}
        and httpx2.AsyncHTTPTransport.handle_async_request is _UNPATCHED_SEND
    )


class HttpSession:
    """What the handshake over httpx2 says about a session."""

    def __init__(self) -> None:
        self.session_id: str | None = None
        self.version: str | None = None
        self.has_stream = False
        """Whether the server has answered the request for its stream of notifications."""
        self.on_cookie: Callable[[], object] = lambda: None
        self.on_stream: Callable[[], object] = lambda: None

    def observe(self, exchange: Exchange | None, response: httpx2.Response) -> None:
        """Note session id, protocol version and cookies of a response."""
        if "set-cookie" in response.headers:
            self.on_cookie()
        if response.request.method == "GET":
            self.has_stream = True
            self.on_stream()
        if exchange is None:
            return
        if exchange.method == "initialize":
            if response.is_success:
                self.session_id = response.headers.get(SESSION_HEADER) or self.session_id
        elif (version := response.request.headers.get(VERSION_HEADER)) is not None:
            self.version = version


def origin_of(url: httpx2.URL) -> tuple[str, str, int | None]:
    """Return scheme, host and port, which identify a server."""
    return url.scheme, url.host, url.port


def shown_origin(url: httpx2.URL) -> str:
    """Format an origin for error messages."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}" + ("" if url.port is None else f":{url.port}")


def redirected(
    request: httpx2.Request, response: httpx2.Response, client: httpx2.AsyncClient
) -> httpx2.Request | None:
    """Return the request that follows a redirect, or `None` if it must not be followed."""
    url = _location(response)
    if url is None or origin_of(url) != origin_of(request.url):
        return None
    if response.status_code not in _SAME_METHOD and request.method not in {"GET", "HEAD"}:
        return None
    headers = request.headers.copy()
    if "cookie" not in client.headers:
        headers.pop("cookie", None)  # the redirect may have set another
    following = httpx2.Request(
        request.method,
        # Keep the configured credentials, never those in a `Location`.
        url.copy_with(userinfo=request.url.userinfo),
        headers=headers,
        stream=request.stream,
        extensions=request.extensions,
    )
    set_cookies(following, client)
    return following


def set_cookies(request: httpx2.Request, client: httpx2.AsyncClient) -> None:
    """Add the cookies of a client to a request, also those that are not ASCII."""
    request.headers.encoding = "utf-8"
    client.cookies.set_cookie_header(request)


def refused_redirect(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """Return the response without its `Location`, so that it is not followed, with the reason."""
    url = _location(response)
    here = shown_origin(request.url)
    if url is None:
        advice = "the server redirects to what is no address"
    elif origin_of(url) == origin_of(request.url):
        advice = f"the server at {here} redirects in a way that cannot be followed"
    else:
        advice = (
            f"{here} redirects to {shown_origin(url)}, another origin, which gets none of the "
            "headers and credentials meant for this one; if it is the right server, put its "
            "address into the configuration"
        )
    extensions = {ADVICE: Advice(text=advice)}
    return httpx2.Response(response.status_code, request=request, extensions=extensions)


def _location(response: httpx2.Response) -> httpx2.URL | None:
    try:
        return response.request.url.join(response.headers["location"])
    except (httpx2.InvalidURL, ValueError):
        return None
