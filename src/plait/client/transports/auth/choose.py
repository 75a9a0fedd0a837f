"""Turning what is configured as `auth` into what the HTTP client takes."""

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
    """Return the auth object for a server, or `None` when nothing is configured.

    `on_secrets` is told every token that must not be shown.

    Raises:
        ConfigError: It is of a kind that cannot be used.
    """
    given = server.auth
    if given is None or isinstance(given, httpx2.Auth):
        return given
    if isinstance(given, OAuth):
        keychain = Keychain(key_for(given, server.url), store_of(given.store), on_secrets)
        return OAuthAuth(name, server.url, given, keychain, prompt_for(given))
    # Whoever made an `httpx.Auth` has imported httpx; nobody else need have it installed.
    httpx = sys.modules.get("httpx")
    if httpx is not None and isinstance(given, httpx.Auth):
        return HttpxAuth(given)
    if is_provider(given):
        return auth_from_provider(given, name, server.url, on_secrets)
    kind = f"{type(given).__module__}.{type(given).__qualname__}"
    raise ConfigError(
        f'{name}: `auth` is a {kind}; give "oauth", plait.OAuth(…), an httpx2.Auth, or an OAuth '
        "provider object",
        server=name,
    )
