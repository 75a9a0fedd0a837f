"""Creates the HTTP client's auth object from the configured `auth`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import httpx2

from plait.client.config.oauth import OAuth
from plait.client.config.servers import RemoteOptions
from plait.client.transports.auth.httpx_auth import HttpxAuth
from plait.client.transports.auth.keychain import Keychain, key_for, store_of
from plait.client.transports.auth.oauth import OAuthAuth
from plait.client.transports.auth.prompts import prompt_for
from plait.client.transports.auth.provider_object import auth_from_provider, is_provider
from plait.errors import ConfigError

OnSecrets = Callable[[Iterable[str]], None]


def auth_of(
    server: RemoteOptions, name: str, on_secrets: OnSecrets = lambda _: None
) -> httpx2.Auth | None:
    """Return the auth object for a server, or `None` if none is configured.

    `on_secrets` gets every token that must not be shown.

    Raises:
        ConfigError: Its type is not supported.
    """
    auth = server.auth
    if auth is None or isinstance(auth, httpx2.Auth):
        return auth
    if isinstance(auth, OAuth):
        keychain = Keychain(key_for(auth, server.url), store_of(auth.store), on_secrets)
        return OAuthAuth(name, server.url, auth, keychain, prompt_for(auth))
    # An `httpx.Auth` object exists only if httpx was imported; it is no dependency.
    httpx = sys.modules.get("httpx")
    if httpx is not None and isinstance(auth, httpx.Auth):
        return HttpxAuth(auth)
    if is_provider(auth):
        return auth_from_provider(auth, name, server.url, on_secrets)
    kind = f"{type(auth).__module__}.{type(auth).__qualname__}"
    raise ConfigError(
        f'{name}: `auth` is a {kind}; give "oauth", plait.OAuth(…), an httpx2.Auth, or an OAuth '
        "provider object",
        server=name,
    )
