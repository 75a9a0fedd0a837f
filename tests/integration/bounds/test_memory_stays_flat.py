"""Whatever a server sends, no more of it is kept than its limits say."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import zlib
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from mcp_types import LoggingMessageNotificationParams
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

from plait import ConnectError, OutcomeUnknownError, PlaitError, Toolbox
from plait.errors import HttpError, ProtocolError
from tests.integration.bounds.loop_stalls import LoopStalls
from tests.integration.bounds.memory import MemoryGrowth
from tests.nursery import entry
from tests.servers.scripted_http import Reply, scripted_http

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

_SERVER = str(Path(__file__).parents[2] / "servers" / "raw" / "flood_stdio.py")
_MEGABYTE = b"x" * 1_000_000
_LIMIT = 8_000_000
_SENT_MEGABYTES = 150
_MOST_GROWTH = _LIMIT + 64_000_000

LIMITS = {"message_bytes": _LIMIT}


def _stdio_box() -> Toolbox:
    return Toolbox({"s": entry(_SERVER)}, limits=LIMITS)


@pytest.mark.parametrize("late_id", [False, True])
async def test_a_line_over_the_limit_fails_its_call_and_nothing_else(
    late_id: bool,
) -> None:
    async with _stdio_box() as box:
        await box.call("s", "good")
        pid = box.status()["s"].pid
        large = {"megabytes": 12, "late_id": late_id}
        with pytest.raises(OutcomeUnknownError, match="message_bytes"):
            await box.call("s", "line", large, timeout_seconds=20)
        assert (await box.call("s", "good")).text == "good"
        assert box.status()["s"].pid == pid


async def test_a_line_of_too_many_values_is_not_parsed_and_fails_only_its_call() -> None:
    async with _stdio_box() as box:
        await box.call("s", "good")
        pid = box.status()["s"].pid
        with MemoryGrowth() as growth, pytest.raises(OutcomeUnknownError, match="`values` in"):
            await box.call("s", "dense", {"megabytes": 7}, timeout_seconds=20)
        assert growth.worst_bytes < _MOST_GROWTH
        assert (await box.call("s", "good")).text == "good"
        assert box.status()["s"].pid == pid


async def test_long_errors_do_not_pile_up_until_garbage_is_collected() -> None:
    async with _stdio_box() as box:
        await box.call("s", "good")
        gc.collect()
        gc.disable()
        try:
            with MemoryGrowth() as growth:
                for _ in range(20):
                    with pytest.raises(ProtocolError):
                        await box.call("s", "refusal", {"megabytes": 7}, timeout_seconds=20)
        finally:
            gc.enable()
        assert growth.worst_bytes < _MOST_GROWTH


async def test_a_line_under_the_limit_arrives_whole() -> None:
    async with Toolbox({"s": entry(_SERVER)}) as box:
        assert len((await box.call("s", "line", {"megabytes": 20})).text) == 20_000_000


async def test_output_without_a_newline_ends_the_session_and_is_not_kept() -> None:
    async with _stdio_box() as box:
        await box.call("s", "good")
        endless = {"megabytes": _SENT_MEGABYTES}
        with MemoryGrowth() as growth, pytest.raises(OutcomeUnknownError, match="message_bytes"):
            await box.call("s", "endless", endless, timeout_seconds=20)
        assert growth.worst_bytes < _MOST_GROWTH
        assert (await box.call("s", "good")).text == "good"


async def test_a_notification_and_standard_error_of_any_size_harm_no_call() -> None:
    async with _stdio_box() as box:
        await box.call("s", "good")
        with MemoryGrowth() as growth:
            for name in ("notice", "stderr"):
                flood = {"megabytes": 14 if name == "notice" else _SENT_MEGABYTES}
                assert (await box.call("s", name, flood, timeout_seconds=20)).text == "good"
        assert growth.worst_bytes < _MOST_GROWTH


@cache
def _bomb(before: bytes) -> bytes:
    packer = zlib.compressobj(1, wbits=zlib.MAX_WBITS | 16)
    pieces = [packer.compress(before)]
    pieces += [packer.compress(_MEGABYTE) for _ in range(_SENT_MEGABYTES)]
    return b"".join([*pieces, packer.flush()])


async def _flood(reply: Reply, head: str) -> None:
    reply.send(f"HTTP/1.1 {head}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    for _ in range(_SENT_MEGABYTES):
        reply.chunk(_MEGABYTE)
        await reply.writer.drain()


async def _compressed_json(reply: Reply) -> None:
    fields = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    reply.status(200, fields, _bomb(b'{"jsonrpc":"2.0","id":1,"result":"'))


async def _compressed_event(reply: Reply) -> None:
    fields = {"Content-Type": "text/event-stream", "Content-Encoding": "gzip"}
    reply.status(200, fields, _bomb(b"data: "))


async def _dense_json(reply: Reply) -> None:
    objects = b"{}," * 2_500_000
    number = reply.seen.message["id"]
    body = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"a":[' % number
    reply.status(200, {"Content-Type": "application/json"}, body + objects + b"1]}}}")


async def _long_json(reply: Reply) -> None:
    await _flood(reply, "200 OK\r\nContent-Type: application/json")


async def _long_event(reply: Reply) -> None:
    await _flood(reply, "200 OK\r\nContent-Type: text/event-stream")


async def _long_refusal(reply: Reply) -> None:
    await _flood(reply, "500 Broken\r\nContent-Type: text/plain")


async def _long_challenge(reply: Reply) -> None:
    await _flood(reply, "401 Unauthorized\r\nWWW-Authenticate: Bearer")


async def _long_redirect(reply: Reply) -> None:
    await _flood(reply, "307 Elsewhere\r\nLocation: http://elsewhere.test/mcp")


async def _compressed_refusal(reply: Reply) -> None:
    fields = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    reply.status(500, fields, _bomb(b"{"))


ATTACKS: list[tuple[Callable[[Reply], Awaitable[None]], type[PlaitError]]] = [
    (_compressed_json, OutcomeUnknownError),
    (_compressed_event, OutcomeUnknownError),
    (_dense_json, OutcomeUnknownError),
    (_long_json, OutcomeUnknownError),
    (_long_event, OutcomeUnknownError),
    (_long_refusal, HttpError),
    (_long_challenge, HttpError),
    (_long_redirect, HttpError),
    (_compressed_refusal, HttpError),
]


@pytest.mark.parametrize("posted_by", ["pool", "httpx2"])
@pytest.mark.parametrize(("attack", "error"), ATTACKS)
async def test_an_http_answer_over_the_limit_is_not_kept_and_only_its_call_fails(
    posted_by: str,
    attack: Callable[[Reply], Awaitable[None]],
    error: type[PlaitError],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    options: dict[str, Any] = {"headers": dict} if posted_by == "httpx2" else {}
    attacks = [attack]

    async def answer(reply: Reply) -> None:
        if attacks:
            await attacks.pop()(reply)
        else:
            reply.json(reply.response())

    async with (
        scripted_http(answer) as server,
        Toolbox({"s": {"url": server.url, **options}}, limits=LIMITS) as box,
    ):
        await box.tools()
        with MemoryGrowth() as growth, pytest.raises(error) as raised:
            await box.call("s", "work", timeout_seconds=20)
        assert growth.worst_bytes < _MOST_GROWTH
        if error is OutcomeUnknownError:
            assert "in `limits`" in str(raised.value)
        assert (await box.call("s", "work")).text == "done"


@pytest.mark.parametrize(("era", "protocol"), [("modern", "2026-07-28"), ("legacy", "legacy")])
async def test_the_answer_of_a_handshake_has_a_small_limit(era: str, protocol: str) -> None:
    async def answer(reply: Reply) -> None:
        reply.json(reply.response())

    async with scripted_http(answer, era=era) as server:
        server.handshake_fields["instructions"] = "x" * 20_000_000
        config = {"url": server.url, "protocol": protocol, "reconnect": {"max_attempts": 1}}
        with MemoryGrowth() as growth, pytest.raises(ConnectError, match="more than 1,048,576"):
            async with Toolbox({"s": config}) as box:
                await box.tools("s")
    assert growth.worst_bytes < 64_000_000 + 3 * 20_000_000  # the server is in this process


async def test_a_large_notification_is_passed_on_beside_the_loop() -> None:
    params = b'"params":{"level":"info","data":"' + b"\\n" * 10_000_000 + b'"}'
    message = b'{"jsonrpc":"2.0","method":"notifications/message",%b}' % params
    received: asyncio.Queue[int] = asyncio.Queue()

    async def stream(reply: Reply) -> None:
        reply.start_events()
        await reply.writer.drain()
        reply.chunk(b"data: " + message + b"\n\n")
        await reply.hung_up.wait()

    async def answer(reply: Reply) -> None:
        reply.json(reply.response())

    def log(_server: str, params: LoggingMessageNotificationParams) -> None:
        received.put_nowait(len(params.data))

    async with scripted_http(answer, era="legacy") as server:
        server.on_get = stream
        async with Toolbox({"s": {"url": server.url}}, on_log=log) as box, LoopStalls() as stalls:
            await box.tools()
            async with asyncio.timeout(20):
                assert await received.get() == 10_000_000
    assert stalls.worst_seconds < 0.1


_NOISE = b"data: this is not JSON-RPC\n\n" * 20_000
_PIECES = {
    "noise": b"%x\r\n%b\r\n" % (len(_NOISE), _NOISE),
    "chunks of a byte": b"7\r\ndata: x\r\n" + b"1\r\nx\r\n" * 1_000_000 + b"2\r\n\n\n\r\n",
}


@pytest.mark.parametrize("pieces", _PIECES)
async def test_small_pieces_of_an_http_answer_take_neither_memory_nor_the_loop(pieces: str) -> None:
    async def answer(reply: Reply) -> None:
        reply.start_events()
        reply.send(_PIECES[pieces])
        reply.event(reply.response())
        reply.end()

    async with scripted_http(answer) as server, Toolbox({"s": {"url": server.url}}) as box:
        await box.tools()
        with MemoryGrowth() as growth:
            async with LoopStalls() as stalls:
                assert (await box.call("s", "work", timeout_seconds=20)).text == "done"
    assert growth.worst_bytes < 64_000_000
    assert stalls.worst_seconds < 0.1


@pytest.mark.parametrize(
    ("reason", "flood"),
    [
        ("message_bytes", lambda _number: "x" * (_LIMIT + 1)),
        (
            "`values`",
            lambda number: f'{{"jsonrpc":"2.0","id":{number},"result":[{"{}," * 10**6}1]}}',
        ),
    ],
)
async def test_a_websocket_message_over_a_limit_is_refused_with_the_reason(
    reason: str, flood: Callable[[int], str]
) -> None:
    async def answer(socket: ServerConnection) -> None:
        async for frame in socket:
            message = json.loads(frame)
            result: dict[str, Any] = {"tools": []}
            if message["method"] == "tools/call":
                await socket.send(flood(message["id"]))
                continue
            if message["method"] == "initialize":
                result = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "s", "version": "1"},
                }
            if "id" in message:
                reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
                await socket.send(json.dumps(reply))

    async with serve(answer, "127.0.0.1", 0, subprotocols=[Subprotocol("mcp")]) as server:
        port = server.sockets[0].getsockname()[1]
        address = {"url": f"ws://127.0.0.1:{port}/mcp", "protocol": "legacy"}
        async with Toolbox({"s": address}, limits=LIMITS) as box:
            with pytest.raises(OutcomeUnknownError, match=reason):
                await asyncio.wait_for(box.call("s", "work"), 20)
