"""Keeps logins in memory, until the process ends."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from plait.client.transports.auth.stores.locks import wait_for_lock
from plait.client.transports.auth.stores.login import Login, LoginKey


class MemoryTokenStore:
    """Keeps logins until the process ends, for all its loops and threads."""

    def __init__(self) -> None:
        self._logins: dict[LoginKey, Login] = {}
        self._locks: defaultdict[LoginKey, threading.Lock] = defaultdict(threading.Lock)

    async def load(self, key: LoginKey) -> Login | None:
        """Return the login of this key, if there is one."""
        return self._logins.get(key)

    async def save(self, login: Login) -> None:
        """Save a login."""
        self._logins[login.key] = login

    async def forget(self, key: LoginKey) -> None:
        """Delete a login."""
        self._logins.pop(key, None)

    @asynccontextmanager
    async def locked(self, key: LoginKey) -> AsyncGenerator[None]:
        """Keep other loops from renewing the login meanwhile."""
        lock = self._locks[key]
        await wait_for_lock(lambda: lock.acquire(blocking=False), "another thread renews the login")
        try:
            yield
        finally:
            lock.release()
