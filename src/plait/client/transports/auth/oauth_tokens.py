"""Adds OAuth tokens to requests; renews them ahead of time, once for all waiting callers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Final
from weakref import WeakKeyDictionary, WeakValueDictionary

import httpx2

from plait._support.exception_groups import one_line
from plait._support.redact import Redactor
from plait.client.config.oauth_settings import OAuth
from plait.client.config.secrets import secrets_in_auth
from plait.client.protocol.exchange import Advice, clock_held
from plait.client.transports.auth.authorization_servers import (
    EndpointGuard,
    OAuthError,
    RefusedRequestError,
    Send,
    exchange,
)
from plait.client.transports.auth.challenge import (
    Challenge,
    SignInNeededError,
    challenge_from,
    joined_scopes,
    sign_in_advice,
)
from plait.client.transports.auth.discovery import resource_of
from plait.client.transports.auth.flow import OAuthFlow
from plait.client.transports.auth.sign_in import OpenPrompt, Prompt
from plait.client.transports.auth.stores import Login, LoginKey, TokenStore
from plait.errors import ConnectError

logger = logging.getLogger("plait.client.transports.auth")

MAX_SENDS: Final = 4
"""With the stored token, one renewed elsewhere, a refreshed one, and after a new sign-in."""

_locks: WeakKeyDictionary[
    asyncio.AbstractEventLoop, WeakValueDictionary[LoginKey, asyncio.Lock]
] = WeakKeyDictionary()
"""Locks per loop, so that only one caller of a loop waits for the store's lock."""


def key_for(settings: OAuth, url: str) -> LoginKey:
    """Return the key of a login with these settings."""
    return LoginKey(
        resource=resource_of(url),
        grant=settings.grant,
        issuer=settings.issuer or "",
        client=settings.client_id or settings.client_metadata_url or "",
        user=settings.user,
    )


