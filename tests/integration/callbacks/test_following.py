"""Resources are followed in a loop: through restarts, from any loop, until nobody wants them."""

from __future__ import annotations

import asyncio
import threading

import pytest

from plait import (
    MultiServerMCPClient,
    PlaitError,
    ResourceNotFoundError,
    Toolbox,
    UnknownServerError,
)
from plait.client import ResourceUpdate
from plait.testing import eventually
from tests.integration.callbacks.conftest import Servers
from tests.integration.callbacks.server_events import KINDS, notifying_server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

URI = "test://static"
ERAS = ("legacy", "modern")
UPDATE = ResourceUpdate("server", URI)


async def touch(box: Toolbox, uri: str = URI) -> None:
    assert not (await box.call("server", "touch", {"uri": uri})).is_error


async def followers(box: Toolbox, uri: str) -> int:
    """Ask the server how often it was asked to tell of a resource."""
    return (await box.call("server", "followed")).text.split().count(uri)


async def until_unfollowed(box: Toolbox, uri: str) -> None:
    async def is_unfollowed() -> bool:
        return await followers(box, uri) == 0

    await eventually(is_unfollowed)


@pytest.mark.parametrize("kind", KINDS)
async def test_updates_come_one_by_one_and_go_on_after_the_server_was_killed(kind: str) -> None:
    with notifying_server(kind) as server:
        async with (
            Toolbox({"server": server.config}) as box,
            asyncio.timeout(30),
            box.watch_resource("server", URI) as updates,
        ):
            loop = aiter(updates)
            await touch(box)
            assert await anext(loop) == UPDATE
            await touch(box)
            assert await anext(loop) == UPDATE

            await asyncio.to_thread(server.kill, box)
            assert await anext(loop) == UPDATE  # it may have changed unseen
            await touch(box)
            assert await anext(loop) == UPDATE


@pytest.mark.parametrize("era", ERAS)
async def test_with_read_the_contents_come_with_each_update_and_now(
    era: str, servers: Servers
) -> None:
    async with MultiServerMCPClient(servers(era)) as client, asyncio.timeout(20):
        texts: list[str] = []
        async for update in client.watch_resource("server", "test://item/1", read=True):
            texts.append(update.text)
            if len(texts) == 2:
                break
            await touch(client.toolbox, "test://item/1")

    assert texts == ["item 1", "item 1"]


async def test_a_resource_that_cannot_be_read_is_an_update_with_an_error(servers: Servers) -> None:
    async with (
        Toolbox(servers()) as box,
        asyncio.timeout(20),
        box.watch_resource("server", "test://item/missing", read=True) as updates,
    ):
        loop = aiter(updates)
        assert isinstance((await anext(loop)).error, ResourceNotFoundError)
        await touch(box, "test://item/missing")
        update = await anext(loop)

    assert isinstance(update.error, ResourceNotFoundError)
    assert update.contents == ()
    assert update.text == ""


@pytest.mark.parametrize("era", ERAS)
async def test_several_changes_that_nobody_took_are_one(era: str, servers: Servers) -> None:
    arrived: list[object] = []
    async with (
        Toolbox(servers(era), on_resources_updated=lambda *update: arrived.append(update)) as box,
        asyncio.timeout(20),
        box.watch_resource("server", URI, "test://item/1") as updates,
    ):
        for _ in range(5):
            await touch(box)
        await touch(box, "test://item/1")
        # They arrive on another stream than the answers to the calls.
        await eventually(lambda: len(arrived) == 6)
        loop = aiter(updates)
        assert [(await anext(loop)).uri for _ in range(2)] == [URI, "test://item/1"]

        await touch(box, "test://item/1")
        assert (await anext(loop)).uri == "test://item/1"


async def test_one_subscription_serves_all_who_follow_and_ends_with_the_last(
    servers: Servers,
) -> None:
    uri = "test://item/shared"  # of no other test: the server lives on
    async with Toolbox(servers()) as box:
        told: list[str] = []
        async with box.watch_resource("server", uri) as first:
            async with box.watch_resource("server", uri) as second, asyncio.timeout(20):
                subscription = await box.subscribe("server", uri, told.append)
                assert await followers(box, uri) == 1
                await touch(box, uri)
                assert (
                    await anext(aiter(first))
                    == await anext(aiter(second))
                    == ResourceUpdate("server", uri)
                )
                await eventually(lambda: told == [uri])
            subscription.cancel()
            assert await followers(box, uri) == 1

        await until_unfollowed(box, uri)
        async with box.watch_resource("server", uri):
            assert await followers(box, uri) == 1


