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


HttpStep = Callable[[_StreamableHttp, Reply], Awaitable[None]]


def _stream(
    *parts: Json | Callable[[Json], Json | bytes], cut: bool = False, event_id: str = ""
) -> HttpStep:
    """Return a step that streams events, some of them made of the good answer, and ends or cuts.

    With an `event_id` the stream may be resumed.
    """

    async def answer(http: _StreamableHttp, reply: Reply) -> None:
        good = http.good(reply)
        reply.start_events()
        for part in parts:
            one = part(good) if callable(part) else part
            if isinstance(one, bytes):
                reply.chunk(one)
            elif event_id:
                reply.event(one, event_id, retry=0)
            else:
                reply.event(one)
            await reply.writer.drain()
        if cut:
            reply.cut()
        else:
            reply.end()

    return answer


def _resumed(*, cut: bool) -> HttpStep:
    stream = _stream(_LOG, cut=cut, event_id="e1")

    async def answer(http: _StreamableHttp, reply: Reply) -> None:
        http.rest = http.good(reply)
        await stream(http, reply)

    return answer


def _encoded(good: Json) -> bytes:
    return json.dumps(good).encode()


def _lines(good: Json) -> bytes:
    text = json.dumps(good, indent=1)
    return ("".join(f"data: {line}\r\n" for line in text.splitlines()) + "\r\n").encode()


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


RESUMPTIONS: dict[str, HttpStep] = {
    "an ended stream, resumed": _resumed(cut=False),
    "a cut stream, resumed": _resumed(cut=True),
    "a stream that cannot be resumed": _stream(_LOG, event_id="e1"),
}
HTTP_STEPS: dict[str, HttpStep] = {
    **RESUMPTIONS,
    "a cut stream": _stream(_LOG, cut=True),
    "an ended stream": _stream(_LOG),
    "an event for another request": _stream(lambda good: {**good, "id": 0}),
    "comments": _stream(
        lambda good: (
            b": hello\n\nretry: 10\n\nevent: message\nid: 7\ndata:" + _encoded(good) + b"\n\n"
        )
    ),
    "other events": _stream(
        lambda good: b"event: odd\ndata: " + _encoded({**good, "result": {}}) + b"\n\n",
        lambda good: good,
    ),
    "an event in pieces": _stream(
        lambda good: _lines(good)[:7],
        lambda good: _lines(good)[7:30],
        lambda good: _lines(good)[30:],
    ),
    "an event without its end": _stream(lambda good: b"data: " + _encoded(good) + b"\n"),
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
