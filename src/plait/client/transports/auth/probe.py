"""Probes how a server authenticates, without signing in."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial

import httpx2
from mcp.client.auth.utils import (
    build_protected_resource_metadata_discovery_urls as resource_addresses,
)
from mcp.client.auth.utils import (
    create_oauth_metadata_request,
    handle_protected_resource_response,
    issuers_match,
)
from mcp.shared.auth import ProtectedResourceMetadata
from mcp_types import LATEST_PROTOCOL_VERSION

from plait._support.redact import Redactor
from plait.client.config.oauth import OAuth
from plait.client.config.secrets import secret_values
from plait.client.config.servers import HttpServer, SseServer
from plait.client.transports.auth.challenge import challenge_from
from plait.client.transports.auth.discovery import Send, metadata_of
from plait.client.transports.auth.oauth import exchange
from plait.client.transports.http_client import open_http_client
from plait.client.transports.wire import Wire
from plait.errors import ConnectError, PlaitError

_PROBE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": LATEST_PROTOCOL_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "plait", "version": "0"},
    },
}
"""A request that every server understands."""

_HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
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


def probing(
    client: httpx2.AsyncClient, server: HttpServer | SseServer
) -> AbstractAsyncContextManager[httpx2.Response]:
    """Send a request, to see whether the server requires credentials."""
    if isinstance(server, SseServer):
        return client.stream("GET", server.url, headers={"Accept": "text/event-stream"})
    return client.stream("POST", server.url, json=_PROBE, headers=_HEADERS)


async def probe_sign_in(
    name: str, server: HttpServer | SseServer, wait_seconds: float = 10.0
) -> SignInProbe:
    """Probe a server without credentials, then its authorization server."""
    wire = Wire(name, Redactor(secret_values(server)), lambda: None)
    seen = [SignInProbe()]
    try:
        async with (
            asyncio.timeout(wait_seconds),
            open_http_client(replace(server, auth=None), wire) as client,
        ):
            await _look(server, client, seen)
    except TimeoutError:
        return replace(seen[-1], failure=f"no answer within {wait_seconds:g} s")
    except (PlaitError, httpx2.HTTPError, OSError, ValueError) as error:
        reason = wire.redact.excerpt(str(error)) or type(error).__name__
        return replace(seen[-1], failure=reason)
    return seen[-1]


async def _look(
    server: HttpServer | SseServer, client: httpx2.AsyncClient, seen: list[SignInProbe]
) -> None:
    """Append results step by step, so that a failure keeps the earlier ones."""
    async with probing(client, server) as response:
        challenge = challenge_from(response)
    seen.append(SignInProbe(asks=challenge is not None))
    if challenge is None:
        return
    seen.append(replace(seen[-1], scopes=challenge.scopes))
    send: Send = partial(exchange, client.send)
    described = await _resource_metadata(challenge.resource_metadata, server.url, send)
    if described is not None:
        servers = tuple(map(str, described.authorization_servers))
        resource = str(described.resource)
        seen.append(replace(seen[-1], resource=resource, authorization_servers=servers))
    seen.append(await _authorization_server(seen[-1], server, send))


async def _resource_metadata(
    named: str | None, url: str, send: Send
) -> ProtectedResourceMetadata | None:
    for address in resource_addresses(named, url):
        response = await send(create_oauth_metadata_request(address))
        metadata = await handle_protected_resource_response(response)
        if metadata is not None:
            return metadata
    return None


async def _authorization_server(
    facts: SignInProbe, server: HttpServer | SseServer, send: Send
) -> SignInProbe:
    """Query the authorization servers in turn, the configured one first."""
    preferred = server.auth.issuer if isinstance(server.auth, OAuth) else None
    issuers = sorted(
        facts.authorization_servers,
        key=lambda issuer: preferred is None or not issuers_match(issuer, preferred),
    )
    failure = "the server names no authorization server, and is none itself"
    for issuer in issuers or [None]:
        try:
            metadata = await metadata_of(issuer, server.url, send)
        except ConnectError as error:
            failure = error.message
            continue
        if metadata is not None:
            pkce = "S256" in (metadata.code_challenge_methods_supported or [])
            own = str(metadata.issuer)
            return replace(facts, authorization_server=issuer, issuer=own, pkce=pkce)
        if issuer is not None:
            failure = f"{issuer} has no metadata that can be read"
    return replace(facts, failure=failure)
