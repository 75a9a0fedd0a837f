"""Turning what is configured as `store` into a store."""

from __future__ import annotations

from plait.client.transports.auth.stores.file import FileTokenStore
from plait.client.transports.auth.stores.keyring import KeyringTokenStore
from plait.client.transports.auth.stores.memory import MemoryTokenStore
from plait.client.transports.auth.stores.port import TokenStore
from plait.errors import ConfigError

_MEMORY = MemoryTokenStore()
"""One for the process, so that the sessions of a server share their login."""


def store_of(given: object) -> TokenStore:
    """Return the store of that name, or the object itself if it is one.

    Raises:
        ConfigError: It is neither.
    """
    match given:
        case "file" | None:
            return FileTokenStore()
        case "keyring":
            return KeyringTokenStore()
        case "memory":
            return _MEMORY
        case TokenStore():
            return given
        case _:
            kind = type(given).__name__
            raise ConfigError(f'oauth: "store" is a {kind}; give "file", "keyring" or a TokenStore')
