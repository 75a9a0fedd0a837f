"""The HTTP client under the HTTP transports, and what its responses and faults mean."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
)
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar, cast
from urllib.request import getproxies, proxy_bypass

import anyio
import httpx2
from cachetools import TTLCache, cached

from plait._support.gather import resolve
from plait._support.threads import import_in_thread, in_thread, lock_across_forks
from plait.client.config.budgets import IncomingLimits
from plait.client.config.secrets import secrets_in_headers
from plait.client.config.servers import HttpServer, RemoteOptions, SseServer
from plait.client.protocol.exchange import Advice, HttpReply, PendingRequest, current_exchange
from plait.client.protocol.peer import RequestError
from plait.client.transports.auth.challenge import ADVICE, SignInNeededError
from plait.client.transports.http_bodies import decoded_body
from plait.client.transports.wire import Wire, redacted_library_logs
from plait.errors import ConfigError, PlaitError

logger = logging.getLogger("plait.client.transports")

_AUTH = "plait.client.transports.auth.auth_objects"
"""The module that makes auth objects, with what they need of cryptography."""

T = TypeVar("T")
Send = Callable[..., Coroutine[Any, Any, httpx2.Response]]

SESSION_HEADER: Final = "mcp-session-id"
MAX_REDIRECTS: Final = 5
"""A server that moved redirects once or twice; more are a circle."""

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

MAX_REFUSAL_BYTES: Final = 1024 * 1024
"""How much is read of a body that is no message: of an error, a redirect, or of OAuth."""
MAX_BODY_CHARS = 4000
"""How much of an error's body is kept, for messages and for what it says of the session."""
MAX_SEARCHED_CHARS = 64_000
"""How much of an error's body is searched for secrets."""
_CLEANUP_SECONDS = 5.0
"""How long a cancelled exchange may take to close its connections. It takes a few turns of the
loop, unless a transport of the user waits for something."""
_FAULT_CODE = -32000
_TRUST_SECONDS = 600
"""How long certificates that were read are used for new sessions."""
_SAME_METHOD = frozenset({301, 302, 307, 308})
"""Statuses after which the same method is repeated. Browsers turn a POST into a GET after the first
two, which would lose the message; 303 requires that, so it is not followed."""
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
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[httpx2.AsyncClient]:
    """Open the HTTP client for one session, by default with the certificates of the machine."""
    timeout = httpx2.Timeout(server.exchange_seconds, read=server.stream_read_seconds)
    headers = await headers_of(server, wire)
    auth: httpx2.Auth | None = None
    attach: Callable[..., None] | None = None
    if server.auth is not None:
        # With what they need of cryptography, these modules are slow to import.
        await import_in_thread(_AUTH)
        from plait.client.transports.auth.auth_objects import auth_of  # noqa: PLC0415
        from plait.client.transports.auth.oauth_tokens import OAuthAuth  # noqa: PLC0415

        auth = auth_of(server, wire.server, wire.hide)
        attach = auth.attach if isinstance(auth, OAuthAuth) else None
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
    if attach is not None:
        attach(client.send)
    client.event_hooks["response"].append(partial(_bound_body, server.incoming))
    # Every request goes through `send`, also those of auth flows and redirects.
    setattr(client, "send", _Send(client, wire, server))  # noqa: B010
    await client.__aenter__()
    try:
        yield client
    finally:
        await cancelled_by_scope(client.__aexit__(None, None, None))


async def cancelled_by_scope(work: Coroutine[Any, Any, T]) -> T:
    """Await work of httpx2 in a task of its own, which ends before a cancelled caller goes on.

    httpcore2 closes its connections one after the other, in a shielded scope of anyio. That stands
    the end of another scope, but not `Task.cancel`, after which the remaining sockets stay open.
    """
    loop, scope = asyncio.get_running_loop(), anyio.CancelScope()

    async def run() -> T:
        with scope:
            return await work
        raise asyncio.CancelledError

    task = loop.create_task(run())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        scope.cancel()
        ends_at = loop.time() + _CLEANUP_SECONDS
        while not task.done() and loop.time() < ends_at:
            with suppress(asyncio.CancelledError):  # nor does a second one interrupt it
                await asyncio.wait({task}, timeout=ends_at - loop.time())
        task.cancel()
        if task.done() and not task.cancelled() and task.exception() is None:
            result = task.result()
            if isinstance(result, httpx2.Response):
                await result.aclose()  # it came in the turn in which it was cancelled
        raise


async def _close_failed_tls(
    trace: Callable[[str, Any], Awaitable[None]] | None,
    opened: list[Any],
    event: str,
    info: dict[str, Any],
) -> None:
    """Close a connection if its TLS handshake is cancelled: httpcore2 only drops it."""
    if event == "connection.connect_tcp.complete":
        opened.append(info["return_value"])
    elif event == "connection.start_tls.failed":
        await opened.pop().aclose()
    if trace is not None:
        await trace(event, info)


