"""JWT claims, expiry and scopes.

Only structure and expiry are checked; the receiver of a token checks its signature.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Mapping
from typing import Any, cast

from plait.errors import TokenError
from plait.gateway.entries import GatewayServer
from plait.gateway.settings import PLATFORM_APPLICATION, GatewaySettings

_PARTS = 3


def claims_of(token: str) -> dict[str, Any]:
    """Decode the claims of a token.

    Raises:
        TokenError: It is empty, does not have three parts, or its payload is not JSON.
    """
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
    """Check the structure and expiry of a token.

    Raises:
        TokenError: It is malformed or expired.
    """
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
