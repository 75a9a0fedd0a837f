"""Logins of servers: signs in and out, and examines logins and what servers require.

These modules take a while to import, so commands import this one when they run.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard
from urllib.parse import urlsplit

import httpx2

from plait._support.exception_groups import one_line
from plait._support.redact import Redactor
from plait.client.config.oauth_settings import OAuth
from plait.client.config.secrets import secret_values
from plait.client.config.servers import HttpServer, ServerConfig, SseServer
from plait.client.transports.auth import discovery
from plait.client.transports.auth.authorization_servers import (
    EndpointGuard,
    OAuthError,
    Send,
    exchange,
)
from plait.client.transports.auth.flow import OAuthFlow
from plait.client.transports.auth.login import challenge_of, sign_in_with
from plait.client.transports.auth.oauth_tokens import Keychain, OAuthAuth, key_for
from plait.client.transports.auth.sign_in import OpenPrompt, prompt_in_browser
from plait.client.transports.auth.stores import FileTokenStore, Login, store_of
from plait.client.transports.http_client import open_http_client
from plait.client.transports.wire import Wire
from plait.errors import ConfigError, ConnectError, PlaitError


def _uses_oauth(server: ServerConfig) -> TypeGuard[HttpServer | SseServer]:
    return isinstance(server, HttpServer | SseServer) and isinstance(server.auth, OAuth)


def as_user(server: ServerConfig, user: str | None) -> ServerConfig:
    """Return the same server for the login of another user."""
    if user is None or not _uses_oauth(server):
        return server
    return replace(server, auth=replace(server.auth, user=user))


async def sign_in(
    name: str, server: ServerConfig, ask: OpenPrompt = prompt_in_browser, scope: str | None = None
) -> Login | None:
    """Sign in again, and return the login; `None` if the server requires no credentials."""
    if not _uses_oauth(server):
        raise ConfigError(f'{name}: one does not sign in there; set "auth": "oauth"', server=name)
    settings: OAuth = server.auth
    wire = Wire(name, Redactor(secret_values(server)), lambda: None)
    keychain = Keychain(key_for(settings, server.url), store_of(settings.store), wire.hide)
    auth = OAuthAuth(name, server.url, settings, keychain, ask)
    return await sign_in_with(auth, replace(server, auth=None), wire, scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedOut:
    """The result of signing out; the login is deleted from this machine in any case."""

    was_signed_in: bool = False
    revoked: bool = False
    """Whether the authorization server revoked the login too."""
    failure: str | None = None
    """Why revoking failed."""


async def sign_out(name: str, server: ServerConfig, wait_seconds: float = 5.0) -> SignedOut:
    """Delete the login of a server, and revoke it at the authorization server if possible.

    Revoking takes at most `wait_seconds`; the login is deleted before.
    """
    if not _uses_oauth(server):
        return SignedOut()
    settings: OAuth = server.auth
    key, store = key_for(settings, server.url), store_of(settings.store)
    async with store.locked(key):
        login = await store.load(key)
        await store.forget(key)
    if login is None or login.access_token is None:
        return SignedOut()
    wire = Wire(name, Redactor(secret_values(server)), lambda: None)
    wire.hide(login.secrets)
    endpoint = (login.authorization_server or {}).get("revocation_endpoint")
    if not isinstance(endpoint, str):
        return SignedOut(was_signed_in=True)
    guard = EndpointGuard(server.url, settings.issuer)
    async with open_http_client(replace(server, auth=None), wire) as client:
        send = partial(exchange, client.send, guard)
        try:
            async with asyncio.timeout(wait_seconds):
                await OAuthFlow(settings, server.url, login, store.save, send).revoke(endpoint)
        except TimeoutError:
            failure = f"{urlsplit(endpoint).netloc} did not answer in {wait_seconds:g} s"
        except (PlaitError, OAuthError, OSError, ValueError) as error:
            failure = one_line(str(error), 200) or type(error).__name__
        else:
            return SignedOut(was_signed_in=True, revoked=True)
    return SignedOut(was_signed_in=True, failure=wire.redact.excerpt(failure))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginStatus:
    """The status of a login, without secrets."""

    server: str
    signed_in: bool
    user: str | None
    grant: str
    issuer: str | None = None
    scopes: tuple[str, ...] = ()
    expires_at: float | None = None
    renewable: bool = False
    """Whether it is renewed without asking the user."""

    def to_dict(self) -> dict[str, Any]:
        """Describe the status as plain data."""
        return {**asdict(self), "scopes": list(self.scopes)}


async def login_status(name: str, server: ServerConfig) -> LoginStatus | None:
    """Read the login of a server, without network access; `None` if OAuth is not used."""
    if not _uses_oauth(server):
        return None
    settings: OAuth = server.auth
    key = key_for(settings, server.url)
    login = await store_of(settings.store).load(key) or Login(key=key)
    unattended = settings.grant == "client_credentials"
    return LoginStatus(
        server=name,
        signed_in=login.access_token is not None,
        user=settings.user or None,
        grant=settings.grant,
        issuer=login.issuer,
        scopes=tuple((login.scope or "").split()),
        expires_at=login.expires_at,
        renewable=unattended or login.refresh_token is not None,
    )


def login_file(server: ServerConfig) -> Path | None:
    """Return the file of a server's login, if it is stored in one."""
    if not _uses_oauth(server):
        return None
    key, store = key_for(server.auth, server.url), store_of(server.auth.store)
    return store.path_of(key) if isinstance(store, FileTokenStore) else None


