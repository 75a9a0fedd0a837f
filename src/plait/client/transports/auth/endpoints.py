"""Decides which addresses of authorization servers may be contacted.

A server names its authorization server, and that one names its endpoints: without a check, a server
could have this machine send requests into networks that the server itself cannot reach.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final, Literal
from urllib.parse import urlsplit

from mcp.client.auth import OAuthFlowError

from plait._support.threads import in_thread
from plait.client.config.urls import is_private

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


class RefusedAddressError(OAuthFlowError):
    """An address of an authorization server must not be used."""


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
