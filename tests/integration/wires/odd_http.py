"""An odd server on Streamable HTTP, which also has the faults of HTTP itself."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.integration.connections.test_http_wire import FAULTS
from tests.integration.wires.odd_server import Json, notification
from tests.integration.wires.odd_transports import RunningServer, Sockets, http_server, received_by
from tests.servers.scripted_http import SESSION, Reply, Seen

AS_JSON = "as json"
"""The first step of an answer that is a body, and no stream of events."""

_LOG = notification("message", {"level": "info", "data": "on the stream"})
_JSON = {"Content-Type": "application/json"}


@asynccontextmanager
async def on_http(era: str, folder: Path) -> AsyncGenerator[RunningServer]:
    """Run a server on Streamable HTTP."""
    del folder
    http = _StreamableHttp(era)
    async with http_server(era, http.stream, http.message) as server:
        http.seen = server.seen
        kept = ("mcp-", "last-event-id")
        yield RunningServer({"url": server.url}, http.arrange, lambda: received_by(server, kept))


class _PostChannel:
    """The response to one POST: a body of JSON, or a stream of events."""

    def __init__(self, reply: Reply, *, events: bool) -> None:
        self.reply, self.gone, self._events = reply, reply.hung_up, events
        self._begun = self._over = False

    async def write(self, line: str) -> None:
        if self._over or self.gone.is_set():
            return
        if not self._events:
            opens = self.reply.seen.method == "initialize"
            session = {"Mcp-Session-Id": SESSION} if opens else {}
            self.reply.status(200, {**_JSON, **session}, line.encode("utf-8", "surrogatepass"))
            self._over = True
            return
        if not self._begun:
            self.reply.start_events()
            self._begun = True
        self.reply.event(line)
        await self.reply.writer.drain()

    def die(self) -> None:
        self._over = True
        self.reply.cut()

    def end(self) -> None:
        """End the stream."""
        if self._begun and not self._over and not self.gone.is_set():
            self.reply.end()
        self._over = True


class _StreamableHttp(Sockets):
    """Answers POSTs; the only step of an answer may be one of HTTP."""

    def __init__(self, era: str) -> None:
        super().__init__(era)
        self.seen = list[Seen]()
        self.rest: Json | None = None
        """What a resumed stream still has to say."""

    async def stream(self, reply: Reply) -> None:
        """Answer a GET: the rest of a stream, or one for announcements."""
        if "last-event-id" in reply.seen.headers and self.rest is not None:
            rest, self.rest = self.rest, None
            reply.start_events()
            reply.event(rest, "e2")
            reply.end()
        elif "last-event-id" in reply.seen.headers or "mcp-session-id" not in reply.seen.headers:
            reply.status(405)
        else:
            reply.start_events()
            await reply.hung_up.wait()

    async def message(self, reply: Reply) -> None:
        """Answer a POST."""
        message = reply.seen.message
        if "method" not in message:
            self.replied(message)
        if "method" not in message or "id" not in message:
            reply.status(202)
            return
        first = self._first_step(message["method"])
        if first in FAULTS or first in HTTP_STEPS:
            self.take(message["method"])
            await (FAULTS[first][0](reply) if first in FAULTS else HTTP_STEPS[first](self, reply))
            return
        if first == AS_JSON:
            self.script[0].pop(0)
        listens = message["method"] == "subscriptions/listen"
        fences = message["method"] == "tools/call" and first is None
        events = listens or fences or first not in {AS_JSON, None}
        channel = _PostChannel(reply, events=events)
        await self.answer(message, channel)
        if listens:
            self.server.listening.pop(message["id"], None)
        channel.end()

    def hung_up(self, request: Json) -> None:
        """Note that a connection ended before its response: modern clients cancel in this way."""
        if self.server.modern:
            self.seen.append(Seen("hang-up", "", {}, request, 0))

    def _first_step(self, method: str) -> str | None:
        """Return the first step of an answer, if one is arranged for this method."""
        return self.script[0][0] if method == self.method and self.script else None

    def good(self, reply: Reply) -> Json:
        """Return a good answer to a request."""
        (_, message) = next(self.server.answer(reply.seen.message))
        return message


async def _cut(http: _StreamableHttp, reply: Reply) -> None:
    del http
    reply.start_events()
    reply.event(_LOG)
    await reply.writer.drain()
    reply.cut()


async def _ended(http: _StreamableHttp, reply: Reply) -> None:
    del http
    reply.start_events()
    reply.event(_LOG)
    reply.end()


async def _for_another(http: _StreamableHttp, reply: Reply) -> None:
    reply.start_events()
    reply.event({**http.good(reply), "id": 0})
    reply.end()


async def _ended_to_be_resumed(http: _StreamableHttp, reply: Reply) -> None:
    http.rest = http.good(reply)
    reply.start_events()
    reply.event(_LOG, "e1", retry=0)
    reply.end()


async def _cut_to_be_resumed(http: _StreamableHttp, reply: Reply) -> None:
    http.rest = http.good(reply)
    reply.start_events()
    reply.event(_LOG, "e1", retry=0)
    await reply.writer.drain()
    reply.cut()


async def _never_resumed(http: _StreamableHttp, reply: Reply) -> None:
    del http
    reply.start_events()
    reply.event(_LOG, "e1", retry=0)
    reply.end()


async def _comments(http: _StreamableHttp, reply: Reply) -> None:
    body = json.dumps(http.good(reply))
    reply.start_events()
    reply.chunk(b": hello\n\nretry: 10\n\nevent: message\nid: 7\ndata:" + body.encode() + b"\n\n")
    reply.end()


async def _other_events(http: _StreamableHttp, reply: Reply) -> None:
    good = http.good(reply)
    reply.start_events()
    reply.chunk(b"event: odd\ndata: " + json.dumps({**good, "result": {}}).encode() + b"\n\n")
    reply.event(good)
    reply.end()


async def _pieces(http: _StreamableHttp, reply: Reply) -> None:
    body = json.dumps(http.good(reply), indent=1)
    event = "".join(f"data: {line}\r\n" for line in body.splitlines()) + "\r\n"
    reply.start_events()
    for part in (event[:7], event[7:30], event[30:]):
        reply.chunk(part.encode())
        await reply.writer.drain()
    reply.end()


async def _unfinished(http: _StreamableHttp, reply: Reply) -> None:
    reply.start_events()
    reply.chunk(b"data: " + json.dumps(http.good(reply)).encode() + b"\n")
    reply.end()


async def _moved(http: _StreamableHttp, reply: Reply) -> None:
    http.arrange(reply.seen.message["method"], [[AS_JSON, "answer"]])
    reply.status(307, {"Location": "/other?x=1"}, b"moved")


def _typed(kind: str, status: int = 200) -> HttpStep:
    async def answer(http: _StreamableHttp, reply: Reply) -> None:
        reply.status(status, {"Content-Type": kind}, json.dumps(http.good(reply)).encode())

    return answer


def _refused(status: int, code: int) -> HttpStep:
    async def answer(http: _StreamableHttp, reply: Reply) -> None:
        del http
        error = {"code": code, "message": "refused", "data": {"supported": ["2025-11-25"]}}
        body = {"jsonrpc": "2.0", "id": reply.seen.message["id"], "error": error}
        reply.status(status, _JSON, json.dumps(body).encode())

    return answer


HttpStep = Callable[[_StreamableHttp, Reply], Awaitable[None]]

RESUMPTIONS: dict[str, HttpStep] = {
    "an ended stream, resumed": _ended_to_be_resumed,
    "a cut stream, resumed": _cut_to_be_resumed,
    "a stream that cannot be resumed": _never_resumed,
}
HTTP_STEPS: dict[str, HttpStep] = {
    **RESUMPTIONS,
    "a cut stream": _cut,
    "an ended stream": _ended,
    "an event for another request": _for_another,
    "comments": _comments,
    "other events": _other_events,
    "an event in pieces": _pieces,
    "an event without its end": _unfinished,
    "moved": _moved,
    "json with a charset": _typed("Application/JSON; charset=utf-8"),
    "json as text": _typed("text/plain"),
    "json without a type": _typed(""),
    "json with 201": _typed("application/json", 201),
    "json with 500": _typed("application/json", 500),
    "400 with an error of its own": _refused(400, -32602),
    "404 with an error of its own": _refused(404, -32601),
    "400 of another version": _refused(400, -32022),
    "500 with an error of its own": _refused(500, -32603),
}
