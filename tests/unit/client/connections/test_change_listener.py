"""Changes that servers announce: what waits is bounded, and whoever gives up is let go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp_types import BlobResourceContents, ReadResourceResult, TextResourceContents

from plait import ClientClosedError, PlaitError
from plait.client import ResourceUpdate, ResourceWatch
from plait.client.connections.change_listener import Subscription, announced_lists
from plait.testing import eventually

pytestmark = pytest.mark.anyio


class Server:
    """Agrees to every subscription but those of `refused`."""

    def __init__(self) -> None:
        self.followed: list[Subscription] = []

    async def follow(self, subscription: Subscription) -> None:
        if subscription.uri == "refused":
            raise PlaitError("no such thing")
        self.followed.append(subscription)

    def tell(self, uri: str) -> None:
        for subscription in self.followed:
            subscription.on_update(uri)

    def end(self) -> None:
        for subscription in self.followed:
            assert subscription.on_end is not None
            subscription.on_end()


async def test_changes_that_wait_are_one_for_each_resource_and_in_order() -> None:
    server = Server()
    async with ResourceWatch("s", ("a",), server.follow) as updates:
        for uri in ("a/1", "a/2", "a/1", "a/1"):
            server.tell(uri)
        server.end()

        assert [update async for update in updates] == [
            ResourceUpdate("s", "a/1"),
            ResourceUpdate("s", "a/2"),
        ]


async def test_too_many_changes_are_told_as_one_of_what_is_followed() -> None:
    server = Server()
    async with ResourceWatch("s", ("a",), server.follow) as updates:
        for number in range(1001):
            server.tell(f"a/{number}")
        server.tell("a/last")
        server.end()

        assert [update.uri async for update in updates] == ["a", "a/last"]


async def test_leaving_the_block_cancels_every_subscription_and_ends_the_loop() -> None:
    server = Server()
    async with ResourceWatch("s", ("a", "b"), server.follow) as updates:
        loop = aiter(updates)
        assert not any(one.cancelled for one in server.followed)

    assert [one.cancelled for one in server.followed] == [True, True]
    assert [update async for update in loop] == []


async def test_where_one_is_refused_the_others_are_cancelled() -> None:
    server = Server()
    with pytest.raises(PlaitError, match="no such thing"):
        async with ResourceWatch("s", ("a", "refused"), server.follow):
            pass

    assert [one.cancelled for one in server.followed] == [True]


async def test_a_loop_without_a_block_begins_and_ends_the_subscription() -> None:
    server = Server()
    watch = ResourceWatch("s", ("a",), server.follow)
    loop = aiter(watch)
    turn = asyncio.ensure_future(anext(loop))
    await eventually(lambda: bool(server.followed))
    server.tell("a")
    assert await turn == ResourceUpdate("s", "a")
    await loop.aclose()

    assert [one.cancelled for one in server.followed] == [True]


async def test_contents_are_read_when_an_update_is_taken() -> None:
    server = Server()
    texts = iter(["one", "two"])

    async def read(server: str, uri: str) -> ReadResourceResult:
        assert (server, uri) == ("s", "a")
        text = next(texts, None)
        if text is None:
            raise ClientClosedError("closed")
        blob = BlobResourceContents(uri=uri, blob="")
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, text=text), blob])

    seen: list[str] = []
    async with ResourceWatch("s", ("a",), server.follow, read) as updates:
        async for update in updates:
            seen.append(update.text)
            assert len(update.contents) == 2
            server.tell("a")

    assert seen == ["one", "two"]


async def test_a_subscription_that_is_cancelled_before_it_begins_says_so() -> None:
    subscription = Subscription("s", "a", lambda _: None)
    subscription.cancel()

    assert subscription.cancelled


@pytest.mark.parametrize(
    ("capabilities", "lists"),
    [
        (None, set[str]()),
        ({}, set[str]()),
        ({"tools": {"listChanged": False}}, set[str]()),
        ({"tools": {"listChanged": True}}, {"tools"}),
        (
            {"tools": {}, "prompts": {"listChanged": True}, "resources": {"listChanged": True}},
            {"prompts", "resources"},
        ),
        ({"tools": None, "prompts": [1]}, set[str]()),
    ],
)
def test_only_what_a_server_announces_is_listened_to(
    capabilities: dict[str, Any] | None, lists: set[str]
) -> None:
    assert announced_lists(capabilities) == lists
