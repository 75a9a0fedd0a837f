"""Stores logins in the keyring of the operating system."""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager
from typing import Any

from plait._support.threads import in_thread
from plait.client.transports.auth.stores.file import token_folder
from plait.client.transports.auth.stores.locks import lock_file
from plait.client.transports.auth.stores.login import (
    Login,
    LoginKey,
    login_from_text,
    text_from_login,
)
from plait.errors import ConfigError

logger = logging.getLogger("plait.client.transports.auth")


class KeyringTokenStore:
    """Keeps logins in the system's keyring; needs `plait[keyring]`."""

    def __init__(self, service: str = "plait") -> None:
        self.service = service

    def __repr__(self) -> str:
        return f"KeyringTokenStore({self.service!r})"

    async def load(self, key: LoginKey) -> Login | None:
        """Return the login of this key; an unreadable entry counts as none.

        Raises:
            ConfigError: There is no keyring.
        """
        text = await self._do("get_password", key.digest)
        if not isinstance(text, str):
            return None
        try:
            return login_from_text(text, key)
        except (ValueError, RecursionError):
            logger.warning("the entry %s of the keyring is no login", key.digest)
            return None

    async def save(self, login: Login) -> None:
        """Save a login.

        Raises:
            ConfigError: There is no keyring, or it refuses.
        """
        await self._do("set_password", login.key.digest, text_from_login(login))

    async def forget(self, key: LoginKey) -> None:
        """Delete a login."""
        if await self._do("get_password", key.digest) is not None:
            await self._do("delete_password", key.digest)

    def locked(self, key: LoginKey) -> AbstractAsyncContextManager[None]:
        """Keep other processes from renewing the login; a file, since keyrings have no locks."""
        return lock_file(token_folder() / f"{key.digest}.lock")

    async def _do(self, action: str, *values: str) -> object:
        try:
            return await in_thread(_ask_keyring, action, self.service, *values)
        except ImportError as error:
            raise ConfigError(
                "the keyring package is missing: pip install 'plait[keyring]', or keep logins in "
                'files ("store": "file")'
            ) from error
        except _KeyringRefusedError as error:
            raise ConfigError(f"the keyring of this system cannot be used: {error}") from error


class _KeyringRefusedError(Exception):
    """The keyring is installed but does not work."""


def _ask_keyring(action: str, *values: str) -> object:
    """Call the keyring package, an optional dependency."""
    import keyring  # noqa: PLC0415
    from keyring.errors import KeyringError  # noqa: PLC0415

    module: Any = keyring
    try:
        return getattr(module, action)(*values)
    except KeyringError as error:
        # Not its text: some backends quote the value.
        reason = " ".join(str(error).split())[:100] if action == "get_password" else ""
        raise _KeyringRefusedError(reason or type(error).__name__) from error