@dataclass(slots=True, kw_only=True)
class SignInProbe:
    """The sign-in requirements of a server and its authorization server."""

    asks: bool | None = None
    """Whether the server requires credentials; `None` if it could not be reached."""
    scopes: tuple[str, ...] = ()
    """The scopes it requires."""
    resource: str | None = None
    """The server's own resource identifier."""
    authorization_servers: tuple[str, ...] = ()
    """The authorization servers in its metadata."""
    authorization_server: str | None = None
    """The one of them that responded."""
    issuer: str | None = None
    """Its own issuer identifier."""
    pkce: bool = False
    """Whether it declares PKCE with S256."""
    failure: str | None = None
    """Why the probe is incomplete."""


async def probe_sign_in(
    name: str, server: HttpServer | SseServer, wait_seconds: float = 10.0
) -> SignInProbe:
    """Probe a server without credentials, then its authorization server."""
    wire = Wire(name, Redactor(secret_values(server)), lambda: None)
    probe = SignInProbe()
    try:
        async with (
            asyncio.timeout(wait_seconds),
            open_http_client(replace(server, auth=None), wire) as client,
        ):
            await _look(server, client, probe)
    except TimeoutError:
        probe.failure = f"no answer within {wait_seconds:g} s"
    except (PlaitError, OAuthError, httpx2.HTTPError, OSError, ValueError) as error:
        probe.failure = wire.redact.excerpt(str(error)) or type(error).__name__
    return probe


async def _look(
    server: HttpServer | SseServer, client: httpx2.AsyncClient, probe: SignInProbe
) -> None:
    """Fill in the probe step by step, so that a failure keeps what is known."""
    challenge = await challenge_of(client, server)
    probe.asks = challenge is not None
    if challenge is None:
        return
    probe.scopes = challenge.scopes
    issuer = server.auth.issuer if isinstance(server.auth, OAuth) else None
    send: Send = partial(exchange, client.send, EndpointGuard(server.url, issuer))
    described = await discovery.find_resource(server.url, challenge.resource_metadata, send)
    if described is not None:
        probe.resource = described.resource
        probe.authorization_servers = tuple(described.authorization_servers)
    # The configured one first.
    issuers = sorted(
        probe.authorization_servers,
        key=lambda named: issuer is None or not discovery.is_same_issuer(named, issuer),
    )
    probe.failure = "the server names no authorization server, and is none itself"
    for named in issuers[: discovery.MAX_AUTHORIZATION_SERVERS] or [None]:
        try:
            metadata = await discovery.find_server(named or discovery.origin_of(server.url), send)
        except (ConnectError, OAuthError) as error:
            probe.failure = str(error)
            continue
        if metadata is not None:
            probe.pkce = metadata.has_pkce
            probe.authorization_server, probe.issuer = named, metadata.issuer
            probe.failure = None
            return
        if named is not None:
            probe.failure = f"{named} has no metadata that can be read"