@dataclass(eq=False, repr=False)
class Keychain:
    """One server's login: read once, renewed by one caller at a time, saved before use."""

    key: LoginKey
    _store: TokenStore
    _on_secrets: Callable[[Iterable[str]], None]
    _login: Login | None = field(default=None, init=False)

    async def current(self) -> Login:
        """Return the login, from the store the first time."""
        return self._login if self._login is not None else await self.reload()

    async def reload(self) -> Login:
        """Read the login from the store again: another process may have renewed it."""
        return self._known(await self._store.load(self.key) or Login(key=self.key))

    async def save(self, login: Login) -> None:
        """Save a login, which becomes the current one."""
        self._on_secrets(login.secrets)
        await self._store.save(login)
        self._known(login)

    async def drop(self, *, client: bool = False) -> Login:
        """Delete the tokens, and with `client` the registered client too."""
        login = await self.current()
        kept = None if client else login.client
        server = login.authorization_server
        bare = Login(key=self.key, client=kept, authorization_server=server)
        if kept is None:
            await self._store.forget(self.key)
        else:
            await self._store.save(bare)
        return self._known(bare)

    def _known(self, login: Login) -> Login:
        self._on_secrets(login.secrets)
        self._login = login
        return login

    def queue(self) -> AbstractAsyncContextManager[None]:
        """Let one caller of this loop through at a time."""
        here = _locks.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
        return here.setdefault(self.key, asyncio.Lock())

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Keep other threads and processes from renewing the login."""
        return self._store.locked(self.key)


@dataclass(eq=False, repr=False)
class OAuthAuth(httpx2.Auth):
    """Adds the access token of one server's login to its requests."""

    _name: str
    _url: str
    _settings: OAuth
    _keychain: Keychain
    _ask: OpenPrompt | None = None
    _send: Send | None = field(default=None, init=False)
    _ending: str | None = field(default=None, init=False)
    """Why the login ended."""
    _failed_prompt: Advice | None = field(default=None, init=False)
    """The advice of a failed prompt; one session prompts the user once."""

    def attach(self, send: Callable[..., Awaitable[httpx2.Response]]) -> None:
        """Use the client's `send` for requests to the authorization server."""
        guard = EndpointGuard(self._url, self._settings.issuer)
        self._send = partial(exchange, send, guard)

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request; after a refusal try other credentials.

        Raises:
            SignInNeededError: There are none.
            ConnectError: The authorization server cannot be reached.
        """
        login = await self._due_renewed()
        is_refreshed = is_authorized = False
        for _ in range(MAX_SENDS):
            if login.access_token is not None:
                request.headers["Authorization"] = f"Bearer {login.access_token}"
            response = yield request
            challenge = challenge_from(response)
            if challenge is None or is_authorized:
                return
            with clock_held() if self._ask is not None else nullcontext():
                async with self._keychain.queue():
                    async with self._keychain.alone():
                        used, login = login, await self._keychain.reload()
                        if login.access_token not in {None, used.access_token}:
                            continue  # somebody else has renewed it meanwhile
                        if login.refresh_token and not (is_refreshed or challenge.steps_up):
                            is_refreshed = True
                            try:
                                login = await self._refresh(login)
                                continue
                            except SignInNeededError as refused:
                                self._log("there is no new token", refused, login)
                    is_authorized = True
                    login = await self._authorize(challenge)

    async def _due_renewed(self) -> Login:
        """Return the login, renewed if it is about to expire."""
        login = await self._keychain.current()
        if not login.is_due(time.time()):
            return login
        async with self._keychain.queue(), self._keychain.alone():
            login = await self._keychain.reload()
            if not login.is_due(time.time()):
                return login
            server = login.authorization_server
            try:
                if login.refresh_token is not None:
                    return await self._refresh(login)
                if self._settings.grant == "client_credentials" and server is not None:
                    # As if scopes were missing: the authorization server is known.
                    again = Challenge(status=HTTPStatus.FORBIDDEN, scope=login.scope)
                    return await self._run(again, login)
            except (SignInNeededError, ConnectError) as error:
                # Use the old login while it is valid; after that the server sends a challenge.
                self._log("the login was not renewed", error, login)
                return await self._keychain.current()
            return login

    async def _refresh(self, login: Login) -> Login:
        """Exchange the refresh token; delete one that is no longer valid."""
        refusal = Challenge(status=HTTPStatus.UNAUTHORIZED)
        try:
            await self._flow(login).refresh()
        except RefusedRequestError as error:
            await self._keychain.drop(client=error.code == "invalid_client")
            self._ending = f"the login has ended or was revoked ({error.code})"
            raise SignInNeededError(refusal, Advice(text=self._ending)) from error
        except OAuthError as error:
            failed = Advice(text=f"the login was not renewed: {one_line(str(error), 300)}")
            raise SignInNeededError(refusal, failed) from error
        return await self._keychain.current()

    async def sign_in(self, challenge: Challenge) -> Login:
        """Sign in even if there is a login, which is kept until the new one is saved."""
        async with self._keychain.queue():
            return await self._authorize(challenge)

    async def _authorize(self, challenge: Challenge) -> Login:
        """Sign in again, with a prompt or with client credentials."""
        login = await self._keychain.current()
        if self._settings.grant == "client_credentials":
            async with self._keychain.alone():
                return await self._run(challenge, login)
        if self._ask is None:
            known = joined_scopes(self._settings.scope, login.scope)
            refused = "not signed in" if login.access_token is None else "the login is refused"
            advice = sign_in_advice(self._name, challenge, known, self._ending or refused)
            raise SignInNeededError(challenge, advice)
        if self._failed_prompt is not None and not challenge.steps_up:
            raise SignInNeededError(challenge, self._failed_prompt)
        try:
            async with self._ask(self._settings, login) as prompt:
                return await self._run(challenge, login, prompt)
        except SignInNeededError as failed:
            self._failed_prompt = None if challenge.steps_up else failed.advice
            raise

    async def _run(self, challenge: Challenge, login: Login, prompt: Prompt | None = None) -> Login:
        try:
            scoped = challenge.with_scopes(self._settings.scope)
            await self._flow(login).sign_in(scoped, prompt)
        except (OAuthError, ValueError, OSError) as error:
            text = f"signing in failed: {one_line(str(error), 300) or type(error).__name__}"
            address: str | None = getattr(error, "address", None)
            advice = Advice(text=text, scopes=challenge.scopes, address=address)
            raise SignInNeededError(challenge, advice) from error
        self._ending = None
        return await self._keychain.current()

    def _log(self, what: str, error: Exception, login: Login) -> None:
        """Log why there is no new login, redacted: a server may quote secrets."""
        redact = Redactor([*login.secrets, *secrets_in_auth(self._settings)])
        logger.info("%s: %s: %s", self._name, what, redact.excerpt(str(error)))

    def _flow(self, login: Login) -> OAuthFlow:
        if self._send is None:
            raise ConnectError(f"{self._name}: this auth object belongs to no client")
        return OAuthFlow(self._settings, self._url, login, self._keychain.save, self._send)
