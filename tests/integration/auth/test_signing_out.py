"""Signing out ends a login here in any case, and at the authorization server where it can."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from plait import OAuth, Toolbox
from plait.client import FileTokenStore, HttpServer
from plait.client.transports.auth.login import SignedOut, login_status, sign_out
from plait.testing import OAuthServer, free_port, oauth_server
from tests.integration.auth.helpers import signed_in

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


def shop_of(server: OAuthServer, folder: Path) -> HttpServer:
    return HttpServer(url=server.url, auth=OAuth(store=FileTokenStore(folder)))


def logins_in(folder: Path) -> list[Path]:
    return list(folder.glob("*.json"))


def saved(folder: Path) -> Path:
    (file,) = logins_in(folder)
    return file


def change_metadata(folder: Path, **changes: str) -> None:
    login = json.loads(saved(folder).read_text())
    login["authorization_server"] |= changes
    saved(folder).write_text(json.dumps(login))


async def test_the_authorization_server_ends_the_login(tmp_path: Path) -> None:
    with oauth_server() as server:
        await signed_in(server, tmp_path)
        shop = shop_of(server, tmp_path)
        copied = saved(tmp_path).read_text()

        assert await sign_out("shop", shop) == SignedOut(was_signed_in=True, revoked=True)

        assert logins_in(tmp_path) == []
        assert server.counts["revoke"] == 2
        login = json.loads(copied)
        assert not server.knows(login["access_token"])
        assert not server.knows(login["refresh_token"])
        assert await sign_out("shop", shop) == SignedOut()
        assert server.counts["revoke"] == 2


async def test_a_server_that_cannot_end_logins_is_not_asked_to(tmp_path: Path) -> None:
    with oauth_server(revocable=False) as server:
        await signed_in(server, tmp_path)

        assert await sign_out("shop", shop_of(server, tmp_path)) == SignedOut(was_signed_in=True)


async def test_a_refusal_keeps_no_login_and_shows_no_token(tmp_path: Path) -> None:
    with oauth_server() as server:
        await signed_in(server, tmp_path)
        server.forget_clients()
        shop = shop_of(server, tmp_path)

        done = await sign_out("shop", shop)

        assert done.was_signed_in
        assert not done.revoked
        assert done.failure == "the authorization server refused: invalid_client"
        status = await login_status("shop", shop)
        assert status is not None
        assert not status.signed_in


async def test_an_authorization_server_that_is_down_keeps_nobody_signed_in(tmp_path: Path) -> None:
    with oauth_server() as server:
        await signed_in(server, tmp_path)
        nobody = f"http://127.0.0.1:{free_port()}/revoke"
        change_metadata(tmp_path, revocation_endpoint=nobody)

        done = await sign_out("shop", shop_of(server, tmp_path))

        assert done.was_signed_in
        assert "cannot be used now" in (done.failure or "")
        assert logins_in(tmp_path) == []


async def test_an_authorization_server_that_never_answers_holds_nobody_up(tmp_path: Path) -> None:
    with oauth_server() as server, socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        await signed_in(server, tmp_path)
        change_metadata(tmp_path, revocation_endpoint=f"http://127.0.0.1:{port}/revoke")
        done = await sign_out("shop", shop_of(server, tmp_path), wait_seconds=0.3)

    assert done.failure == f"127.0.0.1:{port} did not answer in 0.3 s"
    assert logins_in(tmp_path) == []


@pytest.mark.parametrize("by", ["secret", "key"])
async def test_a_program_gives_its_token_back_with_its_own_credentials(
    by: str, tmp_path: Path
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    with oauth_server() as server:
        known: Any = {"secret": "pa55:word"} if by == "secret" else {"public_key": public.decode()}
        server.add_client("robot", **known)
        settings = OAuth(
            grant="client_credentials",
            client_id="robot",
            client_secret="pa55:word" if by == "secret" else None,
            private_key=private if by == "key" else None,
            store=FileTokenStore(tmp_path),
        )
        shop = HttpServer(url=server.url, auth=settings)
        async with Toolbox({"shop": shop}) as box:
            await box.tools()
        token = json.loads(saved(tmp_path).read_text())["access_token"]

        assert (await sign_out("shop", shop)).revoked
        assert not server.knows(token)
