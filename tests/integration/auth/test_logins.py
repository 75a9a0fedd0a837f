"""Logins last: over restarts, over the end of a token, and for everybody who shares them."""

from __future__ import annotations

import asyncio
import time

import pytest

from plait import AuthRequiredError, ConnectError, Toolbox
from plait.testing import free_port
from tests.integration.auth.helpers import Shop, offering, program

pytestmark = [pytest.mark.timeout(90)]


async def add_many(box: Toolbox, count: int) -> list[int]:
    calls = (box.call("shop", "add", {"a": 0, "b": number}) for number in range(count))
    return [int(result.text) for result in await asyncio.gather(*calls)]


@pytest.mark.anyio
@offering(scopes=("read", "list"))
async def test_without_a_login_connecting_ends_at_once_and_says_how_to_get_one(
    shop: Shop,
) -> None:
    error = await shop.refused("scopes read, list.*plait auth login shop")

    assert (error.server, error.status) == ("shop", 401)
    assert shop.count("authorize", "register") == (0, 0)


@pytest.mark.anyio
async def test_a_login_outlives_the_process_that_made_it(shop: Shop) -> None:
    await shop.sign_in()
    with program(shop.server, shop.folder) as other:
        printed, complaints = other.communicate("\n", timeout=60)

    assert (printed, complaints) == ("ready\nclient-1 with read\n", "")
    assert shop.count("authorize", "authorization_code") == (1, 1)


@pytest.mark.anyio
async def test_a_login_is_kept_where_only_its_owner_can_read_it(shop: Shop) -> None:
    await shop.sign_in()

    assert shop.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in shop.folder.iterdir()} == {0o600}
    login = shop.saved()
    assert login["expires_at"] == pytest.approx(time.time() + 3600, abs=120)
    assert login["authorization_server"]["issuer"] == shop.server.issuer


@pytest.mark.anyio
async def test_a_token_that_is_about_to_end_is_refreshed_before_it_is_used(shop: Shop) -> None:
    await shop.sign_in()
    login = shop.change(expires_at=time.time() + 30)
    shop.server.counts.clear()

    async with shop.box() as box:
        assert await add_many(box, 20) == list(range(20))

    assert shop.count("refresh_token", "unauthorized") == (1, 0)
    renewed = shop.saved()
    assert renewed["refresh_token"] not in {None, login["refresh_token"]}
    assert renewed["scope"] == "read"
    assert renewed["expires_at"] > time.time() + 3000


@pytest.mark.anyio
async def test_an_access_token_that_ended_is_refreshed_once_however_many_calls_wait(
    shop: Shop,
) -> None:
    await shop.sign_in()
    async with shop.box() as box:
        await box.tools()
        before = shop.saved()
        shop.server.counts.clear()
        shop.server.end_access(together=20)

        assert await add_many(box, 20) == list(range(20))

    assert shop.count("unauthorized", "refresh_token", "authorize") == (20, 1, 0)
    assert shop.saved()["refresh_token"] != before["refresh_token"]


@pytest.mark.anyio
@offering(rotate=False)
async def test_a_refresh_token_that_is_not_replaced_is_kept(shop: Shop) -> None:
    await shop.sign_in()
    before = shop.saved()
    shop.server.end_access()

    assert await shop.whoami() == "client-1 with read"

    assert shop.saved()["refresh_token"] == before["refresh_token"]
    assert shop.saved()["access_token"] != before["access_token"]


@pytest.mark.anyio
@offering(token_seconds=40)
async def test_tokens_that_live_for_a_moment_are_not_refreshed_for_every_call(shop: Shop) -> None:
    await shop.sign_in()
    async with shop.box() as box:
        await add_many(box, 5)

    assert shop.count("refresh_token") == (0,)


@pytest.mark.anyio
async def test_processes_that_share_a_login_refresh_it_once(shop: Shop) -> None:
    await shop.sign_in()
    with program(shop.server, shop.folder) as first, program(shop.server, shop.folder) as second:
        for other in (first, second):
            assert other.stdout is not None
            assert await asyncio.to_thread(other.stdout.readline) == "ready\n"
        shop.server.end_access()
        shop.server.counts.clear()
        for other in (first, second):
            assert other.stdin is not None
            other.stdin.write("\n")
            other.stdin.flush()
        printed = [other.communicate(timeout=60) for other in (first, second)]

    assert printed == [("client-1 with read\n", "")] * 2
    assert shop.count("refresh_token") == (1,)


def test_threads_without_a_loop_share_a_login(shop: Shop) -> None:
    asyncio.run(shop.sign_in())
    boxes = [shop.box() for _ in range(3)]
    try:
        for box in boxes:
            box.tools_blocking()
        shop.server.end_access()
        shop.server.counts.clear()
        texts = {box.call_blocking("shop", "whoami").text for box in boxes}
    finally:
        for box in boxes:
            box.close()

    assert texts == {"client-1 with read"}
    assert shop.count("refresh_token") == (1,)


@pytest.mark.anyio
@offering(scopes=("read", "list"))
async def test_a_login_that_was_revoked_is_reported_within_a_second_or_so(shop: Shop) -> None:
    await shop.sign_in()
    async with shop.box() as box:
        await box.tools()
        shop.server.revoke()
        began = time.monotonic()
        with pytest.raises(
            AuthRequiredError, match=r"revoked.*scopes read, list.*plait auth login shop"
        ):
            await box.call("shop", "add", {"a": 1, "b": 2})
        took = time.monotonic() - began

        await box.ready()
        assert box.status()["shop"].needs_auth

    assert took < 5  # a second on a machine that has nothing else to do
    assert shop.saved()["access_token"] is None
    assert shop.saved()["client"]["client_id"] == "client-1"


@pytest.mark.anyio
async def test_a_client_that_signs_in_again_elsewhere_is_noticed(shop: Shop) -> None:
    await shop.sign_in()
    async with shop.box() as box:
        await box.tools()
        shop.server.revoke()
        await shop.sign_in()

        assert await add_many(box, 3) == [0, 1, 2]

    assert shop.count("register") == (1,)


@pytest.mark.anyio
async def test_a_client_that_was_forgotten_registers_again(shop: Shop) -> None:
    await shop.sign_in()
    shop.server.end_access()
    shop.server.forget_clients()
    await shop.refused("invalid_client")
    await shop.sign_in()

    assert shop.count("register") == (2,)


@pytest.mark.anyio
async def test_a_server_that_refuses_every_token_is_not_asked_for_ever(shop: Shop) -> None:
    await shop.sign_in()
    shop.server.counts.clear()
    shop.server.refuse_next(1000)
    await shop.refused("the login is refused")

    assert shop.server.counts["mcp"] < 10
    assert shop.server.counts["refresh_token"] < 4


@pytest.mark.anyio
async def test_users_of_one_machine_have_logins_of_their_own(shop: Shop) -> None:
    await shop.sign_in(user="ann")
    await shop.refused(user="bob")
    await shop.sign_in(user="bob")

    assert await shop.whoami(user="ann") == "client-1 with read"


@pytest.mark.anyio
async def test_an_authorization_server_that_is_down_is_no_reason_to_sign_in_again(
    shop: Shop,
) -> None:
    await shop.sign_in()
    login = shop.change(metadata={"token_endpoint": f"http://127.0.0.1:{free_port()}/token"})
    shop.server.end_access()
    async with shop.box() as box:
        with pytest.raises(ConnectError, match="the authorization server at") as caught:
            await box.tools()

    assert caught.value.retry == "always"
    assert shop.saved()["refresh_token"] == login["refresh_token"]
