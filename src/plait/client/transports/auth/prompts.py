"""Prompts the user to sign in: in a browser, with callbacks, or in the terminal."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit

from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult

from plait._support.threads import in_thread
from plait.client.config.oauth import OAuth
from plait.client.transports.auth.loopback import (
    listening,
    open_browser,
    port_is_free,
    result_from_text,
    state_in,
)
from plait.client.transports.auth.sdk import Prompt
from plait.client.transports.auth.stores import Login

OpenPrompt = Callable[[OAuth, Login], AbstractAsyncContextManager[Prompt]]
"""Prepares a prompt: its redirect address must be known before the sign-in starts."""


def prompt_for(settings: OAuth) -> OpenPrompt | None:
    """Return the configured prompt, or `None` if the user cannot be prompted."""
    if not settings.may_ask:
        return None
    return prompt_with_callbacks if settings.on_callback is not None else prompt_in_browser


@asynccontextmanager
async def prompt_in_browser(settings: OAuth, login: Login) -> AsyncGenerator[Prompt]:
    """Open a browser, or call `on_redirect`, and listen on a local port for the redirect."""
    show = open_browser if settings.on_redirect is None else _awaited(settings.on_redirect)
    async with listening(
        settings.redirect_uri,
        _port_for(settings, login),
        show=show,
        wait_seconds=settings.wait_seconds,
    ) as loopback:
        yield Prompt(loopback.redirect_uri, loopback.show, loopback.wait_for_result)


@asynccontextmanager
async def prompt_with_callbacks(settings: OAuth, login: Login) -> AsyncGenerator[Prompt]:
    """Use the callbacks `on_redirect` and `on_callback`."""
    callback = cast("Callable[[], Any]", settings.on_callback)

    async def read() -> object:
        try:
            async with asyncio.timeout(settings.wait_seconds):
                answer = callback()
                return await answer if inspect.isawaitable(answer) else answer
        except TimeoutError:
            raise OAuthFlowError(f"no answer within {settings.wait_seconds:g} s") from None

    show = _awaited(cast("Callable[[str], Any]", settings.on_redirect))
    yield _prompt(_uri_for(settings, login), show, read)


def prompt_in_terminal(write: Callable[[str], None], read: Callable[[], str]) -> OpenPrompt:
    """Create a prompt without a browser: `write` shows the address, `read` returns the result."""

    @asynccontextmanager
    async def ask(settings: OAuth, login: Login) -> AsyncGenerator[Prompt]:
        yield _prompt(_uri_for(settings, login), _awaited(write), partial(in_thread, read))

    return ask


def _prompt(
    redirect_uri: str, show: Callable[[str], Awaitable[None]], read: Callable[[], Awaitable[object]]
) -> Prompt:
    """Create a prompt whose answer must belong to the address that it showed."""
    state: str | None = None

    async def show_address(address: str) -> None:
        nonlocal state
        state = state_in(address)
        await show(address)

    async def wait_for_result() -> AuthorizationCodeResult:
        match answer := await read():
            case AuthorizationCodeResult():
                return answer
            case str():
                return result_from_text(answer, state)
            case (str() as code, str() | None as returned_state):
                return AuthorizationCodeResult(code=code, state=returned_state)
            case _:
                kind = type(answer).__name__
                raise OAuthFlowError(f"on_callback returned a {kind}, not an address")

    return Prompt(redirect_uri, show_address, wait_for_result)


def _awaited(function: Callable[[str], Any]) -> Callable[[str], Any]:
    async def call(address: str) -> None:
        result = function(address)
        if inspect.isawaitable(result):
            await result

    return call


def _uri_for(settings: OAuth, login: Login) -> str:
    """Return a redirect address on which nothing needs to listen."""
    port = _port_for(settings, login) or 8765
    return settings.redirect_uri or f"http://127.0.0.1:{port}/callback"


def _port_for(settings: OAuth, login: Login) -> int:
    """Return the configured port, else the registered one if it is free, else 0."""
    if settings.redirect_port is not None:
        return settings.redirect_port
    registered = _registered_port(login)
    return registered if registered is not None and port_is_free(registered) else 0


def _registered_port(login: Login) -> int | None:
    """Return the port in the client's registration."""
    uris: list[object] = (login.client or {}).get("redirect_uris") or []
    try:
        return urlsplit(str(uris[0])).port if uris else None
    except ValueError:
        return None