async def test_whoever_follows_again_at_once_stays_subscribed(servers: Servers) -> None:
    uri = "test://item/again"  # of no other test: the server lives on
    async with Toolbox(servers()) as box, asyncio.timeout(20):
        for _ in range(3):
            async with box.watch_resource("server", uri) as updates:
                await touch(box, uri)
                assert await anext(aiter(updates)) == ResourceUpdate("server", uri)
        async with box.watch_resource("server", uri):
            assert await followers(box, uri) == 1


async def test_a_loop_that_is_left_ends_its_subscription(servers: Servers) -> None:
    uri = "test://item/left"  # of no other test: the server lives on
    async with Toolbox(servers()) as box:
        async for _ in box.watch_resource("server", uri, read=True):
            break

        await until_unfollowed(box, uri)


@pytest.mark.parametrize("era", ERAS)
async def test_a_closed_client_ends_the_loop(era: str, servers: Servers) -> None:
    client = MultiServerMCPClient(servers(era))
    handle = await client.get_client("server")
    following = asyncio.Event()

    async def follow() -> list[ResourceUpdate]:
        async with handle.watch_resource(URI) as updates:
            following.set()
            return [update async for update in updates]

    task = asyncio.create_task(follow())
    async with asyncio.timeout(20):
        await following.wait()
        await client.aclose()
        assert await task == []


async def test_a_server_that_is_removed_ends_the_loop_and_one_that_is_replaced_does_not(
    servers: Servers,
) -> None:
    async with (
        Toolbox(servers()) as box,
        asyncio.timeout(20),
        box.watch_resource("server", URI) as updates,
    ):
        await box.add_server("server", servers("modern")["server"])
        assert await anext(aiter(updates)) == UPDATE

        await box.remove_server("server")
        assert [update async for update in updates] == []


def test_another_loop_in_another_thread_may_follow(servers: Servers) -> None:
    box = Toolbox(servers("modern"))
    seen: list[str] = []
    ready, over = threading.Event(), threading.Event()

    async def follow() -> None:
        async with box.watch_resource("server", URI) as updates:
            ready.set()
            async for update in updates:
                seen.append(update.uri)
                over.set()

    thread = threading.Thread(target=lambda: asyncio.run(follow()))
    thread.start()
    assert ready.wait(20)
    box.call_blocking("server", "touch", {"uri": URI})
    assert over.wait(20)
    box.close()
    thread.join(20)

    assert not thread.is_alive()
    assert seen == [URI]


@pytest.mark.parametrize("era", ERAS)
async def test_whoever_gives_up_waiting_for_a_server_leaves_nothing_behind(
    era: str, servers: Servers
) -> None:
    async with Toolbox(servers(era)) as box:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0), box.watch_resource("server", URI):
                pass

        async with asyncio.timeout(20), box.watch_resource("server", URI) as updates:
            await touch(box)
            assert await anext(aiter(updates)) == UPDATE


async def test_a_server_that_cannot_be_followed_says_so_at_once() -> None:
    async with Toolbox({"server": {"command": "no-such-program-anywhere"}}) as box:
        with pytest.raises(PlaitError):
            async with box.watch_resource("server", URI):
                pass
        with pytest.raises(UnknownServerError):
            async with box.watch_resource("other", URI):
                pass


async def test_a_server_that_is_followed_does_not_idle_away(servers: Servers) -> None:
    config = servers("modern", idle_timeout=0.2)
    async with Toolbox(config | {"other": config["server"]}) as box:
        async with box.watch_resource("server", URI):
            await box.ping("other")
            await eventually(lambda: box.status()["other"].state == "idle")
            assert box.status()["server"].state == "ready"
        await eventually(lambda: box.status()["server"].state == "idle")


async def test_a_subscription_can_be_cancelled_from_another_thread(servers: Servers) -> None:
    uri = "test://item/cancelled"  # of no other test: the server lives on
    box = Toolbox(servers())
    try:
        subscription = await box.subscribe("server", uri, lambda _: None)
        assert await followers(box, uri) == 1
        await asyncio.to_thread(subscription.cancel)

        await until_unfollowed(box, uri)
    finally:
        await box.aclose()
