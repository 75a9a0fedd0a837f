"""What the authorization server answers is checked before it is believed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from plait import AuthRequiredError, ConnectError, OAuth, Toolbox
from plait.cli.logins import sign_in
from plait.client.transports.auth.authorization_servers import EndpointGuard, exchange
from plait.client.transports.auth.oauth_tokens import key_for
from plait.client.transports.auth.sign_in import prompt_in_terminal
from plait.testing import OAuthServer, free_port, oauth_server
from tests.integration.auth.helpers import Browser, Keeper, Shop, paste_from, whole_text
from tests.integration.auth.test_attacks import CANARY, Internal

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


def login_of_the_sdk(server: OAuthServer, settings: OAuth) -> dict[str, Any]:
    """Return a login as plait saved it while the flow was that of the MCP SDK."""
    key = key_for(settings, server.url)
    return {
        "format": 1,
        "key": {
            "resource": key.resource,
            "grant": "authorization_code",
            "issuer": "",
            "client": "",
            "user": "",
        },
        "access_token": "ended",
        "refresh_token": "to-be-replaced",
        "scope": "read",
        "expires_at": time.time() - 60,
        "lifetime_seconds": 3600.0,
        "client": {
            "response_types": ["code"],
            "scope": "read",
            "client_name": "plait",
            "redirect_uris": ["http://127.0.0.1:8765/callback"],
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
            "application_type": "native",
            "client_id": "client-1",
            "issuer": server.issuer,
        },
        "authorization_server": {
            "issuer": server.issuer,
            "authorization_endpoint": f"{server.issuer}/authorize",
            "token_endpoint": f"{server.issuer}/token",
            "registration_endpoint": f"{server.issuer}/register",
            "response_types_supported": ["code"],
            "revocation_endpoint": f"{server.issuer}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": True,
            "authorization_response_iss_parameter_supported": True,
        },
        "protected_resource": {
            "resource": server.url,
            "authorization_servers": [server.issuer],
            "scopes_supported": ["read"],
            "bearer_methods_supported": ["header"],
        },
    }


async def test_a_login_from_before_is_renewed_and_used(shop: Shop) -> None:
    await shop.sign_in()
    refresh_token = shop.saved()["refresh_token"]
    old = login_of_the_sdk(shop.server, shop.auth())
    (file,) = shop.files
    file.write_text(json.dumps(old | {"refresh_token": refresh_token}, indent=1))
    shop.server.counts.clear()

    assert await shop.whoami() == "client-1 with read"

    assert shop.count("refresh_token", "metadata", "authorize") == (1, 0, 0)
    assert shop.saved()["client"]["client_id"] == "client-1"


@pytest.mark.parametrize("answer", [(200, "<html>"), (302, ""), (429, "{}"), (503, "{}")], ids=str)
async def test_an_answer_that_says_nothing_of_the_login_leaves_it(
    shop: Shop, answer: tuple[int, str]
) -> None:
    with Internal(*answer) as internal:
        await shop.sign_in()
        login = shop.change(metadata={"token_endpoint": internal.url})
        shop.server.end_access()
        async with shop.box() as box:
            with pytest.raises(ConnectError, match="cannot be used now"):
                await box.tools()

    assert shop.saved()["refresh_token"] == login["refresh_token"]


REGISTRATIONS = {
    "another method": {"client_id": "x", "token_endpoint_auth_method": "tls_client_auth"},
    "no secret": {"client_id": "x", "token_endpoint_auth_method": "client_secret_basic"},
}


@pytest.mark.parametrize("kind", REGISTRATIONS)
async def test_a_registration_that_cannot_be_used_is_not_kept(shop: Shop, kind: str) -> None:
    browser = Browser()
    with Internal(201, json.dumps(REGISTRATIONS[kind])) as internal:
        shop.server.describe(registration_endpoint=internal.url)
        await shop.refused("that plait cannot authenticate", on_redirect=browser)

    assert (browser.addresses, shop.files) == ([], [])


@pytest.mark.parametrize(
    ("answer", "scope"),
    [
        ({"access_token": "t", "token_type": "bearer"}, "read"),
        ({"access_token": "t", "scope": "some", "refresh_token": None}, "some"),
        ({"access_token": "t", "token_type": "mac"}, None),
        ({"access_token": "", "token_type": "Bearer"}, None),
        ({"access_token": "t", "expires_in": "soon"}, None),
    ],
)
async def test_tokens_are_kept_with_what_they_grant_or_not_at_all(
    shop: Shop, answer: dict[str, Any], scope: str | None
) -> None:
    with Internal(200, json.dumps(answer)) as internal:
        shop.server.describe(token_endpoint=internal.url)
        error = await shop.refused(on_redirect=Browser())

    login = shop.saved()
    assert (login["access_token"], login["scope"]) == ("t" if scope else None, scope)
    assert ("an answer that cannot be used" in whole_text(error)) == (scope is None)


async def test_a_client_registers_again_for_another_address(shop: Shop) -> None:
    first, second = free_port(), free_port()
    await shop.sign_in(redirect_port=first)
    shop.server.revoke()
    await shop.sign_in(redirect_port=second)

    assert shop.count("register") == (2,)
    assert shop.saved()["client"]["redirect_uris"] == [f"http://127.0.0.1:{second}/callback"]


async def test_where_nobody_can_register_the_way_out_is_named(shop: Shop) -> None:
    shop.server.describe(registration_endpoint=None)

    await shop.refused("register one by hand, and set client_id", on_redirect=Browser())


async def test_an_endpoint_may_have_a_query_of_its_own(shop: Shop) -> None:
    endpoint = f"{shop.server.issuer}/authorize?tenant=1"
    shop.server.describe(authorization_endpoint=endpoint)

    browser = await shop.sign_in()

    query = parse_qs(urlsplit(browser.addresses[0]).query)
    assert (query["tenant"], query["response_type"]) == (["1"], ["code"])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            f"?error={CANARY}&error_description={CANARY}&iss=https://evil.example",
            "comes from another",
        ),
        ("?code=abc&iss=https://evil.example", "comes from another"),
        ("?code=abc&state={state}", "does not name the authorization server"),
        ("?code=abc&iss={iss}", "another attempt"),
        ("?state={state}&iss={iss}", "holds no code"),
    ],
)
async def test_an_answer_of_somebody_else_is_neither_used_nor_shown(
    shop: Shop, answer: str, said: str
) -> None:
    shown: list[str] = []

    def paste() -> str:
        state = parse_qs(urlsplit(shown[-1]).query)["state"][0]
        return answer.format(state=state, iss=shop.server.issuer)

    with pytest.raises(AuthRequiredError, match=said) as caught:
        await sign_in("shop", shop.http(), prompt_in_terminal(shown.append, paste))

    assert CANARY not in whole_text(caught.value)
    assert shop.count("authorization_code") == (0,)


FORMS: list[Callable[[dict[str, str]], object]] = [
    lambda values: (values["code"], values["state"]),
    lambda values: SimpleNamespace(**values),
]


@pytest.mark.parametrize("form", FORMS, ids=["a pair", "an object"])
async def test_callbacks_of_other_clients_may_bring_the_answer(
    shop: Shop, form: Callable[[dict[str, str]], object]
) -> None:
    shown: list[str] = []

    def answer() -> object:
        query = parse_qs(urlsplit(paste_from(shown)).query)
        return form({name: values[0] for name, values in query.items()})

    shop.server.describe(authorization_response_iss_parameter_supported=False)

    name = await shop.whoami(on_redirect=shown.append, on_callback=answer)

    assert name == "client-1 with read"


async def test_a_key_that_cannot_sign_is_not_shown(shop: Shop) -> None:
    key = f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----"
    robot = {"grant": "client_credentials", "client_id": "robot", "private_key": key}

    error = await shop.refused("the private key cannot sign with RS256", **robot)

    assert CANARY not in whole_text(error)


class ForgettingKeeper(Keeper):
    """Forgets the tokens that no client can use any more."""

    def invalidate_credentials(self, which: str) -> None:
        self.kept.pop(which, None)


async def test_the_client_of_another_authorization_server_is_not_used() -> None:
    keeper = ForgettingKeeper()
    keeper.kept["tokens"] = {"access_token": "ended", "refresh_token": CANARY}
    keeper.kept["client"] = {"client_id": "client-1", "issuer": "https://before.example"}
    with oauth_server() as server:
        async with Toolbox({"shop": {"url": server.url, "auth": keeper}}) as box:
            with pytest.raises(AuthRequiredError):
                await box.tools()

        assert server.counts["refresh_token"] == 0
        assert server.counts["register"] == 1
        assert keeper.kept["client"]["issuer"] == server.issuer


@pytest.mark.parametrize(
    ("status", "method", "place", "followed"),
    [
        (307, "POST", "/new", True),
        (308, "POST", "https://login.example:443/new", True),
        (302, "GET", "/new", True),
        (302, "POST", "/new", False),
        (307, "POST", "https://other.example/new", False),
        (307, "POST", "http://login.example/new", False),
        (307, "POST", "https://me:you@login.example/new", False),
        (307, "GET", "/old", False),
    ],
)
async def test_only_redirects_within_an_origin_are_followed(
    status: int, method: str, place: str, followed: bool
) -> None:
    bodies: list[bytes] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        bodies.append(request.content)
        if request.url.path == "/new":
            return httpx2.Response(200)
        return httpx2.Response(status, headers={"Location": place})

    guard = EndpointGuard("https://login.example/mcp")
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        data = {"code": "c"} if method == "POST" else None
        request = httpx2.Request(method, "https://login.example/old", data=data)
        response = await exchange(client.send, guard, request)

    assert response.status_code == (200 if followed else status)
    if place == "/old":  # a circle, which ends
        assert 1 < len(bodies) < 10
    else:
        assert bodies == [request.content] * (2 if followed else 1)