class _Send:
    """`AsyncClient.send`, with current headers, sign-in, and redirects that keep credentials."""

    def __init__(
        self, client: httpx2.AsyncClient, wire: Wire, server: HttpServer | SseServer
    ) -> None:
        self._client = client
        self._plain_send: Send = client.send
        self._wire = wire
        self._server = server
        self._origin = origin_of(httpx2.URL(server.url))

    async def __call__(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send; if signing in is needed, return a response with the advice."""
        if callable(self._server.headers) and origin_of(request.url) == self._origin:
            # Called every time: its result, such as a token, may change.
            request.headers.update(await headers_of(self._server, self._wire))
        if (exchange := current_exchange.get()) is not None:
            exchange.written = True
        try:
            return await self._send(request, **options)
        except SignInNeededError as needed:
            return needed.response(request)

    async def _send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send, following redirects within the same origin only.

        The client's own redirect handling is off: it would forward the configured headers.
        """
        options["follow_redirects"] = False
        followed = 0
        while True:
            before = dict(request.headers)
            if request.url.scheme == "https":
                trace = partial(_close_failed_tls, request.extensions.get("trace"), [])
                request.extensions = {**request.extensions, "trace": trace}
            try:
                # Here too: a request is sent in the context of who makes it.
                with redacted_library_logs(self._wire):
                    response = await cancelled_by_scope(self._plain_send(request, **options))
            finally:
                # Headers that are new were added by an auth object, or from the URL's userinfo.
                added = dict(request.headers.items() - before.items())
                if added:
                    self._wire.hide(secrets_in_headers(added))
            if not response.has_redirect_location:
                return response
            await response.aread()
            await response.aclose()
            following = redirected(request, response, self._client)
            if following is None or followed == MAX_REDIRECTS:
                return refused_redirect(request, response)
            request = following
            followed += 1


def fail_request(request: PendingRequest, wire: Wire, fault: Exception) -> None:
    """Make a request fail with a network fault, or with what its headers or sign-in raised."""
    request.failure = fault
    request.written = request.written and not isinstance(fault, (*NEVER_COMPLETE, PlaitError))
    text = f"{type(fault).__name__}: {wire.redact(str(fault))}"
    request.fail(RequestError(_FAULT_CODE, text))


class TooLargeError(httpx2.RequestError):
    """The body of a response has more bytes than a message may have."""


async def _bound_body(limits: IncomingLimits, response: httpx2.Response) -> None:
    """Bound the body of a response, after decompression.

    Events have bounds of their own. What is no message, such as a refusal or the answer of an
    authorization server, is cut.
    """
    may_be_message = "text/event-stream" in response.request.headers.get("accept", "")
    is_message = may_be_message and response.is_success
    kind = response.headers.get("content-type", "").lower()
    is_stream = is_message and kind.startswith("text/event-stream")
    if is_stream and "content-encoding" not in response.headers:
        response.stream = _Stream(response.stream, aiter)
        return
    # httpx2 keeps all that follows the end of gzip, and knows the other encodings.
    is_gzip = response.headers.get("content-encoding", "").lower() in {"gzip", "x-gzip"}
    inner = httpx2.Response(200, headers=response.headers, stream=response.stream)
    response.headers.pop("content-encoding", None)
    most = limits.message_bytes if is_message else MAX_REFUSAL_BYTES

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
    """The bytes of a response, passed through a generator that bounds them; closed as a whole."""

    def __init__(self, inner: Any, watch: Callable[[Any], AsyncIterator[bytes]]) -> None:
        self._inner = inner
        self._watch = watch

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._watch(self._inner)

    async def aclose(self) -> None:
        await cancelled_by_scope(self._inner.aclose())


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
    error_code = None
    if is_json(response):
        with suppress(ValueError, RecursionError):
            match json.loads(body):
                case {"error": {"code": int() as code}}:
                    error_code = code
                case _:
                    pass
    return HttpReply(
        status=response.status_code,
        retry_after=response.headers.get("retry-after"),
        challenge=response.headers.get("www-authenticate"),
        # Redacted before it is cut: half of a secret would not be found.
        body=wire.redact(body[:MAX_SEARCHED_CHARS])[:MAX_BODY_CHARS],
        error_code=error_code,
        had_session=SESSION_HEADER in response.request.headers,
        advice=cast("Advice | None", response.extensions.get(ADVICE)),
    )


def is_json(response: httpx2.Response) -> bool:
    """Return whether a response says that its body is JSON."""
    return response.headers.get("content-type", "").lower().startswith("application/json")


def is_plain(server: HttpServer) -> bool:
    """Return whether requests to a server need nothing but HTTP/1.1, TLS and fixed headers.

    Auth objects, functions for headers, client factories, proxies and credentials in the URL need
    httpx2, as does a program that replaces its transport, to trace requests or to answer them.
    """
    url = httpx2.URL(server.url)
    has_proxy = bool({url.scheme, "all"} & getproxies().keys()) and not proxy_bypass(
        url.host if url.port is None else f"{url.host}:{url.port}"
    )
    return (
        server.auth is None
        and server.http_client_factory is None
        and not callable(server.headers)
        and not url.userinfo
        and url.scheme in {"http", "https"}
        and not has_proxy
        and httpx2.AsyncHTTPTransport.handle_async_request is _UNPATCHED_SEND
    )


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
