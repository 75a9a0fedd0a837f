"""Creates the HTTP client's auth object from the configured `auth`, also one of other libraries.

The OAuth provider object of another MCP client keeps the tokens and prompts the user. It has
`redirect_url`, `client_metadata`, `client_information()`, `tokens()`, `save_tokens()`,
`redirect_to_authorization()`, `save_code_verifier()` and `code_verifier()`, in snake_case or
camelCase, each method sync or async.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any, cast
from weakref import WeakValueDictionary

import httpx2
from pydantic import BaseModel

from plait._support.gather import resolve
from plait.client.config.oauth_settings import OAuth
from plait.client.config.raw_value import camel_case
from plait.client.config.servers import RemoteOptions
from plait.client.transports.auth.authorization_servers import OAuthError
from plait.client.transports.auth.discovery import resource_of
from plait.client.transports.auth.oauth_tokens import Keychain, OAuthAuth, key_for
from plait.client.transports.auth.sign_in import (
    CodeResult,
    Prompt,
    prompt_for,
    result_from_text,
)
from plait.client.transports.auth.stores import Login, LoginKey, MemoryTokenStore, store_of
from plait.errors import ConfigError

OnSecrets = Callable[[Iterable[str]], None]

_BODY = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})
"""Headers that describe the encoded body, which is decoded or missing here."""


def auth_of(
    server: RemoteOptions, name: str, on_secrets: OnSecrets = lambda _: None
) -> httpx2.Auth | None:
    """Return the auth object for a server, or `None` if none is configured.

    `on_secrets` gets every token that must not be shown.
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
        import httpx  # noqa: PLC0415  # installed where an httpx.Auth is used

        original = httpx.Request(
            request.method, str(request.url), headers=request.headers.raw, content=request.content
        )
        flow = self._auth.async_auth_flow(original)
        try:
            pending = await anext(flow)
            while True:
                if pending is original:
                    # It keeps its body, timeout and stream.
                    request.headers, changed = httpx2.Headers(pending.headers.raw), request
                else:
                    url, headers = str(pending.url), pending.headers.raw
                    changed = httpx2.Request(
                        pending.method, url, headers=headers, content=pending.content
                    )
                response = yield changed
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


def is_provider(value: object) -> bool:
    """Return whether an object has the methods of such a provider."""
    return callable(_attribute(value, "tokens")) and callable(_attribute(value, "save_tokens"))


class ProviderAuth(OAuthAuth):
    """Signs in with the tokens of a provider object.

    `answer` is the result of an earlier redirect, perhaps by another process.
    """

    def __init__(
        self,
        provider: object,
        name: str,
        url: str,
        on_secrets: OnSecrets,
        *,
        answer: str | None = None,
    ) -> None:
        # A store holds its provider, so an id in the table is never that of another object.
        store = _stores.setdefault(id(provider), ProviderStore(provider))
        keychain = Keychain(LoginKey(resource=resource_of(url)), store, on_secrets)
        metadata = _plain(_value(provider, "client_metadata"))
        uris: list[object] = metadata.get("redirect_uris") or []
        redirect: object = _value(provider, "redirect_url") or (uris[0] if uris else None)
        settings = OAuth(
            scopes=str(metadata.get("scope") or "").split(),
            client_metadata=metadata,
            redirect_uri=None if redirect is None else str(redirect),
            # Never called: they say that the user can be prompted.
            on_redirect=lambda _: None,
            on_callback=lambda: None,
        )
        super().__init__(name, url, settings, keychain, self._open_prompt)
        self._provider = provider
        self._answer = answer

    @asynccontextmanager
    async def _open_prompt(self, settings: OAuth, login: Login) -> AsyncGenerator[Prompt]:
        del login
        state, verifier = secrets.token_urlsafe(), secrets.token_urlsafe()
        if self._answer is not None:
            verifier = str(await _call(self._provider, "code_verifier"))
        elif callable(_attribute(self._provider, "state")):
            state = str(await _call(self._provider, "state"))

        async def show(address: str) -> None:
            if self._answer is None:
                await _call(self._provider, "save_code_verifier", verifier)
                await _call(self._provider, "redirect_to_authorization", address)
                raise OAuthError(
                    "the person was sent to sign in; hand over what comes back with "
                    "plait.client.finish_sign_in(provider, url, answer)",
                    address,
                )

        async def wait_for_result() -> CodeResult:
            # The caller has checked which attempt the answer belongs to.
            return replace(result_from_text(self._answer or "", state), state=state)

        yield Prompt(
            redirect_uri=settings.redirect_uri or "http://127.0.0.1/",
            show=show,
            wait_for_result=wait_for_result,
            state=state,
            verifier=verifier,
        )


class ProviderStore:
    """Keeps a login in a provider object, and the rest in memory."""

    def __init__(self, provider: object) -> None:
        self._provider = provider
        self._memory = MemoryTokenStore()

    async def load(self, key: LoginKey) -> Login | None:
        """Read tokens and client from the provider."""
        tokens = _plain(await _call(self._provider, "tokens"))
        client = _plain(await _call(self._provider, "client_information"))
        known = await self._memory.load(key) or Login(key=key)
        same = known.access_token == tokens.get("access_token")
        return Login(
            key=key,
            access_token=tokens.get("access_token"),
            refresh_token=tokens.get("refresh_token"),
            scope=tokens.get("scope"),
            expires_at=tokens.get("expires_at", known.expires_at if same else None),
            lifetime_seconds=tokens.get("expires_in"),
            client=client or known.client,
            authorization_server=known.authorization_server,
            protected_resource=known.protected_resource,
        )

    async def save(self, login: Login) -> None:
        """Save tokens and client in the provider."""
        await self._memory.save(login)
        if login.client is not None:
            await _call(self._provider, "save_client_information", dict(login.client))
        if login.access_token is None:
            await _call(self._provider, "invalidate_credentials", "tokens")
            return
        tokens = {
            "access_token": login.access_token,
            "token_type": "Bearer",
            "refresh_token": login.refresh_token,
            "scope": login.scope,
            "expires_in": login.lifetime_seconds,
            "expires_at": login.expires_at,
        }
        known = {name: value for name, value in tokens.items() if value is not None}
        await _call(self._provider, "save_tokens", known)

    async def forget(self, key: LoginKey) -> None:
        """Invalidate the provider's credentials."""
        await self._memory.forget(key)
        await _call(self._provider, "invalidate_credentials", "all")

    def locked(self, key: LoginKey) -> AbstractAsyncContextManager[None]:
        """Keep other threads from renewing the login meanwhile."""
        return self._memory.locked(key)


_stores: WeakValueDictionary[int, ProviderStore] = WeakValueDictionary()
"""The store of each provider object in use, so that its sessions share one lock."""


def _attribute(value: object, name: str) -> Any:
    spellings = (getattr(value, spelling, None) for spelling in (name, camel_case(name)))
    return next((attribute for attribute in spellings if attribute is not None), None)


def _value(provider: object, name: str) -> Any:
    """Return an attribute, or the result of a method without arguments."""
    value = _attribute(provider, name)
    return value() if callable(value) else value


async def _call(provider: object, name: str, *values: object) -> Any:
    """Call a method of the provider; a missing one returns `None`."""
    method = _attribute(provider, name)
    if not callable(method):
        return None
    return await resolve(method(*values))


def _plain(value: object) -> dict[str, Any]:
    """Return a mapping, a model or `None` as a dict."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}
