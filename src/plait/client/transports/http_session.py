"""Decides which sessions need httpx2 for their requests, and notes what others must send along."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import httpx2

if TYPE_CHECKING:
    from plait.client.config.servers import HttpServer
    from plait.client.transports.wire import Exchange

SESSION_HEADER: Final = "mcp-session-id"
VERSION_HEADER: Final = "mcp-protocol-version"

_UNPATCHED_SEND = httpx2.AsyncHTTPTransport.handle_async_request


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


def _nothing() -> None:
    """Ignore an event before there is a sender."""


class HttpSession:
    """What the handshake over httpx2 says about a session."""

    def __init__(self) -> None:
        self.session_id: str | None = None
        self.version: str | None = None
        self.has_stream = False
        """Whether the server has answered the request for its stream of notifications."""
        self.on_cookie: Callable[[], None] = _nothing
        self.on_stream: Callable[[], None] = _nothing

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
