"""A server may name authorization servers that are where it is, or public."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from plait.client.transports.auth.authorization_servers import (
    EndpointGuard,
    RefusedAddressError,
    reach_of,
)

pytestmark = pytest.mark.anyio

REACHES = {
    "loopback": (
        "127.0.0.1 127.8.8.8 0.0.0.0 ::1 :: ::ffff:127.0.0.1 2002:7f00:1:: ::127.0.0.1 "
        "::ffff:0:127.0.0.1"
    ),
    "link-local": "169.254.169.254 fe80::1 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe",
    "private": (
        "10.0.0.1 172.16.3.4 192.168.1.1 100.64.0.1 fd00::1 224.0.0.1 255.255.255.255 "
        "fec0::1 64:ff9b:1::7f00:1"
    ),
    "public": "93.184.216.34 2606:4700::1111",
}


@pytest.mark.parametrize(
    ("reach", "address"),
    [(reach, address) for reach, texts in REACHES.items() for address in texts.split()],
)
def test_an_address_is_where_its_network_is(reach: str, address: str) -> None:
    assert reach_of(ip_address(address)) == reach


@pytest.mark.parametrize(
    "address",
    [
        "https://127.0.0.1/x",
        "https://127.1/x",
        "https://2130706433/x",
        "https://0x7f000001/x",
        "https://localhost/x",
        "https://[::ffff:127.0.0.1]/x",
        "https://169.254.169.254/latest/meta-data",
        "https://10.0.0.7/token",
        "http://93.184.216.34/token",
        "https://localhost./x",
        "https://169.254.169.254./x",
        "https://[fe80::1%25lo]/x",
        "https://127.0.0.1%2f.example/x",
        "https://idp.localhost/x",
        "http://127.example.com/token",
        "http://127.0.0.1.example.com/token",
    ],
)
async def test_a_public_server_names_public_addresses_with_https(address: str) -> None:
    with pytest.raises(RefusedAddressError):
        await EndpointGuard("https://93.184.216.34/mcp").check(address)


async def test_a_server_may_name_its_own_neighbours() -> None:
    await EndpointGuard("http://127.0.0.1:3000/mcp").check("http://localhost:4000/token")
    await EndpointGuard("http://127.0.0.1:3000/mcp").check("https://10.0.0.7/token")
    await EndpointGuard("https://10.0.0.5/mcp").check("https://10.0.0.7/token")
    await EndpointGuard("https://10.0.0.5/mcp").check("https://93.184.216.34/token")
    for server, address in {
        "https://10.0.0.5/mcp": "https://127.0.0.1/token",
        "http://127.0.0.1:3000/mcp": "https://169.254.169.254/token",
    }.items():
        with pytest.raises(RefusedAddressError):
            await EndpointGuard(server).check(address)


async def test_the_configured_issuer_may_be_anywhere_but_needs_https() -> None:
    guard = EndpointGuard("https://93.184.216.34/mcp", issuer="https://10.0.0.7")

    await guard.check("https://10.0.0.7/token")
    with pytest.raises(RefusedAddressError):
        await guard.check("http://10.0.0.7/token")
