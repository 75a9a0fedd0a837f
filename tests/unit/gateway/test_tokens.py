"""Tokens are looked at as far as they can be without a key, and each server gets its own."""

from __future__ import annotations

import base64

import pytest

from plait.errors import TokenError
from plait.gateway import GatewayServer
from plait.gateway.credentials import (
    DEFAULT_SCOPE,
    PLATFORM_APPLICATION,
    GatewaySettings,
    check_token,
    claim,
    claims_of,
    is_expired,
    scope_for,
)
from tests.unit.gateway.turns import jwt

NOT_JSON = base64.urlsafe_b64encode(b"not json").decode().rstrip("=")
A_LIST = base64.urlsafe_b64encode(b"[1]").decode().rstrip("=")


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("", "Authentication token is required"),
        ("   ", "Authentication token is required"),
        ("one.two", "Invalid JWT token format"),
        ("one.two.three.four", "Invalid JWT token format"),
        ("a.*.c", "Failed to decode JWT token payload"),
        (f"a.{NOT_JSON}.c", "Failed to decode JWT token payload"),
        (f"a.{A_LIST}.c", "Failed to decode JWT token payload"),
        ("a.ü.c", "Failed to decode JWT token payload"),
        (jwt(exp=None), "Authentication token does not contain expiration claim"),
        (jwt(exp=0), "Authentication token does not contain expiration claim"),
        (jwt(exp="soon"), "Authentication token does not contain expiration claim"),
        (jwt(exp=1), "Authentication token has expired"),
    ],
)
def test_a_token_that_is_none_or_over_is_refused(token: str, text: str) -> None:
    with pytest.raises(TokenError) as caught:
        check_token(token)

    assert caught.value.message == text


def test_a_token_holds_until_its_last_second() -> None:
    token = jwt(exp=1000)

    check_token(token, now=1000)
    with pytest.raises(TokenError):
        check_token(token, now=1000.5)


def test_claims_are_read_from_any_padding() -> None:
    for size in range(8):
        assert claims_of(jwt(name="x" * size))["name"] == "x" * size


def test_the_first_claim_that_is_made_counts() -> None:
    assert claim(jwt(azp="b"), "appid", "azp") == "b"
    assert claim(jwt(appid="a", azp="b"), "appid", "azp") == "a"
    assert claim("opaque", "appid") == ""


def test_a_text_that_is_no_token_is_never_over() -> None:
    assert not is_expired("opaque")
    assert not is_expired("")
    assert is_expired(jwt(exp=1))


def server(audience: str | None = None, scope: str | None = None) -> GatewayServer:
    return GatewayServer(
        mcp_server_name="mail",
        mcp_server_unique_name="mail",
        url="https://mail.example",
        audience=audience,
        scope=scope,
    )


@pytest.mark.parametrize(
    ("audience", "scope", "wanted"),
    [
        (None, None, DEFAULT_SCOPE),
        (None, "McpServers.Mail.All", DEFAULT_SCOPE),
        ("default", None, DEFAULT_SCOPE),
        (PLATFORM_APPLICATION, None, DEFAULT_SCOPE),
        (PLATFORM_APPLICATION.upper(), None, DEFAULT_SCOPE),
        (f"api://{PLATFORM_APPLICATION}", "McpServers.Mail.All", DEFAULT_SCOPE),
        ("other", None, "other/.default"),
        ("other", "Tools.ListInvoke.All", "other/Tools.ListInvoke.All"),
        ("api://other", None, "api://other/.default"),
    ],
)
def test_a_server_wants_the_shared_token_or_one_of_its_own(
    audience: str | None, scope: str | None, wanted: str
) -> None:
    assert scope_for(server(audience, scope), GatewaySettings()) == wanted


def test_the_audience_of_a_configured_scope_is_shared_too() -> None:
    settings = GatewaySettings(scope="api://mine/.default")

    assert scope_for(server("mine"), settings) == "api://mine/.default"
    assert scope_for(server("api://mine"), settings) == "api://mine/.default"
    assert scope_for(server("yours"), settings) == "yours/.default"
