"""Signs in to one server."""

from __future__ import annotations

import asyncio

import httpx2
from mcp_types import LATEST_PROTOCOL_VERSION

from plait._support.causes import without_secrets
from plait._support.redact import Redactor
from plait.client.config.oauth_settings import sign_in_listeners
from plait.client.config.servers import HttpServer, SseServer
from plait.client.transports.auth.auth_objects import ProviderAuth, is_provider
from plait.client.transports.auth.challenge import Challenge, SignInNeededError, challenge_from
from plait.client.transports.auth.oauth_tokens import OAuthAuth
from plait.client.transports.auth.stores import Login
from plait.client.transports.http_client import open_http_client
from plait.client.transports.wire import Wire
from plait.errors import AuthRequiredError, ConfigError

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


async def finish_sign_in(provider: object, url: str, answer: str) -> None:
    """Complete a login after a provider object has redirected the user.

    `answer` is the redirect address, or the code in it. The caller must check that its `state`
    belongs to the attempt.

    Raises:
        AuthRequiredError: Signing in failed.
    """
    if not is_provider(provider):
        raise ConfigError(f"a {type(provider).__name__} is no OAuth provider object")
    wire = Wire(url, Redactor(), lambda: None)
    auth = ProviderAuth(provider, url, url, wire.hide, answer=answer)
    await sign_in_with(auth, HttpServer(url=url), wire, None)
    for listener in list(sign_in_listeners):
        listener.signed_in(provider)
    await asyncio.sleep(0)  # those of this loop take notice before the caller goes on


async def sign_in_with(
    auth: OAuthAuth, server: HttpServer | SseServer, wire: Wire, scope: str | None
) -> Login | None:
    """Sign in with an auth object, and return the login; `None` if the server wants none.

    Raises:
        AuthRequiredError: Signing in failed.
    """
    async with open_http_client(server, wire) as client:
        auth.attach(client.send)
        try:
            challenge = await challenge_of(client, server)
            if challenge is None:
                return None
            return await auth.sign_in(challenge.with_scopes(scope))
        except SignInNeededError as needed:
            failed = needed
    header = failed.challenge.header
    raise AuthRequiredError(
        f"{wire.server}: {wire.redact.excerpt(failed.advice.text, 400)}",
        server=wire.server,
        challenge=None if header is None else wire.redact(header),
    ) from without_secrets(failed, wire.redact)


async def challenge_of(
    client: httpx2.AsyncClient, server: HttpServer | SseServer
) -> Challenge | None:
    """Send a request without credentials, and return the challenge of a server that wants some."""
    stream = client.stream("POST", server.url, json=_PROBE, headers=_HEADERS)
    if isinstance(server, SseServer):
        stream = client.stream("GET", server.url, headers={"Accept": "text/event-stream"})
    async with stream as response:
        return challenge_from(response)
