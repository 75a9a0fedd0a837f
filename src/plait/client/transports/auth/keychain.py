"""One server's login: read once, renewed by one caller at a time, saved before use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, WeakValueDictionary

from mcp.shared.auth_utils import resource_url_from_server_url

from plait.client.config.oauth import OAuth
from plait.client.transports.auth.stores import Login, LoginKey, TokenStore

_locks: WeakKeyDictionary[
    asyncio.AbstractEventLoop, WeakValueDictionary[LoginKey, asyncio.Lock]
] = WeakKeyDictionary()
"""Locks per loop, so that only one caller of a loop waits for the store's lock."""


def key_for(settings: OAuth, url: str) -> LoginKey:
    """Return the key of a login with these settings."""
    return LoginKey(
        resource=resource_url_from_server_url(url),
        grant=settings.grant,
        issuer=settings.issuer or "",
        client=settings.client_id or settings.client_metadata_url or "",
        user=settings.user,
    )


@dataclass(eq=False, repr=False)
class Keychain:
    """Holds the newest known login."""

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
