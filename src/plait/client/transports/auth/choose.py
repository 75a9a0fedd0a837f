"""Creates the HTTP client's auth object from the configured `auth`."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any

import httpx2

from plait.client.config.oauth import OAuth
from plait.client.config.servers import RemoteOptions
from plait.client.transports.auth.keychain import Keychain, key_for
from plait.client.transports.auth.oauth import OAuthAuth
from plait.client.transports.auth.prompts import prompt_for
from plait.client.transports.auth.provider_object import ProviderAuth, is_provider
from plait.client.transports.auth.stores import store_of
from plait.errors import ConfigError

OnSecrets = Callable[[Iterable[str]], None]

_BODY = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})
"""Headers that describe the encoded body, which is decoded or missing here."""


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
        return _HttpxAuth(auth)
    if is_provider(auth):
        return ProviderAuth(auth, name, server.url, on_secrets)
    kind = f"{type(auth).__module__}.{type(auth).__qualname__}"
    raise ConfigError(
        f'{name}: `auth` is a {kind}; give "oauth", plait.OAuth(…), an httpx2.Auth, or an OAuth '
        "provider object",
        server=name,
    )


class _HttpxAuth(httpx2.Auth):
    """Runs the flow of an `httpx.Auth`, which has the interface of httpx2 with other classes."""

    def __init__(self, auth: Any) -> None:
        self._auth = auth
        self.requires_request_body = bool(auth.requires_request_body)
        # Reading every body would block event streams until they end.
        self.requires_response_body = bool(auth.requires_response_body)

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Run the `httpx` flow."""
        import httpx  # noqa: PLC0415  # installed where an httpx.Auth is used

        original = httpx.Request(
            request.method, str(request.url), headers=request.headers.raw, content=request.content
        )
        flow = self._auth.async_auth_flow(original)
        try:
            pending = await anext(flow)
            while True:
                response = yield _converted(request, pending, is_original=pending is original)
                body = await response.aread() if self.requires_response_body else b""
                headers = [pair for pair in response.headers.raw if pair[0].lower() not in _BODY]
                pending = await flow.asend(
                    httpx.Response(
                        response.status_code, headers=headers, content=body, request=pending
                    )
                )
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


def _converted(request: httpx2.Request, changed: Any, *, is_original: bool) -> httpx2.Request:
    """Apply the flow's changes; the original request keeps its body, timeout and stream."""
    if not is_original:
        return httpx2.Request(
            changed.method, str(changed.url), headers=changed.headers.raw, content=changed.content
        )
    request.headers = httpx2.Headers(changed.headers.raw)
    return request
