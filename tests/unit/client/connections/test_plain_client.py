"""Clients without the MCP SDK: the end of what they read."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any, cast

import pytest

from plait._support.redact import Redactor
from plait.client.connections.plain_client import PlainClient
from plait.client.connections.session_options import SessionOptions
from plait.client.protocol.exchange import PendingRequest
from plait.client.protocol.peer import RequestError
from plait.client.transports.wire import Wire

pytestmark = pytest.mark.anyio


class _Read:
    def __init__(self, *, arrives: bool) -> None:
        self._arrives = arrives

    async def next_arrival(self) -> bool:
        if not self._arrives:
            await asyncio.Event().wait()
        return True


@pytest.mark.parametrize("arrives", [True, False])
async def test_closing_ends_requests_also_after_a_message_for_the_sdk(*, arrives: bool) -> None:
    wire = Wire("server", Redactor(()), lambda: None)
    streams = cast("Any", (_Read(arrives=arrives), SimpleNamespace(sender=None)))
    async with AsyncExitStack() as transport:
        client = PlainClient(streams, transport, wire, "auto", SessionOptions())
    request = PendingRequest("tools/call", 1, "2025-11-25")
    wire.requests[1] = request
    await asyncio.sleep(0)
    assert client.needs_sdk.is_set() == arrives

    await client.transport.aclose()

    assert isinstance(request.fault, RequestError)
    assert wire.sender is None
