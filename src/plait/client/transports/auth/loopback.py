"""Receives the redirect that ends a sign-in, on a local port."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import webbrowser
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from html import escape
from typing import Final
from urllib.parse import urlsplit

from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult

from plait._support.threads import in_thread
from plait.client.transports.auth.redirect_results import is_same_state, result_from_query, state_in
from plait.errors import ConfigError

Show = Callable[[str], Awaitable[None]]

_HOST: Final = "127.0.0.1"

_LONGEST_HEAD: Final = 64 * 1024

_PAGE: Final = """\
<!doctype html><html lang="en"><meta charset="utf-8"><title>plait</title>
<body style="font: 18px system-ui; max-width: 32em; margin: 20vh auto; text-align: center">
<h1>{title}</h1><p>{text}</p></body></html>
"""


async def open_browser(address: str) -> None:
    """Open the local browser.

    Raises:
        OAuthFlowError: There is no browser.
    """
    if not await in_thread(webbrowser.open, address):
        raise OAuthFlowError("no browser can be opened here (plait auth login has --no-browser)")


class Loopback:
    """Waits on a local port for the redirect of one sign-in."""

    def __init__(self, redirect_uri: str, show: Show, wait_seconds: float) -> None:
        self.redirect_uri = redirect_uri
        self._path = urlsplit(redirect_uri).path or "/"
        self._show = show
        self._wait_seconds = wait_seconds
        self._state: str | None = None
        self._answer: asyncio.Future[AuthorizationCodeResult] = (
            asyncio.get_running_loop().create_future()
        )

    async def show(self, address: str) -> None:
        """Open the authorization address, and expect a redirect with its state."""
        self._state = state_in(address)
        await self._show(address)

    async def wait_for_result(self) -> AuthorizationCodeResult:
        """Wait for the redirect.

        Raises:
            OAuthFlowError: Signing in was refused, or took too long.
        """
        try:
            async with asyncio.timeout(self._wait_seconds):
                return await self._answer
        except TimeoutError:
            raise OAuthFlowError(f"no sign-in within {self._wait_seconds:g} s") from None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of a browser."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, *_ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
            status, title, text = self._handle(method, target)
            body = _PAGE.format(title=escape(title), text=escape(text)).encode()
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
                f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n"
                f"Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    def _handle(self, method: str, target: str) -> tuple[str, str, str]:
        """Choose the response; the first redirect with the right state is the result."""
        address = urlsplit(target)
        if method != "GET" or address.path != self._path:
            return "404 Not Found", "Nothing here", "This page only ends a sign-in."
        # https://www.rfc-editor.org/rfc/rfc6749#section-10.12
        if not is_same_state(state_in(target), self._state):
            return "400 Bad Request", "Not this one", "The answer belongs to another sign-in."
        try:
            answer = result_from_query(address.query)
        except OAuthFlowError as refused:
            if not self._answer.done():
                self._answer.set_exception(refused)
            return "200 OK", "Not signed in", f"{refused}. You can close this page."
        if not self._answer.done():
            self._answer.set_result(answer)
        return "200 OK", "Signed in", "You can close this page and go back to your program."


@asynccontextmanager
async def listening(
    redirect_uri: str | None,
    port: int,
    *,
    show: Show = open_browser,
    wait_seconds: float = 300.0,
) -> AsyncGenerator[Loopback]:
    """Listen for a redirect while the context is open; port 0 takes a free one.

    Raises:
        ConfigError: The port is taken.
    """
    fixed = urlsplit(redirect_uri) if redirect_uri else None
    wanted = (fixed.port or 0) if fixed else port
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_HOST, wanted))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on port {wanted} for the end of the sign-in: {error.strerror}"
        ) from error
    bound = listener.getsockname()[1]
    loopback = Loopback(redirect_uri or f"http://{_HOST}:{bound}/callback", show, wait_seconds)
    server = await asyncio.start_server(loopback.serve, sock=listener, limit=_LONGEST_HEAD)
    try:
        yield loopback
    finally:
        server.close()


def port_is_free(port: int) -> bool:
    """Return whether a port can be bound."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True
