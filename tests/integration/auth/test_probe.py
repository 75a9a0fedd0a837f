"""Looking at how a server is signed in to asks nobody, and never hangs."""

from __future__ import annotations

import socket

import pytest

from plait import OAuth
from plait.cli.logins import SignInProbe, probe_sign_in
from plait.client import HttpServer
from plait.testing import free_port, oauth_server
from tests.nursery import fault_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def test_a_server_and_its_authorization_server_say_what_they_want() -> None:
    with oauth_server(scopes=("read", "list")) as server:
        facts = await probe_sign_in("shop", HttpServer(url=server.url, auth=OAuth()))

        assert facts == SignInProbe(
            asks=True,
            scopes=("read", "list"),
            resource=server.url,
            authorization_servers=(server.issuer,),
            authorization_server=server.issuer,
            issuer=server.issuer,
            pkce=True,
        )
        assert server.counts["register"] == server.counts["authorize"] == 0


async def test_a_server_for_everybody_asks_for_nothing() -> None:
    with fault_server() as server:
        facts = await probe_sign_in("shop", HttpServer(url=server.url))

    assert facts == SignInProbe(asks=False)


async def test_an_authorization_server_that_is_down_is_a_fact() -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with oauth_server() as server:
        server.advertise(nobody)
        facts = await probe_sign_in("shop", HttpServer(url=server.url))

    assert facts.asks
    assert facts.authorization_servers == (nobody,)
    assert facts.issuer is None
    assert "cannot be used now" in (facts.failure or "")


async def test_of_several_authorization_servers_one_that_answers_is_looked_at() -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with oauth_server() as server:
        server.advertise(nobody, server.issuer)
        facts = await probe_sign_in("shop", HttpServer(url=server.url))

        assert (facts.authorization_server, facts.failure) == (server.issuer, None)


async def test_a_server_that_never_answers_holds_nobody_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = HttpServer(url=f"http://127.0.0.1:{silent.getsockname()[1]}/mcp")
        facts = await probe_sign_in("shop", server, wait_seconds=0.3)

    assert facts == SignInProbe(failure="no answer within 0.3 s")
