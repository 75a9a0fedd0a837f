"""Finds the authorization server of an MCP server, and reads what both publish about themselves.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import urlsplit, urlunsplit

import httpx2
from annotated_types import Predicate
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import BaseModel, Field

from plait.client.transports.auth.authorization_servers import (
    Model,
    OAuthError,
    Send,
    read_model,
    unreachable,
)
from plait.errors import ConnectError

MAX_AUTHORIZATION_SERVERS: Final = 5
"""How many authorization servers are tried: a server could name thousands, of others."""

_HEADERS: Final = {"Accept": "application/json", "MCP-Protocol-Version": LATEST_PROTOCOL_VERSION}


def is_web_address(text: str) -> bool:
    """Return whether a text is the address of something that can be requested."""
    try:
        url = httpx2.URL(text)
        return url.scheme in {"http", "https"} and bool(url.host and urlsplit(text).hostname)
    except (httpx2.InvalidURL, ValueError):
        return False


# Addresses stay as they were written: issuers are compared character by character.
WebAddress = Annotated[str, Predicate(is_web_address)]


class ResourceMetadata(BaseModel):
    """What an MCP server says of itself: https://www.rfc-editor.org/rfc/rfc9728#section-2."""

    resource: WebAddress
    authorization_servers: list[WebAddress] = Field(min_length=1)
    scopes_supported: list[str] | None = None


class ServerMetadata(BaseModel):
    """What an authorization server says: https://www.rfc-editor.org/rfc/rfc8414#section-2."""

    issuer: WebAddress
    token_endpoint: WebAddress
    authorization_endpoint: WebAddress | None = None
    registration_endpoint: WebAddress | None = None
    revocation_endpoint: WebAddress | None = None
    scopes_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    client_id_metadata_document_supported: bool | None = None
    authorization_response_iss_parameter_supported: bool | None = None

    @property
    def has_pkce(self) -> bool:
        """Whether it declares that it binds codes to the client, with S256."""
        return "S256" in (self.code_challenge_methods_supported or ())


def resource_of(url: str) -> str:
    """Return the identifier of a server: https://www.rfc-editor.org/rfc/rfc8707#section-2."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.lower(), fragment=""))


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL."""
    parts = httpx2.URL(url)
    return f"{parts.scheme}://{parts.netloc.decode()}"


def covers(resource: str, url: str) -> bool:
    """Return whether a token for a resource is for a URL: the resource itself, or one below it."""
    outer, inner = (f"{urlsplit(address).path.rstrip('/')}/" for address in (resource, url))
    return origin_of(resource) == origin_of(url) and inner.startswith(outer)


def is_same_issuer(first: str, second: str) -> bool:
    """Compare issuers as they are written; only the slash after a bare host makes no difference."""
    if urlsplit(first).path in {"", "/"}:
        first, second = first.removesuffix("/"), second.removesuffix("/")
    return first == second


async def discover(
    url: str,
    resource_metadata: str | None,
    send: Send,
    *,
    only: str | None = None,
    preferred: Sequence[str] = (),
) -> tuple[ResourceMetadata | None, ServerMetadata]:
    """Find the authorization server of the MCP server at `url`.

    `resource_metadata` is the address in its challenge. With `only`, no other authorization server
    is used. Of several it is one of `preferred`, else the first that answers.

    Raises:
        OAuthError: There is none that may be used.
        ConnectError: It cannot be reached.
    """
    resource = await find_resource(url, resource_metadata, send)
    issuers = [origin_of(url)] if resource is None else resource.authorization_servers
    if resource is not None and not covers(resource.resource, url):
        raise OAuthError(f"the resource of the server is {resource.resource}, not {url}")
    if only is not None and not any(is_same_issuer(issuer, only) for issuer in issuers):
        raise OAuthError(f"the server names {issuers[0]}, but issuer is set to {only}")
    if resource is None:
        # Such a server is its own authorization server, if need be at the default addresses.
        # https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization
        origin = issuers[0]
        server = await find_server(origin, send) or ServerMetadata(
            issuer=origin,
            token_endpoint=f"{origin}/token",
            authorization_endpoint=f"{origin}/authorize",
            registration_endpoint=f"{origin}/register",
            code_challenge_methods_supported=["S256"],
        )
        if not is_same_issuer(server.issuer, origin):
            raise OAuthError(f"the authorization server {origin} has the issuer {server.issuer}")
        return None, server
    known = [issuer for one in preferred for issuer in issuers if is_same_issuer(issuer, one)]
    failures: list[Exception] = []
    for issuer in known[:1] or issuers[:MAX_AUTHORIZATION_SERVERS]:
        try:
            server = await find_server(issuer, send)
        except (OAuthError, ConnectError) as error:
            failures.append(error)
            continue
        # https://www.rfc-editor.org/rfc/rfc8414#section-3.3
        if server is not None and server.issuer == issuer:
            return resource, server
        fault = "no metadata that can be used" if server is None else f"the issuer {server.issuer}"
        failures.append(OAuthError(f"the authorization server {issuer} has {fault}"))
    raise failures[0]


async def find_resource(url: str, named: str | None, send: Send) -> ResourceMetadata | None:
    """Fetch the metadata of an MCP server; `None` if it has none, as before 2025-06-18.

    `named` is the address in its challenge.
    """
    path = urlsplit(url).path
    well_known = f"{origin_of(url)}/.well-known/oauth-protected-resource"
    addresses = [well_known + ("" if path == "/" else path), well_known]
    if named is not None and is_web_address(named):
        addresses.insert(0, named)
    return await _fetch(ResourceMetadata, addresses, send)


async def find_server(issuer: str, send: Send) -> ServerMetadata | None:
    """Fetch the metadata of an authorization server; `None` if there is none that can be used."""
    path = urlsplit(issuer).path.rstrip("/")
    origin = origin_of(issuer)
    addresses = [
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
        f"{origin}{path}/.well-known/openid-configuration",
    ]
    return await _fetch(ServerMetadata, addresses, send)


async def _fetch(kind: type[Model], addresses: Sequence[str], send: Send) -> Model | None:
    """Read the first valid metadata; raise `ConnectError` if failures may have hidden some."""
    failed: httpx2.Response | None = None
    for address in dict.fromkeys(addresses):
        response = await send(httpx2.Request("GET", address, headers=_HEADERS))
        model = read_model(kind, response.content)
        if response.status_code == HTTPStatus.OK and model is not None:
            return model
        if response.is_server_error or response.status_code == HTTPStatus.TOO_MANY_REQUESTS:
            failed = response
    if failed is not None:
        raise unreachable(failed.url, f"HTTP {failed.status_code}")
    return None
