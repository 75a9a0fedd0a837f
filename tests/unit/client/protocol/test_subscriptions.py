"""What a stream of changes hands on, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from plait.client.protocol.peer import RequestError
from plait.client.protocol.session import (
    MAX_PENDING_EVENTS,
    Subscription,
    SubscriptionLostError,
)

pytestmark = pytest.mark.anyio

TOOLS = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"
HONORED = {"toolsListChanged": True, "resourceSubscriptions": ["a://b"]}


async def events_of(stream: Subscription) -> list[str]:
    """Return the events of a stream that the server ends."""
    stream.settle("graceful")
    return [event async for event in stream]


@pytest.mark.parametrize(
    ("honored", "changes", "events"),
    [
        (None, [(TOOLS, {})], []),
        (HONORED, [(TOOLS, {}), (UPDATED, {"uri": "a://b"}), (TOOLS, {})], [TOOLS, "a://b"]),
        (HONORED, [("notifications/prompts/list_changed", {})], []),
        (HONORED, [(UPDATED, {"uri": 5}), ("notifications/message", {})], []),
        ({}, [(TOOLS, {}), (UPDATED, {"uri": "a://b"})], []),
    ],
    ids=["not agreed", "each once", "not wanted", "unreadable", "nothing wanted"],
)
async def test_only_changes_that_were_agreed_on_are_handed_on(
    honored: Any, changes: list[tuple[str, dict[str, Any]]], events: list[str]
) -> None:
    stream = Subscription()
    assert honored is None or stream.acknowledge(honored)
    for method, params in changes:
        stream.deliver(method, params)

    assert await events_of(stream) == events


async def test_what_the_server_agreed_to_first_counts_if_it_can_be_read() -> None:
    stream = Subscription()

    assert not stream.acknowledge({"toolsListChanged": "maybe"})
    assert stream.acknowledge(HONORED)
    assert stream.acknowledge({})

    await stream.agreed()
    assert stream.honored.tools_list_changed


@pytest.mark.parametrize("error", [RequestError(-32601, "no"), None])
async def test_a_stream_that_is_refused_says_why(error: RequestError | None) -> None:
    stream = Subscription()
    stream.settle("lost", error)
    stream.settle("graceful")

    with pytest.raises(RequestError if error else SubscriptionLostError):
        await stream.agreed()


async def test_a_stream_is_lost_after_too_many_changes_which_are_handed_on_first() -> None:
    stream = Subscription()
    stream.acknowledge({"resourceSubscriptions": ["a://b"]})
    for number in range(MAX_PENDING_EVENTS + 1):
        stream.deliver(UPDATED, {"uri": f"a://{number}"})

    events = [await anext(stream) for _ in range(MAX_PENDING_EVENTS)]
    assert events[-1] == f"a://{MAX_PENDING_EVENTS - 1}"
    with pytest.raises(SubscriptionLostError) as caught:
        await anext(stream)
    assert "changes wait to be read" in str(caught.value.__cause__)
