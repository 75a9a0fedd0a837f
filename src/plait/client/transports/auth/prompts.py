"""Ways to ask a person to sign in: browser, own functions, or the terminal."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast
from urllib.parse import urlsplit

from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult

from plait._support.threads import in_thread
from plait.client.config.oauth import OAuth
from plait.client.transports.auth.loopback import listening, open_browser, port_is_free
from plait.client.transports.auth.redirect_results import answer_from_text, state_in
from plait.client.transports.auth.sdk import Person
from plait.client.transports.auth.stores.login import Login

AskPerson = Callable[[OAuth, Login], AbstractAsyncContextManager[Person]]
"""Makes ready to ask: the address to return to must be known before anything is asked."""


def person_for(settings: OAuth) -> AskPerson | None:
    """Return how to ask, or `None` when nobody can be asked."""
    if not settings.may_ask:
        return None
    return by_functions if settings.on_callback is not None else by_browser


@asynccontextmanager
async def by_browser(settings: OAuth, login: Login) -> AsyncGenerator[Person]:
    """Open a browser, or call `on_redirect`, and listen on this machine for the answer."""
    show = open_browser if settings.on_redirect is None else _awaited(settings.on_redirect)
    async with listening(
        settings.redirect_uri,
        _port_for(settings, login),
        show=show,
        wait_seconds=settings.wait_seconds,
    ) as loopback:
        yield Person(loopback.redirect_uri, loopback.show, loopback.hear)


@asynccontextmanager
async def by_functions(settings: OAuth, login: Login) -> AsyncGenerator[Person]:
    """Let `on_redirect` and `on_callback` do everything."""
    state: list[str | None] = [None]
    show = _awaited(cast("Callable[[str], Any]", settings.on_redirect))
    callback = cast("Callable[[], Any]", settings.on_callback)

    async def remember(address: str) -> None:
        state[0] = state_in(address)
        await show(address)

    async def hear() -> AuthorizationCodeResult:
        try:
            async with asyncio.timeout(settings.wait_seconds):
                given = callback()
                answer = await given if inspect.isawaitable(given) else given
        except TimeoutError:
            raise OAuthFlowError(f"no answer within {settings.wait_seconds:g} s") from None
        return _read(answer, state[0])

    yield Person(_uri_for(settings, login), remember, hear)


def by_terminal(write: Callable[[str], None], read: Callable[[], str]) -> AskPerson:
    """Make a way to ask where there is no browser: `write` shows the address, `read` the answer."""

    @asynccontextmanager
    async def ask(settings: OAuth, login: Login) -> AsyncGenerator[Person]:
        state: list[str | None] = [None]

        async def show(address: str) -> None:
            state[0] = state_in(address)
            write(address)

        async def hear() -> AuthorizationCodeResult:
            return answer_from_text(await in_thread(read), state[0])

        yield Person(_uri_for(settings, login), show, hear)

    return ask


def _read(answer: object, state: str | None) -> AuthorizationCodeResult:
    match answer:
        case AuthorizationCodeResult():
            return answer
        case str():
            return answer_from_text(answer, state)
        case (str() as code, str() | None as given):
            return AuthorizationCodeResult(code=code, state=given)
        case _:
            raise OAuthFlowError(f"on_callback returned a {type(answer).__name__}, not an address")


def _awaited(function: Callable[[str], Any]) -> Callable[[str], Any]:
    async def call(address: str) -> None:
        made = function(address)
        if inspect.isawaitable(made):
            await made

    return call


def _uri_for(settings: OAuth, login: Login) -> str:
    """Return an address to come back to, at which nobody need listen."""
    port = _port_for(settings, login) or 8765
    return settings.redirect_uri or f"http://127.0.0.1:{port}/callback"


def _port_for(settings: OAuth, login: Login) -> int:
    """Return the port to use: as configured, else as registered if that is still free."""
    if settings.redirect_port is not None:
        return settings.redirect_port
    registered = registered_port(login)
    return registered if registered is not None and port_is_free(registered) else 0


def registered_port(login: Login) -> int | None:
    """Return the port that the registration of the client names."""
    uris: list[object] = (login.client or {}).get("redirect_uris") or []
    try:
        return urlsplit(str(uris[0])).port if uris else None
    except ValueError:
        return None
