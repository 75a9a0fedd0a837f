"""A merged stream keeps the order of its items and the context of each."""

from __future__ import annotations

import asyncio
import contextvars

import anyio
import pytest
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from plait.client.transports.streams import MergedRead

pytestmark = pytest.mark.anyio

CALLER: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")


def message(name: str) -> SessionMessage:
    return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method=name))


def context_of(caller: str) -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(CALLER.set, caller)
    return context


def shown(merged: MergedRead, item: SessionMessage | Exception) -> tuple[str, str]:
    assert isinstance(item, SessionMessage)
    assert isinstance(item.message, JSONRPCNotification)
    assert merged.last_context is not None
    return item.message.method, merged.last_context.run(CALLER.get)


async def test_items_of_both_sources_come_with_their_context() -> None:
    send, receive = create_context_streams[SessionMessage | Exception](0)
    merged = MergedRead(receive)
    async with anyio.create_task_group() as tasks, send, merged:
        tasks.start_soon(merged.pump)
        merged.push(message("ours"), context_of("ann"))
        assert shown(merged, await merged.receive()) == ("ours", "ann")
        CALLER.set("bob")
        await send.send(message("theirs"))
        assert shown(merged, await merged.receive()) == ("theirs", "bob")


async def test_an_outcome_waits_for_what_came_before_it() -> None:
    send, receive = create_context_streams[SessionMessage | Exception](0)
    merged = MergedRead(receive)
    happened: list[str] = []
    merged.run_in_order(lambda: happened.append("at once"))
    assert happened == ["at once"]

    merged.push(message("first"), context_of("ann"))
    merged.run_in_order(lambda: happened.append("outcome"))
    merged.push(message("second"), context_of("bob"))
    happened.append(shown(merged, await merged.receive())[0])
    happened.append(shown(merged, await merged.receive())[0])

    assert happened == ["at once", "first", "outcome", "second"]
    await send.aclose()
    await receive.aclose()


async def test_it_ends_with_the_stream_of_the_sdk_after_all_items() -> None:
    send, receive = create_context_streams[SessionMessage | Exception](0)
    merged = MergedRead(receive)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(merged.pump)
        reading = asyncio.ensure_future(_read_all(merged))
        await asyncio.sleep(0)
        merged.push(message("last"), context_of("ann"))
        await send.aclose()
        assert await reading == ["last"]
    await merged.aclose()


async def test_whoever_waits_for_its_items_goes_on_when_the_last_is_dispatched() -> None:
    send, receive = create_context_streams[SessionMessage | Exception](0)
    merged = MergedRead(receive)
    await merged.dispatched()
    merged.push(message("large"), context_of("ann"))
    waiting = asyncio.ensure_future(merged.dispatched())
    await asyncio.sleep(0)
    await merged.receive()
    await asyncio.sleep(0)
    assert not waiting.done()  # it is being dispatched

    reading = asyncio.ensure_future(merged.receive())
    async with asyncio.timeout(5):
        await waiting
    reading.cancel()
    await send.aclose()
    await receive.aclose()


async def _read_all(merged: MergedRead) -> list[str]:
    return [shown(merged, item)[0] async for item in merged]
