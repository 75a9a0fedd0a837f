"""Logins last: over restarts, over the end of a token, and for everybody who shares them."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from plait import AuthRequiredError, ConnectError, Toolbox
from plait.testing import free_port, oauth_server
from tests.integration.auth.helpers import config, program, signed_in

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]


def file_in(folder: Path) -> Path:
    (file,) = folder.glob("*.json")
    return file


def saved(folder: Path) -> dict[str, Any]:
    return json.loads(file_in(folder).read_text())


async def add_many(box: Toolbox, count: int) -> list[str]:
    calls = (box.call("shop", "add", {"a": 0, "b": number}) for number in range(count))
    return [result.text for result in await asyncio.gather(*calls)]


async def test_without_a_login_connecting_ends_at_once_and_says_how_to_get_one(
    tmp_path: Path,
) -> None:
    with oauth_server(scopes=("read", "list")) as server:
        async with Toolbox(config(server, tmp_path)) as box:
            with pytest.raises(AuthRequiredError) as caught:
                await box.tools()

            assert box.status()["shop"].needs_auth
        assert caught.value.server == "shop"
        assert caught.value.status == 401
        assert "scopes read, list" in str(caught.value)
        assert "plait auth login shop" in str(caught.value)
        assert server.counts["authorize"] == server.counts["register"] == 0


async def test_a_login_outlives_the_process_that_made_it(tmp_path: Path) -> None:
    with oauth_server() as server:
        await signed_in(server, tmp_path)
        with program(server, tmp_path) as other:
            printed, complaints = other.communicate("\n", timeout=60)

        assert (printed, complaints) == ("ready\nclient-1 with read\n", "")
        assert server.counts["authorize"] == 1
        assert server.counts["authorization_code"] == 1


async def test_a_login_is_kept_where_only_its_owner_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "logins"
    with oauth_server() as server:
        await signed_in(server, folder)

        assert folder.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        login = saved(folder)
        assert login["expires_at"] == pytest.approx(time.time() + 3600, abs=120)
        assert login["authorization_server"]["issuer"] == server.issuer


async def test_a_token_that_is_about_to_end_is_refreshed_before_it_is_used(tmp_path: Path) -> None:
    with oauth_server() as server:
        await signed_in(server, tmp_path)
        login = saved(tmp_path)
        file_in(tmp_path).write_text(json.dumps({**login, "expires_at": time.time() + 30}))
        server.counts.clear()

        async with Toolbox(config(server, tmp_path)) as box:
            assert await add_many(box, 20) == [str(number) for number in range(20)]

        assert server.counts["refresh_token"] == 1
        assert server.counts["unauthorized"] == 0
        renewed = saved(tmp_path)
        assert renewed["refresh_token"] not in {None, login["refresh_token"]}
        assert renewed["scope"] == "read"
        assert renewed["expires_at"] > time.time() + 3000


async def test_an_access_token_that_ended_is_refreshed_once_however_many_calls_wait(
    tmp_path: Path,
) -> None:
    with oauth_server() as server:
        await signed_in(server, tmp_path)
        async with Toolbox(config(server, tmp_path)) as box:
            await box.tools()
            before = saved(tmp_path)
            server.counts.clear()
            server.end_access(together=20)

            assert await add_many(box, 20) == [str(number) for number in range(20)]

        assert server.counts["unauthorized"] == 20
        assert server.counts["refresh_token"] == 1
        assert server.counts["authorize"] == 0
        assert saved(tmp_path)["refresh_token"] != before["refresh_token"]


async def test_a_refresh_token_that_is_not_replaced_is_kept(tmp_path: Path) -> None:
    with oauth_server(rotate=False) as server:
        await signed_in(server, tmp_path)
        before = saved(tmp_path)
        server.end_access()

        async with Toolbox(config(server, tmp_path)) as box:
            assert await add_many(box, 1) == ["0"]

        assert saved(tmp_path)["refresh_token"] == before["refresh_token"]
        assert saved(tmp_path)["access_token"] != before["access_token"]


async def test_tokens_that_live_for_a_moment_are_not_refreshed_for_every_call(
    tmp_path: Path,
) -> None:
    with oauth_server(token_seconds=40) as server:
        await signed_in(server, tmp_path)
        async with Toolbox(config(server, tmp_path)) as box:
            await add_many(box, 5)

        assert server.counts["refresh_token"] == 0


async def test_processes_that_share_a_login_refresh_it_once(tmp_path: Path) -> None:
    with oauth_server() as server:
        await signed_in(server, tmp_path)
        with program(server, tmp_path) as first, program(server, tmp_path) as second:
            for other in (first, second):
                assert other.stdout is not None
                assert await asyncio.to_thread(other.stdout.readline) == "ready\n"
            server.end_access()
            server.counts.clear()
            for other in (first, second):
                assert other.stdin is not None
                other.stdin.write("\n")
                other.stdin.flush()
            said = [other.communicate(timeout=60) for other in (first, second)]

        assert said == [("client-1 with read\n", "")] * 2
        assert server.counts["refresh_token"] == 1


async def test_a_login_that_was_revoked_is_reported_within_a_second_or_so(tmp_path: Path) -> None:
    with oauth_server(scopes=("read", "list")) as server:
        await signed_in(server, tmp_path)
        async with Toolbox(config(server, tmp_path)) as box:
            await box.tools()
            server.revoke()
            began = time.monotonic()
            with pytest.raises(AuthRequiredError) as caught:
                await box.call("shop", "add", {"a": 1, "b": 2})
            took = time.monotonic() - began

            assert "revoked" in str(caught.value)
            assert "scopes read, list" in str(caught.value)
            assert "plait auth login shop" in str(caught.value)
            await box.ready()
            assert box.status()["shop"].needs_auth

        assert took < 5  # a second on a machine that has nothing else to do
        assert saved(tmp_path)["access_token"] is None
        assert saved(tmp_path)["client"]["client_id"] == "client-1"


async def test_a_client_that_signs_in_again_elsewhere_is_noticed(tmp_path: Path) -> None:
    with oauth_server() as server:
        await signed_in(server, tmp_path)
        async with Toolbox(config(server, tmp_path)) as box:
            await box.tools()
            server.revoke()
            await signed_in(server, tmp_path)

            assert await add_many(box, 3) == ["0", "1", "2"]

        assert server.counts["register"] == 1


async def test_a_client_that_was_forgotten_registers_again(tmp_path: Path) -> None:
    with oauth_server() as server:
        await signed_in(server, tmp_path)
        server.end_access()
        server.forget_clients()
        async with Toolbox(config(server, tmp_path)) as box:
            with pytest.raises(AuthRequiredError, match="invalid_client"):
                await box.tools()
        await signed_in(server, tmp_path)

        assert server.counts["register"] == 2


async def test_a_server_that_refuses_every_token_is_not_asked_for_ever(tmp_path: Path) -> None:
    with oauth_server() as server:
        await signed_in(server, tmp_path)
        server.counts.clear()
        server.refuse_next(1000)
        async with Toolbox(config(server, tmp_path)) as box:
            with pytest.raises(AuthRequiredError, match="the login is refused"):
                await box.tools()

        assert server.counts["mcp"] < 10
        assert server.counts["refresh_token"] < 4


async def test_users_of_one_machine_have_logins_of_their_own(tmp_path: Path) -> None:
    with oauth_server() as server:
        await signed_in(server, tmp_path, user="ann")
        async with Toolbox(config(server, tmp_path, user="bob")) as box:
            with pytest.raises(AuthRequiredError):
                await box.tools()
        await signed_in(server, tmp_path, user="bob")

        async with Toolbox(config(server, tmp_path, user="ann")) as box:
            assert (await box.call("shop", "whoami")).text == "client-1 with read"


async def test_an_authorization_server_that_is_down_is_no_reason_to_sign_in_again(
    tmp_path: Path,
) -> None:
    with oauth_server() as server:
        await signed_in(server, tmp_path)
        login = saved(tmp_path)
        nobody = f"http://127.0.0.1:{free_port()}/token"
        metadata = {**login["authorization_server"], "token_endpoint": nobody}
        file_in(tmp_path).write_text(json.dumps({**login, "authorization_server": metadata}))
        server.end_access()
        async with Toolbox(config(server, tmp_path)) as box:
            with pytest.raises(ConnectError, match="the authorization server at") as caught:
                await box.tools()

        assert caught.value.retry == "always"
        assert saved(tmp_path)["refresh_token"] == login["refresh_token"]
