"""Discovers authorization servers, and chooses one of several."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, cast

import httpx2
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls as metadata_addresses,
)
from mcp.client.auth.utils import (
    create_oauth_metadata_request,
    handle_auth_metadata_response,
    issuers_match,
)
from mcp.shared.auth import OAuthMetadata

from plait.errors import ConnectError

Send = Callable[[httpx2.Request], Awaitable[httpx2.Response]]
"""Sends a request to an authorization server; raises `ConnectError` if it is unreachable."""


async def metadata_of(issuer: str | None, url: str, send: Send) -> OAuthMetadata | None:
    """Fetch the metadata of an authorization server; `None` if there is none.

    Without an issuer, the server at `url` is its own authorization server.

    Raises:
        ConnectError: The authorization server is unreachable.
    """
    for address in metadata_addresses(issuer, url):
        response = await send(create_oauth_metadata_request(address))
        _, metadata = await handle_auth_metadata_response(response)
        if metadata is not None:
            return metadata
    return None


async def best_server_first(
    response: httpx2.Response, url: str, preferred: Sequence[str], send: Send
) -> httpx2.Response:
    """Put the best of several authorization servers first in the metadata of a resource.

    That is the first of `preferred`, else the first that responds. Other responses are returned
    unchanged.
    """
    issuers = await _issuers_in(response)
    if len(issuers) <= 1:
        return response
    best = await _best_of(issuers, url, preferred, send)
    body = {**cast("dict[str, Any]", response.json()), "authorization_servers": [best]}
    return httpx2.Response(response.status_code, json=body, request=response.request)


async def _best_of(issuers: Sequence[str], url: str, preferred: Sequence[str], send: Send) -> str:
    for preference in preferred:
        for issuer in issuers:
            if issuers_match(issuer, preference):
                return issuer
    for issuer in issuers:
        with contextlib.suppress(ConnectError):
            metadata = await metadata_of(issuer, url, send)
            if metadata is not None and issuers_match(str(metadata.issuer), issuer):
                return issuer
    return issuers[0]


async def _issuers_in(response: httpx2.Response) -> list[str]:
    """Return the authorization servers in the metadata of a resource."""
    if response.status_code != HTTPStatus.OK or response.request.method != "GET":
        return []
    await response.aread()
    with contextlib.suppress(ValueError, RecursionError):
        match response.json():
            case {"authorization_servers": [*issuers]}:
                return [issuer for issuer in issuers if isinstance(issuer, str)]
            case _:
                pass
    return []
