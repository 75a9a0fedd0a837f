"""Turning what is configured as `auth` into what the HTTP client takes."""

from __future__ import annotations

import sys

import httpx2

from plait.config.servers import RemoteOptions
from plait.errors import ConfigError
from plait.transports.auth.foreign import ForeignAuth


def auth_of(server: RemoteOptions, name: str) -> httpx2.Auth | None:
    """Return the auth object for a server, or `None` when nothing is configured.

    Raises:
        ConfigError: It is of a kind that cannot be used.
    """
    given = server.auth
    if given is None or isinstance(given, httpx2.Auth):
        return given
    # Whoever made an `httpx.Auth` has imported httpx; nobody else need have it installed.
    httpx = sys.modules.get("httpx")
    if httpx is not None and isinstance(given, httpx.Auth):
        return ForeignAuth(given)
    kind = f"{type(given).__module__}.{type(given).__qualname__}"
    raise ConfigError(f"{name}: `auth` is a {kind}; give an httpx2.Auth", server=name)
