"""Messages that are too large fail the requests that they answer."""

from __future__ import annotations

import pytest

from plait._support.redact import Redactor
from plait.client.config.budgets import DEFAULT_LIMITS
from plait.client.protocol.exchange import Exchange, PendingRequest
from plait.client.protocol.peer import RequestError
from plait.client.transports.oversize import read_large
from plait.client.transports.wire import Wire

pytestmark = pytest.mark.anyio

VERSION = "2025-11-25"
LARGE = b'{"jsonrpc":"2.0","id":7,"result":{"instructions":"%b"}}' % (b"x" * 2_000_000)


async def test_a_large_answer_of_a_handshake_is_refused() -> None:
    wire = Wire("server", Redactor(()), lambda: None)
    request = PendingRequest("initialize", 7, VERSION)
    wire.requests[7] = request

    assert (await read_large(wire, LARGE, DEFAULT_LIMITS)).messages == ()

    assert isinstance(request.fault, RequestError)
    assert request.fault.message == "the server answered initialize with more than 1,048,576 bytes"


async def test_so_it_is_where_the_sdk_makes_the_handshake() -> None:
    wire = Wire("server", Redactor(()), lambda: None)
    wire.pending[7] = Exchange("server/discover", 7, VERSION)

    (refusal,) = (await read_large(wire, LARGE, DEFAULT_LIMITS)).messages

    assert "server/discover with more than" in refusal.model_dump()["error"]["message"]


async def test_other_answers_may_be_large_while_a_handshake_is_under_way() -> None:
    wire = Wire("server", Redactor(()), lambda: None)
    wire.pending[1] = Exchange("server/discover", 1, VERSION)
    request = wire.requests[7] = PendingRequest("tools/call", 7, VERSION)

    await read_large(wire, LARGE, DEFAULT_LIMITS)

    assert request.answered
