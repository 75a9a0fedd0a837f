"""Revokes tokens at the authorization server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Literal, cast
from urllib.parse import urlsplit

import httpx2

from plait._support.exception_groups import one_line
from plait.client.config.oauth import OAuth
from plait.client.transports.auth.discovery import Send
from plait.client.transports.auth.sdk import Negotiation
from plait.client.transports.auth.stores.login import Login
from plait.errors import PlaitError

Hint = Literal["refresh_token", "access_token"]


class RevocationError(Exception):
    """The authorization server did not revoke a token; the text has no secrets."""


async def revoke(settings: OAuth, url: str, login: Login, send: Send, wait_seconds: float) -> bool:
    """Revoke the tokens of a login; returns whether the authorization server supports it.

    The refresh token goes first: most servers revoke its access tokens with it.
    https://www.rfc-editor.org/rfc/rfc7009#section-2

    Raises:
        RevocationError: It failed, or took too long.
    """
    endpoint = (login.authorization_server or {}).get("revocation_endpoint")
    if not isinstance(endpoint, str):
        return False
    tokens: dict[Hint, str | None] = {
        "refresh_token": login.refresh_token,
        "access_token": login.access_token,
    }
    negotiation = Negotiation(settings, url, login, _keep_nothing)
    async with _bounded(endpoint, wait_seconds):
        for hint, token in tokens.items():
            if token is not None:
                form = {"token": token, "token_type_hint": hint}
                response = await send(await negotiation.signed_post(endpoint, form))
                _check(response, hint)
    return True


@asynccontextmanager
async def _bounded(endpoint: str, seconds: float) -> AsyncGenerator[None]:
    host = urlsplit(endpoint).netloc
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise RevocationError(f"{host} did not answer in {seconds:g} s") from None
    except (PlaitError, OSError, ValueError) as error:
        raise RevocationError(one_line(str(error), 200) or type(error).__name__) from error


def _check(response: httpx2.Response, hint: Hint) -> None:
    """Raise unless revoked; servers need not support revoking access tokens."""
    if response.is_success:
        return
    try:
        code: object = cast("Mapping[str, object]", response.json()).get("error")
    except (ValueError, AttributeError):
        code = None
    if code == "unsupported_token_type" and hint == "access_token":
        return
    reason = one_line(code, 60) if isinstance(code, str) else f"HTTP {response.status_code}"
    raise RevocationError(f"the authorization server refused: {reason}")


async def _keep_nothing(_: Login) -> None:
    """Discard what a negotiation would save."""
