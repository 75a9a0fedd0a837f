"""No transport reports a request as not sent that the server may have read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp_types import HEADER_MISMATCH, URL_ELICITATION_REQUIRED
from websockets.asyncio.server import ServerConnection, serve

from plait import OutcomeUnknownError, Toolbox
from plait._support.redact import Redactor
from plait.client.calls.executor import _write  # pyright: ignore[reportPrivateUsage]
from plait.client.connections.operations import is_refused
from plait.client.protocol.exchange import PendingRequest
from plait.client.protocol.peer import closed
from plait.client.transports.sse import _SseSender  # pyright: ignore[reportPrivateUsage]
from plait.client.transports.wire import Wire

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

VERSION = "2025-06-18"


def _answer(message: dict[str, Any]) -> dict[str, Any] | None:
    """Answer everything but calls, as a server of the handshake era."""
    result: dict[str, Any]
    match message.get("method"):
        case "initialize":
            info = {"name": "twice", "version": "1"}
            result = {
                "protocolVersion": VERSION,
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
        case "tools/list":
            pay = {"name": "pay", "inputSchema": {"type": "object"}}
            look = {**pay, "name": "look", "annotations": {"readOnlyHint": True}}
            result = {"tools": [pay, look]}
        case "ping":
            result = {}
        case _:
            return None
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


@asynccontextmanager
async def _cutting_server(ledger: list[str]) -> AsyncGenerator[str]:
    """Serve a WebSocket that is cut right after it has carried one call."""

    async def connected(socket: ServerConnection) -> None:
        async for frame in socket:
            message = json.loads(frame)
            if message.get("method") == "tools/call":
                ledger.append(message["params"]["arguments"]["name"])
                socket.transport.abort()
                return
            if (answer := _answer(message)) is not None:
                await socket.send(json.dumps(answer))

    async with serve(connected, "127.0.0.1", 0, max_size=None, compression=None) as listening:
        port = next(iter(listening.sockets)).getsockname()[1]
        yield f"ws://127.0.0.1:{port}"


async def test_a_socket_that_breaks_with_a_full_buffer_does_not_repeat_what_has_left() -> None:
    ledger: list[str] = []
    async with (
        _cutting_server(ledger) as url,
        Toolbox({"server": {"url": url, "protocol": "legacy"}}) as box,
    ):
        await box.tools()
        text = "x" * 16_000_000
        calls = [box.call("server", "pay", {"name": one, "text": text}) for one in "12"]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)

    assert ledger.count(ledger[0]) == 1
    assert OutcomeUnknownError in {type(one) for one in outcomes}


async def test_a_call_that_only_reads_is_not_said_to_have_changed_something() -> None:
    ledger: list[str] = []
    async with (
        _cutting_server(ledger) as url,
        Toolbox({"server": {"url": url, "protocol": "legacy"}}) as box,
    ):
        with pytest.raises(OutcomeUnknownError, match=r"has changed nothing$") as lost:
            await box.call("server", "look", {"name": "mail"})

    assert ledger == ["mail"] * lost.value.attempts
    assert "not known" not in lost.value.message


async def test_a_session_that_ends_before_a_request_is_posted_does_not_post_it_later() -> None:
    posted: list[bytes] = []

    def take(request: httpx2.Request) -> httpx2.Response:
        posted.append(request.content)
        return httpx2.Response(202)

    wire = Wire("server", Redactor(()), lambda: None)
    request = PendingRequest("tools/call", wire.next_request_id(), VERSION)
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(take)) as client:
        sender = _SseSender(client, "http://127.0.0.1/messages", wire, is_direct=True)
        wire.use(sender)
        wire.requests[request.request_id] = request
        sender.send(b"{}", request)
        wire.fail_requests(closed())
        for _ in range(10):
            await asyncio.sleep(0)

    assert posted == []
    assert request.written  # the error must not say that it can be sent again


class _Recorder:
    any_thread = False
    is_direct = True

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.cancelled: list[PendingRequest] = []

    def send(self, body: bytes, request: PendingRequest) -> None:
        del request
        self.sent.append(body)

    async def deliver(self, body: bytes) -> None:
        self.sent.append(body)

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        del notification
        self.cancelled.append(request)


async def test_nothing_is_written_by_a_sender_that_was_closed_meanwhile() -> None:
    wire, sender = Wire("server", Redactor(()), lambda: None), _Recorder()
    request = PendingRequest("tools/call", wire.next_request_id(), VERSION)
    wire.requests[request.request_id] = request

    _write(wire, sender, b"{}", request)  # a caller in another thread fails it at this moment

    assert sender.sent == []
    assert request.fault is not None
    assert not request.written


@pytest.mark.parametrize(
    ("message", "is_final"),
    [
        ({"error": {"code": -32603, "message": "no money"}}, True),
        ({"error": {"code": HEADER_MISMATCH, "message": "Mcp-Param-City"}}, False),
        ({"error": {"code": URL_ELICITATION_REQUIRED, "message": "visit"}}, False),
        ({"result": {"resultType": "input_required"}}, False),
        (None, True),
    ],
)
def test_an_answer_is_final_without_another_session(
    message: dict[str, Any] | None, is_final: bool
) -> None:
    # Waiting for a session would end in `ConnectError`, after which a fallback server is called.
    request = PendingRequest("tools/call", 1, VERSION, message=message)

    assert is_refused(request) is is_final
