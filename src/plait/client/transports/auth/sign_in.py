"""Prompts the user to sign in: in a browser, with callbacks, or in the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import webbrowser
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlsplit

from plait._support.gather import resolve
from plait._support.threads import in_thread
from plait.client.config.oauth_settings import OAuth
from plait.client.transports.auth.authorization_servers import OAuthError
from plait.client.transports.auth.stores import Login
from plait.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeResult:
    """What a redirect brings back."""

    code: str = field(default="", repr=False)
    state: str | None = field(default=None, repr=False)
    iss: str | None = None
    """The authorization server that it comes from."""
    error: str | None = None
    """Why there is no code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One attempt to sign in: where the browser returns to, and how to open it and wait."""

    redirect_uri: str
    show: Callable[[str], Any]
    """Opens the authorization address; sync or async."""
    wait_for_result: Callable[[], Awaitable[CodeResult]]
    """Waits for the redirect."""
    state: str = field(repr=False)
    """Comes back with the result of this attempt, and no other."""
    verifier: str = field(default_factory=secrets.token_urlsafe, repr=False)
    """Proves that whoever has the code began this attempt."""


OpenPrompt = Callable[[OAuth, Login], AbstractAsyncContextManager[Prompt]]
"""Prepares a prompt: its redirect address must be known before the sign-in starts."""

_HOST: Final = "127.0.0.1"
MAX_HEAD_BYTES: Final = 64 * 1024
_HEAD_SECONDS: Final = 10.0
"""A browser sends its request at once, and it is short."""

_PAGE: Final = """\
<!doctype html><html lang="en"><meta charset="utf-8"><title>plait</title>
<body style="font: 18px system-ui; max-width: 32em; margin: 20vh auto; text-align: center">
<h1>{title}</h1><p>{text}</p></body></html>
"""


def prompt_for(settings: OAuth) -> OpenPrompt | None:
    """Return the configured prompt, or `None` if the user cannot be prompted."""
    if not settings.may_ask:
        return None
    return prompt_with_callbacks if settings.on_callback is not None else prompt_in_browser


@asynccontextmanager
async def prompt_in_browser(settings: OAuth, login: Login) -> AsyncGenerator[Prompt]:
    """Open a browser, or call `on_redirect`, and listen on a local port for the redirect."""
    show = settings.on_redirect or open_browser
    uri = settings.redirect_uri
    port = (urlsplit(uri).port or 0) if uri else _port_for(settings, login)
    try:
        listener = socket.create_server((_HOST, port))
    except OSError as error:
        fault = os.strerror(error.errno or 0)
        reason = f"cannot listen on port {port} for the end of the sign-in: {fault}"
        raise ConfigError(reason) from error
    uri = uri or f"http://{_HOST}:{listener.getsockname()[1]}/callback"
    state = secrets.token_urlsafe()
    loopback = _Loopback(uri, state, settings.wait_seconds)
    server = await asyncio.start_server(loopback.serve, sock=listener, limit=MAX_HEAD_BYTES)
    wait = loopback.wait_for_result
    try:
        yield Prompt(redirect_uri=uri, show=show, wait_for_result=wait, state=state)
    finally:
        server.close()
        await loopback.end_idle()


@asynccontextmanager
async def prompt_with_callbacks(settings: OAuth, login: Login) -> AsyncGenerator[Prompt]:
    """Use the callbacks `on_redirect` and `on_callback`."""
    callback = cast("Callable[[], Any]", settings.on_callback)

    async def read() -> object:
        try:
            async with asyncio.timeout(settings.wait_seconds):
                return await resolve(callback())
        except TimeoutError:
            raise OAuthError(f"no answer within {settings.wait_seconds:g} s") from None

    show = cast("Callable[[str], Any]", settings.on_redirect)
    yield _prompt(_uri_for(settings, login), show, read)


def prompt_in_terminal(write: Callable[[str], None], read: Callable[[], str]) -> OpenPrompt:
    """Create a prompt without a browser: `write` shows the address, `read` returns the result."""

    @asynccontextmanager
    async def ask(settings: OAuth, login: Login) -> AsyncGenerator[Prompt]:
        yield _prompt(_uri_for(settings, login), write, partial(in_thread, read))

    return ask


def _prompt(
    redirect_uri: str, show: Callable[[str], Any], read: Callable[[], Awaitable[object]]
) -> Prompt:
    """Create a prompt whose answer is read from the user or the program."""
    state = secrets.token_urlsafe()

    async def wait_for_result() -> CodeResult:
        match answer := await read():
            case str():
                return result_from_text(answer, state)
            case (str() as code, str() | None as returned_state):
                return CodeResult(code=code, state=returned_state)
            case object(code=str() as code):  # as the callbacks of MCP SDKs return it
                known = {name: getattr(answer, name, None) for name in ("state", "iss")}
                return CodeResult(code=code, **known)
            case _:
                kind = type(answer).__name__
                raise OAuthError(f"on_callback returned a {kind}, not an address")

    return Prompt(
        redirect_uri=redirect_uri, show=show, wait_for_result=wait_for_result, state=state
    )


def _uri_for(settings: OAuth, login: Login) -> str:
    """Return a redirect address on which nothing needs to listen."""
    port = _port_for(settings, login) or 8765
    return settings.redirect_uri or f"http://127.0.0.1:{port}/callback"


def _port_for(settings: OAuth, login: Login) -> int:
    """Return the configured port, else the registered one if it is free, else 0."""
    if settings.redirect_port is not None:
        return settings.redirect_port
    uris: list[object] = (login.client or {}).get("redirect_uris") or [""]
    try:
        registered = urlsplit(str(uris[0])).port or 0
        socket.create_server((_HOST, registered)).close()
    except (OSError, ValueError):
        return 0
    return registered


async def open_browser(address: str) -> None:
    """Open the local browser, or raise `OAuthError` if there is none."""
    if not await in_thread(webbrowser.open, address):
        raise OAuthError("no browser can be opened here (plait auth login has --no-browser)")


class _Loopback:
    """Waits on a local port for the redirect of one sign-in."""

    def __init__(self, redirect_uri: str, state: str, wait_seconds: float) -> None:
        self._path = urlsplit(redirect_uri).path or "/"
        self._state = state
        self._wait_seconds = wait_seconds
        self._result = asyncio.Future[CodeResult]()
        self._idle: dict[asyncio.StreamWriter, asyncio.Future[None]] = {}
        """Connections that have sent no request yet: browsers open some ahead of time."""

    async def end_idle(self) -> None:
        """Close connections without a request, which would outlive the program's event loop."""
        for writer in self._idle:
            writer.close()
        await asyncio.gather(*self._idle.values())

    async def wait_for_result(self) -> CodeResult:
        """Wait for the redirect; raise `OAuthError` if it does not come."""
        try:
            async with asyncio.timeout(self._wait_seconds):
                return await self._result
        except TimeoutError:
            raise OAuthError(f"no sign-in within {self._wait_seconds:g} s") from None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of a browser."""
        faults = (ConnectionError, TimeoutError, EOFError, ValueError, asyncio.LimitOverrunError)
        with contextlib.suppress(*faults):
            read = self._idle[writer] = asyncio.Future[None]()
            try:
                async with asyncio.timeout(_HEAD_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
            finally:
                del self._idle[writer]
                read.set_result(None)
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
        result = result_from_query(address.query)
        if not is_same_state(result.state, self._state):
            return "400 Bad Request", "Not this one", "The answer belongs to another sign-in."
        if not self._result.done():
            self._result.set_result(result)
        if result.error is not None:
            return "200 OK", "Not signed in", "Your program says why. You can close this page."
        return "200 OK", "Signed in", "You can close this page and go back to your program."


def result_from_query(query: str) -> CodeResult:
    """Read the query of a redirect."""
    values = {name: values[0] for name, values in parse_qs(query).items()}
    code, error = values.get("code", ""), None
    if "error" in values:
        details = values.get("error_description")
        error = f"signing in was refused: {values['error']}{f' ({details})' if details else ''}"
    elif not code:
        error = "the answer holds no code"
    return CodeResult(code=code, state=values.get("state"), iss=values.get("iss"), error=error)


def result_from_text(text: str, state: str) -> CodeResult:
    """Parse the whole redirect address, its query, or the code alone.

    A bare code has no state to compare, so the expected `state` is used.

    Raises:
        OAuthError: It cannot be parsed.
    """
    text = text.strip()
    if "://" in text or "code=" in text or "error=" in text:
        return result_from_query(urlsplit(text).query if "://" in text else text.lstrip("?"))
    if not text or any(letter.isspace() for letter in text):
        raise OAuthError("that is neither an address nor a code")
    return CodeResult(code=text, state=state)


def is_same_state(actual: str | None, expected: str | None) -> bool:
    """Compare two states in constant time."""
    return secrets.compare_digest((actual or "").encode(), (expected or "").encode())
