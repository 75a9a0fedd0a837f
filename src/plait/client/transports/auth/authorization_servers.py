"""Decides which addresses of authorization servers may be contacted, and contacts them.

A server names its authorization server, and that one names its endpoints: without a check, a server
could have this machine send requests into networks that the server itself cannot reach.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final, Literal, TypeVar
from urllib.parse import urlsplit

import httpx2
from pydantic import BaseModel, Field
from pydantic_core import from_json

from plait._support.exception_groups import one_line
from plait._support.threads import in_thread
from plait.client.config.urls import is_private
from plait.errors import ConnectError

Send = Callable[[httpx2.Request], Awaitable[httpx2.Response]]
"""Sends a request to an authorization server; raises what `exchange` raises."""

MAX_REDIRECTS: Final = 5
"""Redirects within an origin: an endpoint may have moved, but not that often."""
_EXCHANGE_SECONDS: Final = 15.0
"""One exchange with an authorization server."""

Reach = Literal["public", "private", "link-local", "loopback"]
"""From where an address can be reached."""

_NEIGHBOURS: Final[dict[Reach, frozenset[Reach]]] = {
    "public": frozenset({"public"}),
    "private": frozenset({"public", "private"}),
    "link-local": frozenset({"public", "private", "link-local"}),
    "loopback": frozenset({"public", "private", "loopback"}),
}
"""Which addresses a server may name, by its own."""

_IPV4_AT_END: Final = tuple(map(IPv6Network, ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96")))
"""Compatible, translated and NAT64: the last 32 bits are an IPv4 address."""
_OF_IPV6: Final = frozenset({IPv6Address("::"), IPv6Address("::1")})
_BITS_OF_IPV4: Final = 0xFFFFFFFF


class OAuthError(Exception):
    """Signing in or renewing a login failed; the text quotes no answer of a server.

    `address` is where the user was sent, if the result arrives another way.
    """

    def __init__(self, message: str, address: str | None = None) -> None:
        super().__init__(message)
        self.address = address


class RefusedAddressError(OAuthError):
    """An address of an authorization server must not be used."""


class RefusedRequestError(OAuthError):
    """An authorization server refused a request, or its answer cannot be used."""

    def __init__(self, response: httpx2.Response) -> None:
        # Not the response: it leads to the request, and that holds secrets.
        self.url, self.status = response.url, response.status_code
        success = response.is_success
        self.code = "an answer that cannot be used" if success else error_in(response)
        super().__init__(f"the authorization server at {self.url.host} refused: {self.code}")


Model = TypeVar("Model", bound=BaseModel)


def read_model(kind: type[Model], data: object) -> Model | None:
    """Read an answer, or what was stored; what is invalid counts as missing."""
    try:
        return kind.model_validate(from_json(data) if isinstance(data, bytes) else data)
    except ValueError:
        return None


class _Refusal(BaseModel):
    """https://www.rfc-editor.org/rfc/rfc6749#section-5.2; other texts are not quoted."""

    error: str = Field(pattern="^[a-z_]{1,40}$")


def error_in(response: httpx2.Response) -> str:
    """Return the error code in a response, else its status."""
    refusal = read_model(_Refusal, response.content)
    return f"HTTP {response.status_code}" if refusal is None else refusal.error


@dataclass(frozen=True, slots=True)
class EndpointGuard:
    """Checks the addresses that one server and its authorization servers name."""

    server_url: str
    issuer: str | None = None
    """The configured authorization server, whose network the user has chosen."""

    async def check(self, url: str) -> None:
        """Return if the address may be contacted.

        Raises:
            RefusedAddressError: It is not encrypted, or is in a network the server is not in.
        """
        require_https(url)
        host = urlsplit(url).hostname or ""
        if host in {urlsplit(self.server_url).hostname, urlsplit(self.issuer or "").hostname}:
            return
        reaches = await _reaches_of(host)
        origins = await _reaches_of(urlsplit(self.server_url).hostname or "") or {"public"}
        for reach in reaches:
            # Every address of the server counts: a name may have public and private ones.
            if not all(reach in _NEIGHBOURS[origin] for origin in origins):
                raise RefusedAddressError(
                    f"the server names {host}, which is a {reach} address; set "
                    '"issuer" if that is your authorization server'
                )


def require_https(url: str) -> None:
    """Raise `RefusedAddressError` unless traffic to an address is encrypted, or stays here."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not is_private(url):
        raise RefusedAddressError(
            f"the address {parts.scheme}://{parts.hostname or ''} is refused: "
            "authorization servers need https"
        )


async def exchange(
    send: Callable[..., Awaitable[httpx2.Response]],
    guard: EndpointGuard,
    request: httpx2.Request,
    timeout_seconds: float = _EXCHANGE_SECONDS,
) -> httpx2.Response:
    """Send one request to an authorization server, without the credentials of the client.

    Redirects are followed within the origin only. `timeout_seconds` is for the whole response,
    however slowly it comes.

    Raises:
        RefusedAddressError: The address must not be used.
        ConnectError: It cannot be reached.
    """
    await guard.check(str(request.url))
    limits = dict.fromkeys(("connect", "read", "write", "pool"), timeout_seconds)
    request.extensions = {**request.extensions, "timeout": limits}
    try:
        # The timeouts of the library hold between two bytes only.
        async with asyncio.timeout(timeout_seconds):
            response = await send(request, auth=None, follow_redirects=False)
            for _ in range(MAX_REDIRECTS):
                following = response.next_request
                if following is None or following.method != request.method:
                    break
                if _origin_of(following.url) != _origin_of(request.url):
                    break
                response = await send(following, auth=None, follow_redirects=False)
            return response
    except TimeoutError as error:
        raise unreachable(request.url, f"no whole answer in {timeout_seconds:g} s") from error
    except httpx2.RequestError as error:
        raise unreachable(request.url, one_line(str(error)) or type(error).__name__) from error


def _origin_of(url: httpx2.URL) -> tuple[object, ...]:
    return url.scheme, url.host, url.port, url.userinfo


def unreachable(url: httpx2.URL, reason: str) -> ConnectError:
    """Return the error for an authorization server that cannot be used now."""
    host = url.netloc.decode()
    return ConnectError(f"the authorization server at {host} cannot be used now: {reason}")


async def _reaches_of(host: str) -> set[Reach]:
    """Resolve a host; nothing for one that cannot be resolved, perhaps but by a proxy."""
    # Resolvers differ in what they make of zones, escapes and a dot at the end.
    name = host.partition("%")[0].rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return {"loopback"}  # https://www.rfc-editor.org/rfc/rfc6761#section-6.3
    try:
        found = await in_thread(socket.getaddrinfo, name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return set()
    return {reach_of(ip_address(str(entry[4][0]).partition("%")[0])) for entry in found}


def reach_of(address: IPv4Address | IPv6Address) -> Reach:
    """Classify an address; one that carries an IPv4 address counts as that."""
    if isinstance(address, IPv6Address):
        if any(address in network for network in _IPV4_AT_END) and address not in _OF_IPV6:
            return reach_of(IPv4Address(int(address) & _BITS_OF_IPV4))
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address.teredo is not None:
            inner = address.teredo[1]
        if inner is not None:
            return reach_of(inner)
    if address.is_loopback or address.is_unspecified:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    is_public = address.is_global and not (address.is_multicast or address.is_reserved)
    return "public" if is_public and not getattr(address, "is_site_local", False) else "private"
