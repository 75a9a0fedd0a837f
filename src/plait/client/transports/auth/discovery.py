"""Discovers authorization servers, and chooses one of several."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, cast

import httpx2
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls as metadata_addresses,
)
from mcp.client.auth.utils import create_oauth_metadata_request, issuers_match
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
        if response.status_code != HTTPStatus.OK:
            continue
        try:
            return OAuthMetadata.model_validate_json(await response.aread())
        except ValueError:
            continue
    return None


async def best_server_first(
    response: httpx2.Response, url: str, wanted: Sequence[str], send: Send
) -> httpx2.Response:
    """Put the best of several authorization servers first in the metadata of a resource.

    That is the first of `wanted`, else the first that responds. Other responses are returned
    unchanged.
    """
    named = await _named_in(response)
    if len(named) <= 1:
        return response
    chosen = await _chosen(named, url, wanted, send)
    body = {**cast("dict[str, Any]", response.json()), "authorization_servers": [chosen]}
    return httpx2.Response(response.status_code, json=body, request=response.request)


async def _chosen(named: Sequence[str], url: str, wanted: Sequence[str], send: Send) -> str:
    for issuer in wanted:
        for one in named:
            if issuers_match(one, issuer):
                return one
    for one in named:
        try:
            found = await metadata_of(one, url, send)
        except ConnectError:
            continue
        if found is not None and issuers_match(str(found.issuer), one):
            return one
    return named[0]


async def _named_in(response: httpx2.Response) -> list[str]:
    """Return the authorization servers in the metadata of a resource."""
    if response.status_code != HTTPStatus.OK or response.request.method != "GET":
        return []
    await response.aread()
    try:
        body = response.json()
    except (ValueError, RecursionError):
        return []
    match body:
        case {"authorization_servers": [*servers]}:
            return [one for one in servers if isinstance(one, str)]
        case _:
            return []
