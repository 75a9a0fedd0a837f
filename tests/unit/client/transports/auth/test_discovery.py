"""Which authorization server belongs to an MCP server, by what both publish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2
import pytest

from plait.client.transports.auth.authorization_servers import OAuthError
from plait.client.transports.auth.discovery import (
    covers,
    discover,
    find_resource,
    find_server,
    is_same_issuer,
    is_web_address,
    resource_of,
)
from plait.errors import ConnectError

pytestmark = pytest.mark.anyio

URL = "https://shop.example/a/mcp"
KNOWN = "/.well-known/oauth-protected-resource"


class Internet:
    """Answers requests for metadata: a document, a status, or 404."""

    def __init__(self, pages: Mapping[str, dict[str, Any] | int]) -> None:
        self._pages = pages
        self.asked: list[str] = []

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        address = str(request.url)
        self.asked.append(address)
        page = self._pages.get(address, 404)
        if isinstance(page, int):
            return httpx2.Response(page, request=request)
        return httpx2.Response(200, json=page, request=request)


def resource(*issuers: str, **more: Any) -> dict[str, Any]:
    return {"resource": URL, "authorization_servers": list(issuers), **more}


def server(issuer: str, **more: Any) -> dict[str, Any]:
    endpoints = {"authorization_endpoint": f"{issuer}/a", "token_endpoint": f"{issuer}/t"}
    return {"issuer": issuer, **endpoints, **more}


async def test_the_metadata_of_a_server_is_looked_for_in_order() -> None:
    internet = Internet({})

    assert await find_resource(URL, "https://shop.example/here", internet.send) is None

    origin = "https://shop.example"
    assert internet.asked == [f"{origin}/here", f"{origin}{KNOWN}/a/mcp", f"{origin}{KNOWN}"]


@pytest.mark.parametrize("named", ["/relative", "file:///etc/passwd", "http://[::1", "\x00"])
async def test_a_challenge_that_names_no_address_is_passed_over(named: str) -> None:
    internet = Internet({f"https://shop.example{KNOWN}": resource("https://login.example")})

    found = await find_resource("https://shop.example/", named, internet.send)

    assert found is not None
    assert internet.asked == [f"https://shop.example{KNOWN}"]


@pytest.mark.parametrize(
    ("issuer", "places"),
    [
        (
            "https://login.example",
            [".well-known/oauth-authorization-server", ".well-known/openid-configuration"],
        ),
        (
            "https://login.example/one/",
            [
                ".well-known/oauth-authorization-server/one",
                ".well-known/openid-configuration/one",
                "one/.well-known/openid-configuration",
            ],
        ),
    ],
)
async def test_the_metadata_of_an_authorization_server_is_looked_for_in_order(
    issuer: str, places: list[str]
) -> None:
    internet = Internet({})

    assert await find_server(issuer, internet.send) is None
    assert internet.asked == [f"https://login.example/{place}" for place in places]


async def test_metadata_that_cannot_be_used_does_not_hide_the_next() -> None:
    issuer = "https://login.example"
    broken = {**server(issuer), "token_endpoint": "javascript:alert(1)"}
    internet = Internet(
        {
            f"{issuer}/.well-known/oauth-authorization-server": broken,
            f"{issuer}/.well-known/openid-configuration": server(issuer),
        }
    )

    assert await find_server(issuer, internet.send) is not None


async def test_a_failure_says_nothing_about_whether_there_is_metadata() -> None:
    """Without metadata a server would be taken for its own authorization server."""
    internet = Internet({f"https://shop.example{KNOWN}/a/mcp": 503})

    with pytest.raises(ConnectError, match="HTTP 503"):
        await discover(URL, None, internet.send)

    assert all(KNOWN in address for address in internet.asked)


async def test_a_server_without_metadata_is_its_own_authorization_server() -> None:
    found, itself = await discover(URL, None, Internet({}).send)

    assert found is None
    assert itself.issuer == "https://shop.example"
    assert itself.token_endpoint == "https://shop.example/token"
    assert itself.registration_endpoint == "https://shop.example/register"
    with pytest.raises(OAuthError, match="issuer is set to"):
        await discover(URL, None, Internet({}).send, only="https://login.example")


async def test_a_server_without_metadata_speaks_for_nobody_else() -> None:
    place = "https://shop.example/.well-known/oauth-authorization-server"

    with pytest.raises(OAuthError, match="has the issuer"):
        await discover(URL, None, Internet({place: server("https://login.example")}).send)
    _, itself = await discover(URL, None, Internet({place: server("https://shop.example/")}).send)
    assert itself.issuer == "https://shop.example/"


@pytest.mark.parametrize("other", ["https://shop.example/b", "https://shop.exam/a", "http://x/a"])
async def test_metadata_of_another_resource_is_refused(other: str) -> None:
    internet = Internet({f"https://shop.example{KNOWN}": resource("https://i", resource=other)})

    with pytest.raises(OAuthError, match="the resource of the server is"):
        await discover(URL, None, internet.send)


@pytest.mark.parametrize("claimed", ["https://login.example/", "https://evil.example"])
async def test_an_authorization_server_has_the_issuer_that_names_it(claimed: str) -> None:
    issuer = "https://login.example"
    internet = Internet(
        {
            f"https://shop.example{KNOWN}": resource(issuer),
            f"{issuer}/.well-known/oauth-authorization-server": server(claimed),
        }
    )

    with pytest.raises(OAuthError, match="has the issuer"):
        await discover(URL, None, internet.send)


def test_a_resource_covers_what_is_below_it() -> None:
    assert covers("https://shop.example", URL)
    assert covers("https://SHOP.example:443/a/", URL)
    assert covers(URL, f"{URL}/")
    assert not covers("https://shop.example/a/mc", URL)
    assert not covers("https://shop.example:8443/a", URL)


def test_only_the_slash_after_a_host_makes_no_difference_to_an_issuer() -> None:
    assert is_same_issuer("https://h", "https://h/")
    assert not is_same_issuer("https://h/x", "https://h/x/")
    assert not is_same_issuer("https://h", "https://H")
    assert not is_same_issuer("https://h//", "https://h")


def test_a_login_is_found_again_under_the_same_resource() -> None:
    """Stored logins have it in their key: another spelling would sign everybody out."""
    assert resource_of("HTTPS://Shop.Example/A/mcp?x=1#y") == "https://shop.example/A/mcp?x=1"


@pytest.mark.parametrize(
    "text", ["", "x", "//h/x", "ftp://h", "https://", "https://h:x/", "\ud800"]
)
def test_what_cannot_be_requested_is_no_address(text: str) -> None:
    assert not is_web_address(text)
