"""What is found about signing in, from what was seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from plait.cli.diagnosis import AuthSeen, Examined, Finding, check_auth, plain_secrets
from plait.cli.logins import LoginStatus, SignInProbe
from plait.client.config.oauth_settings import OAuth
from plait.client.config.servers import HttpServer, StdioServer
from plait.client.connections.status import ServerStatus
from plait.errors import AuthRequiredError

URL = "https://shop.example/mcp"
ISSUER = "https://login.example"
FACTS = SignInProbe(
    asks=True,
    scopes=("read",),
    resource=URL,
    authorization_servers=(ISSUER,),
    authorization_server=ISSUER,
    issuer=ISSUER,
    pkce=True,
)
LOGIN = LoginStatus(
    server="shop",
    signed_in=True,
    user=None,
    grant="authorization_code",
    issuer=ISSUER,
    scopes=("read",),
    renewable=True,
)


def changed(facts: SignInProbe = FACTS, **changes: Any) -> SignInProbe:
    return replace(facts, **changes)


def found(
    facts: SignInProbe | None = FACTS,
    login: LoginStatus | None = LOGIN,
    *,
    auth: Any = None,
    error: Any = None,
    url: str = URL,
    **seen: Any,
) -> list[Finding]:
    settings = OAuth() if auth is None else auth
    status = ServerStatus(
        name="shop",
        transport="http",
        state="ready" if error is None else "failed",
        since=datetime(2026, 11, 15, tzinfo=UTC),
        error=error,
    )
    examined = Examined(
        config=HttpServer(url=url, auth=settings or None),
        status=status,
        auth=AuthSeen(at=1_000_000.0, login=login, facts=facts, **seen),
    )
    return list(check_auth(examined))


def codes(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.level, finding.code) for finding in findings]


GOOD = ("ok", "signed_in")


def test_where_all_is_well_one_line_says_so() -> None:
    assert codes(found()) == [GOOD]


@pytest.mark.parametrize(
    ("facts", "code", "fix"),
    [
        (changed(scopes=("read", "list")), "scopes_missing", "plait auth login shop --scope list"),
        (changed(resource="https://other.example/mcp"), "resource_mismatch", "use that as"),
        (changed(issuer="https://else.example"), "issuer_mismatch", "correct its configuration"),
        (changed(pkce=False), "no_pkce", "MCP requires it"),
        (
            changed(
                authorization_servers=("https://new.example",),
                authorization_server=None,
                issuer=None,
            ),
            "login_of_another",
            "plait auth login shop",
        ),
        (
            changed(failure="no answer", issuer=None),
            "authorization_server",
            "check the authorization server",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_servers_say_is_held_against_the_login(
    facts: SignInProbe, code: str, fix: str
) -> None:
    good, bad = found(facts)

    assert codes([good]) == [GOOD]
    assert bad.code == code
    assert fix in (bad.fix or "")


def test_an_authorization_server_that_is_down_is_worse_without_a_login() -> None:
    nobody = LoginStatus(server="shop", signed_in=False, user=None, grant="authorization_code")
    facts = changed(failure="no answer", issuer=None)

    assert ("error", "authorization_server") in codes(found(facts, nobody))
    assert ("warn", "authorization_server") in codes(found(facts))


def test_an_issuer_that_the_server_does_not_name_is_an_error() -> None:
    mine = OAuth(issuer="https://mine.example")

    assert ("error", "issuer_mismatch") in codes(found(auth=mine))
    assert codes(found(auth=OAuth(issuer=ISSUER + "/"))) == [GOOD]


def test_a_server_that_asks_for_no_login_needs_no_setting() -> None:
    assert codes(found(SignInProbe(asks=False), None)) == [("ok", "no_login_needed")]


def test_a_server_without_the_setting_that_offers_logins_is_named() -> None:
    (finding,) = found(login=None, auth=False)

    assert finding.code == "oauth_offered"
    assert finding.fix == 'set "auth": "oauth", then: plait auth login shop'


def test_what_the_server_has_said_is_not_said_again() -> None:
    nobody = LoginStatus(server="shop", signed_in=False, user=None, grant="authorization_code")
    refused = AuthRequiredError("shop: not signed in", server="shop")

    assert codes(found(login=nobody)) == [("error", "not_signed_in")]
    assert codes(found(login=nobody, error=refused)) == []


def test_logins_that_cannot_be_read_or_that_all_can_read_are_named() -> None:
    (unreadable,) = found(None, None, store_failure="the login in /x cannot be read")
    (readable,) = found(None, None, open_file="/home/ann/my logins/x.json")

    assert (unreadable.level, unreadable.code) == ("error", "login_unreadable")
    assert readable.code == "login_file_open"
    assert readable.fix == "chmod 600 '/home/ann/my logins/x.json'"


@pytest.mark.parametrize(
    ("url", "in_the_open"),
    [
        ("http://shop.example/mcp", True),
        ("https://shop.example/mcp", False),
        ("http://127.0.0.1:8000/mcp", False),
        ("http://localhost/mcp", False),
        ("http://[::1]:8000/mcp", False),
    ],
)
def test_credentials_in_the_open_are_named(url: str, in_the_open: bool) -> None:
    assert (codes(found(None, None, url=url)) == [("warn", "plain_http")]) is in_the_open


def test_a_server_on_this_machine_has_no_such_findings() -> None:
    status = ServerStatus(
        name="here", transport="stdio", state="ready", since=datetime(2026, 11, 15, tzinfo=UTC)
    )

    assert list(check_auth(Examined(config=StdioServer(command="sh"), status=status))) == []


KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END KEY-----\n"


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ('{"headers": {"Authorization": "Bearer s3cret-value"}}', ("headers.Authorization",)),
        ('{"headers": {"Authorization": "Bearer ${TOKEN}"}}', ()),
        ('{"auth": {"client_secret": "pa55word"}}', ("auth.client_secret",)),
        ('{"auth": {"private_key": "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"}}', ("auth.private_key",)),
        ('{"auth": {"private_key": "${KEY}"}}', ()),
    ],
)
def test_secrets_that_stand_in_the_configuration_are_named_and_not_shown(
    written: str, named: tuple[str, ...]
) -> None:
    by_secret = OAuth(grant="client_credentials", client_id="a", client_secret="pa55word")
    by_key = OAuth(grant="client_credentials", client_id="a", private_key=KEY)
    settings = by_key if "private_key" in written else by_secret
    server = HttpServer(
        url=URL,
        headers={"Authorization": "Bearer s3cret-value", "Accept": "application/json"},
        auth=settings,
    )

    assert plain_secrets(server, written) == named
    for finding in found(None, None, plain_secrets=named):
        assert finding.fix == "replace it with ${SHOP_TOKEN}, and set that variable"
        assert "s3cret" not in finding.message
