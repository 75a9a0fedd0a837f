"""Receives the redirect that ends a sign-in, and parses it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import webbrowser
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from html import escape
from typing import Final
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult

from plait._support.threads import in_thread
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
        self._result = asyncio.Future[AuthorizationCodeResult]()

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
                return await self._result
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
            result = result_from_query(address.query)
        except OAuthFlowError as refused:
            if not self._result.done():
                self._result.set_exception(refused)
            return "200 OK", "Not signed in", f"{refused}. You can close this page."
        if not self._result.done():
            self._result.set_result(result)
        return "200 OK", "Signed in", "You can close this page and go back to your program."


@asynccontextmanager
async def listening(
    redirect_uri: str | None, port: int, *, show: Show, wait_seconds: float
) -> AsyncGenerator[Loopback]:
    """Listen for a redirect while the context is open; port 0 takes a free one.

    Raises:
        ConfigError: The port is taken.
    """
    if redirect_uri:
        port = urlsplit(redirect_uri).port or 0
    try:
        listener = _bind(port)
    except OSError as error:
        reason = f"cannot listen on port {port} for the end of the sign-in: {error.strerror}"
        raise ConfigError(reason) from error
    bound = listener.getsockname()[1]
    loopback = Loopback(redirect_uri or f"http://{_HOST}:{bound}/callback", show, wait_seconds)
    server = await asyncio.start_server(loopback.serve, sock=listener, limit=_LONGEST_HEAD)
    try:
        yield loopback
    finally:
        server.close()


def port_is_free(port: int) -> bool:
    """Return whether a port can be bound."""
    try:
        _bind(port).close()
    except OSError:
        return False
    return True


def _bind(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_HOST, port))
    except BaseException:
        listener.close()
        raise
    return listener


def state_in(address: str) -> str | None:
    """Return the `state` of an address."""
    return _values(urlsplit(address).query).get("state")


def result_from_query(query: str) -> AuthorizationCodeResult:
    """Read the query of a redirect.

    Raises:
        OAuthFlowError: The user or the authorization server refused.
    """
    values = _values(query)
    if error := values.get("error"):
        details = values.get("error_description")
        raise OAuthFlowError(f"signing in was refused: {error}{f' ({details})' if details else ''}")
    code = values.get("code")
    if not code:
        raise OAuthFlowError("the answer holds no code")
    return AuthorizationCodeResult(code=code, state=values.get("state"), iss=values.get("iss"))


def result_from_text(text: str, state: str | None) -> AuthorizationCodeResult:
    """Parse the whole redirect address, its query, or the code alone.

    A bare code has no state to compare, so the expected `state` is used.

    Raises:
        OAuthFlowError: It belongs to another attempt, or cannot be parsed.
    """
    text = text.strip()
    if "://" in text or "code=" in text or "error=" in text:
        query = urlsplit(text).query if "://" in text else text.lstrip("?")
        answer = result_from_query(query)
        if not is_same_state(answer.state, state):
            raise OAuthFlowError("the answer belongs to another attempt to sign in")
        return answer
    if not text or any(letter.isspace() for letter in text):
        raise OAuthFlowError("that is neither an address nor a code")
    return AuthorizationCodeResult(code=text, state=state)


def is_same_state(actual: str | None, expected: str | None) -> bool:
    """Compare two states in constant time."""
    return secrets.compare_digest((actual or "").encode(), (expected or "").encode())


def _values(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}
