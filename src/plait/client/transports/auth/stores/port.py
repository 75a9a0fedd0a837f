"""What a place for logins must be able to do."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from plait.client.transports.auth.stores.login import Login, LoginKey


@runtime_checkable
class TokenStore(Protocol):
    """Keeps logins; it is used from several loops, threads and processes at once."""

    async def load(self, key: LoginKey) -> Login | None:
        """Return the login of this key, if there is one."""
        ...

    async def save(self, login: Login) -> None:
        """Keep a login in place of the one before.

        Raises:
            PlaitError: It cannot be kept; the one before is still there.
        """
        ...

    async def forget(self, key: LoginKey) -> None:
        """Drop the login of this key, if there is one."""
        ...

    def locked(self, key: LoginKey) -> AbstractAsyncContextManager[None]:
        """Keep everybody else from renewing the same login while the context is open."""
        ...
