"""What a session on a tape records, and what it leaves to its server."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from plait._support.redact import Redactor
from plait.client.config.servers import StdioServer
from plait.client.protocol.exchange import PendingRequest
from plait.client.transports.replay import link_tape
from plait.client.transports.tape import Tape, TapeMode
from plait.client.transports.wire import Wire

pytestmark = pytest.mark.anyio

LOG = {"method": "notifications/message", "params": {"level": "info", "data": "working"}}
RESULT = {"content": [{"type": "text", "text": "done"}]}


class Server:
    """A sender that keeps what is sent."""

    any_thread = True
    is_direct = True

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.is_broken = False

    def send(self, body: bytes, request: PendingRequest) -> None:
        del request
        if self.is_broken:
            raise anyio.BrokenResourceError
        self.sent.append(json.loads(body))

    async def deliver(self, body: bytes) -> None:
        self.sent.append(json.loads(body))

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        del request
        self.sent.append(json.loads(notification))


@asynccontextmanager
async def taped(path: Path, mode: TapeMode = "all") -> AsyncGenerator[tuple[Wire, Server]]:
    """Yield a wire that is recorded, and the server at its other end."""
    wire, server = Wire("desk", Redactor(), lambda: None), Server()

    @asynccontextmanager
    async def link() -> AsyncGenerator[None]:
        wire.use(server)
        yield

    config = StdioServer(command="nothing")
    async with link_tape(Tape(path, mode=mode), config, wire, link):
        yield wire, server


def call(wire: Wire, name: str) -> PendingRequest:
    """Send a call of a tool, and return its request."""
    request = PendingRequest("tools/call", wire.next_request_id(), "2025-11-25")
    wire.requests[request.request_id] = request
    message = {"id": request.request_id, "method": "tools/call", "params": {"name": name}}
    assert wire.sender is not None
    wire.sender.send(json.dumps(message).encode(), request)
    return request


async def receive(wire: Wire, **message: Any) -> None:
    await wire.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())


def recorded(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return [{key: line[key] for key in line if key not in {"server", "seconds"}} for line in lines]


async def test_a_question_is_recorded_with_the_answer_and_the_call(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    async with taped(path) as (wire, server):
        request = call(wire, "book")
        await receive(wire, id="q1", method="roots/list")
        await wire.deliver({"jsonrpc": "2.0", "id": "q1", "result": {"roots": []}})
        await receive(wire, id=request.request_id, result=RESULT)

    assert request.message is not None
    assert [one.get("id") for one in server.sent] == [request.request_id, "q1"]
    step = {"request": {"method": "roots/list"}, "answer": {"result": {"roots": []}}}
    assert recorded(path) == [
        {"method": "tools/call", "params": {"name": "book"}, "steps": [step], "result": RESULT}
    ]


async def test_the_answer_to_a_question_that_is_played_goes_to_no_server(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    step = {"request": {"method": "roots/list"}, "answer": {"result": {"roots": []}}}
    played = {"method": "tools/call", "params": {"name": "book"}, "steps": [step], "result": RESULT}
    path.write_text(
        "".join(f"{json.dumps(line)}\n" for line in ({"tape": 1}, {"server": "desk", **played}))
    )
    async with taped(path, "new_episodes") as (wire, server):
        request = call(wire, "book")
        await anyio.wait_all_tasks_blocked()
        question = f"tape-{request.request_id}-0"
        await wire.deliver({"jsonrpc": "2.0", "id": question, "result": {"roots": []}})
        await anyio.wait_all_tasks_blocked()

    assert request.message is not None
    assert request.message["result"] == RESULT
    assert server.sent == []


async def test_a_cancelled_call_is_not_recorded_and_gets_no_later_notification(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tape.jsonl"
    async with taped(path) as (wire, server):
        first = call(wire, "first")
        wire.requests.pop(first.request_id)
        wire.cancel(first)
        await receive(wire, **LOG)
        second = call(wire, "second")
        await receive(wire, id=second.request_id, result=RESULT)

    assert [one["method"] for one in server.sent][1] == "notifications/cancelled"
    assert recorded(path) == [
        {"notification": LOG},
        {"method": "tools/call", "params": {"name": "second"}, "result": RESULT},
    ]


async def test_a_call_that_is_not_sent_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    woken: list[str] = []
    async with taped(path) as (wire, server):
        server.is_broken = True
        request = PendingRequest("tools/call", 1, "2025-11-25")
        request.wake = partial(woken.append, "once")
        assert wire.sender is not None
        with pytest.raises(anyio.BrokenResourceError):
            wire.sender.send(b'{"id": 1, "method": "tools/call"}', request)
        await receive(wire, **LOG)
        request.fail(anyio.BrokenResourceError())

    assert woken == ["once"]
    assert recorded(path) == [{"notification": LOG}]


async def test_a_list_whose_tools_are_read_by_rows_is_recorded_whole(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    plain = {"inputSchema": {"type": "object"}, "description": "x" * 40_000}
    tools = [{"name": name, **plain} for name in ("one", "two")]
    async with taped(path) as (wire, _):
        request = PendingRequest("tools/list", 1, "2025-11-25")
        request.wants_body, request.parse = True, lambda _: {"result": {"tools": ["rows"]}}
        wire.requests[1] = request
        assert wire.sender is not None
        wire.sender.send(b'{"id": 1, "method": "tools/list"}', request)
        answer = {"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}
        assert wire.take_line(json.dumps(answer).encode())
        assert request.message == {"result": {"tools": ["rows"]}}

    assert recorded(path) == [{"method": "tools/list", "result": {"tools": tools}}]
