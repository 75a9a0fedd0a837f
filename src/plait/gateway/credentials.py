"""Tokens: their claims, expiry and scopes, and where those for servers come from.

Only structure and expiry are checked; the receiver of a token checks its signature.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from plait._support.redact import Redactor
from plait.client.config.urls import is_private, public_url
from plait.errors import TokenError
from plait.gateway.entries import GatewayServer
from plait.gateway.port import Authorization, TurnContext
from plait.gateway.settings import PLATFORM_APPLICATION, GatewaySettings

logger = logging.getLogger("plait.gateway")

_PARTS = 3


def claims_of(token: str) -> dict[str, Any]:
    """Decode the claims of a token."""
    if not token.strip():
        raise TokenError("Authentication token is required")
    parts = token.split(".")
    if len(parts) != _PARTS:
        raise TokenError("Invalid JWT token format")
    try:
        body = parts[1].encode("ascii")
        text = base64.b64decode(body + b"=" * (-len(body) % 4), altchars=b"-_", validate=True)
        claims: object = json.loads(text)
    except (ValueError, binascii.Error, RecursionError) as error:
        raise TokenError("Failed to decode JWT token payload") from error
    if not isinstance(claims, dict):
        raise TokenError("Failed to decode JWT token payload")
    return cast("dict[str, Any]", claims)


def check_token(token: str, *, now: float | None = None) -> None:
    """Check the structure and expiry of a token."""
    expiry = claims_of(token).get("exp")
    if not isinstance(expiry, int | float) or isinstance(expiry, bool) or not expiry:
        raise TokenError("Authentication token does not contain expiration claim")
    if expiry < (time.time() if now is None else now):
        raise TokenError("Authentication token has expired")


def is_expired(token: str, *, now: float | None = None) -> bool:
    """Say whether a text is an expired token; a text that is no token is not."""
    try:
        expiry = claims_of(token).get("exp")
    except TokenError:
        return False
    return isinstance(expiry, int | float) and expiry < (time.time() if now is None else now)


def claim(token: str, *names: str) -> str:
    """Return the first of these claims that a token has, or an empty string."""
    try:
        claims: Mapping[str, Any] = claims_of(token)
    except TokenError:
        return ""
    return next((str(claims[name]) for name in names if claims.get(name)), "")


def scope_for(server: GatewayServer, settings: GatewaySettings) -> str:
    """Return the scope of the token for a server: the shared one, or its own."""
    audience = (server.audience or "").strip()
    shared = settings.scope.rpartition("/")[0].lower()
    plain = audience.lower().removeprefix("api://")
    if plain in {"", "default", PLATFORM_APPLICATION, shared, shared.removeprefix("api://")}:
        return settings.scope
    return f"{audience}/{server.scope or '.default'}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The tokens of one turn by server; an empty one is not sent."""

    tokens: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    failures: Mapping[str, TokenError] = field(default_factory=dict[str, TokenError])


@dataclass
class TokenSource:
    """Gets the tokens of one turn by token exchange, or in development from the environment."""

    settings: GatewaySettings
    authorization: Authorization | None = None
    auth_handler_name: str | None = None
    turn: TurnContext | None = None
    token: str = field(default="", repr=False)
    """The caller's token, if there is one already."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    _exchanged: dict[str, str | TokenError] = field(
        default_factory=dict[str, "str | TokenError"], init=False, repr=False
    )

    def __post_init__(self) -> None:
        self.token = _bare(self.token)

    async def shared(self) -> str:
        """Return the token for the gateway itself; in development it may be empty."""
        if self.token:
            check_token(self.token)
            return self.token
        if self.settings.development:
            return self._from_environ("BEARER_TOKEN")
        text = "Failed to obtain authentication token from token exchange"
        token = await self._exchange(self.settings.scope, text)
        check_token(token)
        return token

    async def for_servers(self, servers: Iterable[GatewayServer], shared: str) -> Credentials:
        """Return the token of each server, and the reasons for missing ones."""
        tokens: dict[str, str] = {}
        failures: dict[str, TokenError] = {}
        for server in servers:
            name = server.mcp_server_name
            try:
                tokens[name] = await self._for_server(server, shared)
            except TokenError as error:
                text = error.message if name in error.message else f"{name}: {error.message}"
                failures[name] = TokenError(text, server=name, url=public_url(server.url))
                failures[name].__cause__ = error.__cause__
        return Credentials(tokens, failures)

    async def _for_server(self, server: GatewayServer, shared: str) -> str:
        token = self._development_token(server) if self.settings.development else None
        if token != "" and not is_private(server.url):
            raise TokenError("a token is not sent over plain HTTP to another machine")
        if token is not None:
            return token
        scope = scope_for(server, self.settings)
        if scope == self.settings.scope:
            return shared
        text = f"Failed to obtain token for MCP server '{server.mcp_server_name}' (scope: {scope})"
        token = await self._exchange(scope, text)
        check_token(token)
        return token

    def _development_token(self, server: GatewayServer) -> str:
        name = server.mcp_server_name
        upper = name.upper()
        for suffix in (upper, re.sub(r"[^A-Z0-9]", "_", upper)):
            if token := self._from_environ(f"BEARER_TOKEN_{suffix}", name):
                return token
        if scope_for(server, self.settings) != self.settings.scope:
            logger.warning("%s needs its own token, and gets the shared one if any", name)
        return self._from_environ("BEARER_TOKEN", name) or self.token

    def _from_environ(self, variable: str, server: str = "") -> str:
        token = _bare(self.environ.get(variable, ""))
        if is_expired(token):
            where = f"{server}: {variable}" if server else variable
            raise TokenError(f"{where}: Authentication token has expired")
        return token

    async def _exchange(self, scope: str, failure: str) -> str:
        """Get a token, by one exchange for each scope."""
        if scope not in self._exchanged:
            self._exchanged[scope] = await self._request_token(scope)
        token = self._exchanged[scope]
        if isinstance(token, TokenError):
            raise TokenError(f"{failure}: {token.message}".removesuffix(": ")) from token.__cause__
        return token

    async def _request_token(self, scope: str) -> str | TokenError:
        if self.authorization is None or self.turn is None:
            return TokenError("there is no one to request it from: set `authorization`")
        try:
            answer = await self.authorization.exchange_token(
                self.turn, scopes=[scope], auth_handler_id=self.auth_handler_name
            )
        except Exception as error:  # noqa: BLE001  # boundary: a host may raise anything
            text = Redactor().excerpt(str(error))
            failure = TokenError(f"{type(error).__name__}: {text}".removesuffix(": "))
            failure.__cause__ = error
            return failure
        return _bare(getattr(answer, "token", None) or "") or TokenError("")


def _bare(token: str) -> str:
    """Remove a leading `Bearer`."""
    text = token.strip()
    return text[7:].strip() if text[:7].lower() == "bearer " else text
