"""Signing out ends a login here in any case, and at the authorization server where it can."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from plait import Toolbox
from plait.cli.logins import SignedOut, login_status, sign_out
from plait.testing import free_port
from tests.integration.auth.helpers import Shop, key_pair, offering

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def test_the_authorization_server_ends_the_login(shop: Shop) -> None:
    await shop.sign_in()
    login = shop.saved()

    assert await sign_out("shop", shop.http()) == SignedOut(was_signed_in=True, revoked=True)

    assert shop.files == []
    assert shop.count("revoke") == (2,)
    assert not shop.server.knows(login["access_token"])
    assert not shop.server.knows(login["refresh_token"])
    assert await sign_out("shop", shop.http()) == SignedOut()
    assert shop.count("revoke") == (2,)


@offering(revocable=False)
async def test_a_server_that_cannot_end_logins_is_not_asked_to(shop: Shop) -> None:
    await shop.sign_in()

    assert await sign_out("shop", shop.http()) == SignedOut(was_signed_in=True)


@pytest.mark.parametrize("fault", ["refuses", "is down", "never answers"])
async def test_an_authorization_server_that_fails_keeps_nobody_signed_in(
    shop: Shop, fault: str
) -> None:
    await shop.sign_in()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1] if fault == "never answers" else free_port()
        if fault == "refuses":
            shop.server.forget_clients()
        else:
            shop.change(metadata={"revocation_endpoint": f"http://127.0.0.1:{port}/revoke"})

        outcome = await sign_out("shop", shop.http(), wait_seconds=0.3)

    reasons = {
        "refuses": "the authorization server refused: invalid_client",
        "is down": f"the authorization server at 127.0.0.1:{port} cannot be used now: ",
        "never answers": f"127.0.0.1:{port} did not answer in 0.3 s",
    }
    assert (outcome.was_signed_in, outcome.revoked) == (True, False)
    assert (outcome.failure or "").startswith(reasons[fault])
    assert shop.files == []
    status = await login_status("shop", shop.http())
    assert status is not None
    assert not status.signed_in


@pytest.mark.parametrize("by", ["secret", "key"])
async def test_a_program_gives_its_token_back_with_its_own_credentials(by: str, shop: Shop) -> None:
    private, public = key_pair()
    known: Any = {"secret": "pa55:word"} if by == "secret" else {"public_key": public}
    own = {"client_secret": "pa55:word"} if by == "secret" else {"private_key": private}
    shop.server.add_client("robot", **known)
    server = shop.http(grant="client_credentials", client_id="robot", **own)
    async with Toolbox({"shop": server}) as box:
        await box.tools()
    token = shop.saved()["access_token"]

    assert (await sign_out("shop", server)).revoked
    assert not shop.server.knows(token)
