"""An odd server on stdio, WebSocket and the older HTTP transport; `odd_http.py` has the other."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from tests.integration.wires.odd_server import (
    SUBSCRIPTION,
    Json,
    OddServer,
    Playing,
    Script,
    replace_text,
)
from tests.servers.scripted_http import Answer, Reply, ScriptedHttp, scripted_http

_PROGRAM = Path(__file__).with_name("odd_server.py")


@dataclass(frozen=True)
class Received:
    """A message that reached a server, or what else it noticed."""

    message: Json
    verb: str = ""
    """That of an HTTP request, or `hang-up` for the end of one that had no response yet."""
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class RunningServer:
    """A server that takes scripts."""

    config: Json
    arrange: Callable[[str, Script], None]
    """Sets the steps for the next requests of a method."""
    received: Callable[[], list[Received]]
    """Returns everything received so far, in order."""


@asynccontextmanager
async def on_stdio(era: str, folder: Path) -> AsyncGenerator[RunningServer]:
    """Give a server on stdio, which its client starts."""
    script, log = _new_files(folder)

    def arrange(method: str, steps: Script) -> None:
        replace_text(script, json.dumps({"method": method, "steps": steps}))

    def received() -> list[Received]:
        return [Received(json.loads(line)) for line in log.read_bytes().splitlines()]

    arrange("", [])
    command = [sys.executable, "-I", "-S", str(_PROGRAM), era, str(script), str(log)]
    yield RunningServer({"command": command[0], "args": command[1:]}, arrange, received)


def _new_files(folder: Path) -> tuple[Path, Path]:
    folder.mkdir(parents=True)
    (folder / "log").touch()
    return folder / "script.json", folder / "log"


class Channel(Protocol):
    """Where the answers to a request go."""

    @property
    def gone(self) -> asyncio.Event:
        """Set when the client has closed it."""
        ...

    async def write(self, line: str) -> None: ...

    def die(self) -> None: ...


class Sockets:
    """Runs a server in this event loop; each transport has its own channels."""

    def __init__(self, era: str) -> None:
        self.script: Script = []
        self.server = OddServer(era, self.take)
        self.received = list[Received]()
        self.method = ""
        self._asked = dict[str, asyncio.Future[Json]]()
        self._channels = dict[object, Channel]()
        self._released = dict[object, asyncio.Event]()
        self._tasks = set[asyncio.Task[None]]()

    def arrange(self, method: str, steps: Script) -> None:
        self.method, self.script = method, [list(one) for one in steps]

    def take(self, method: str) -> list[str] | None:
        return self.script.pop(0) if method == self.method and self.script else None

    def begin(self, message: Json, channel: Channel) -> None:
        """Handle a message, in a task of its own if it is a request."""
        self.server.take_back(message)
        if "method" not in message:
            self.replied(message)
        elif "id" in message:
            task = asyncio.ensure_future(self.answer(message, channel))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Cancel what is still being answered."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def replied(self, message: Json) -> None:
        """Take the response to a request of this server."""
        asked = self._asked.get(message["id"])
        if asked is not None and not asked.done():
            asked.set_result(message)

    async def answer(self, request: Json, channel: Channel) -> None:
        """Do everything that answers a request."""
        self._channels[request["id"]] = channel
        listens = request["method"] == "subscriptions/listen" and self.server.modern
        server = self.server
        playing = server.listen(request) if listens else server.answer(request)
        await self._play(playing, channel, request)

    def hung_up(self, request: Json) -> None:
        """Note that a client does not wait for a response any more, if there is a sign of it."""

    async def _play(self, playing: Playing, channel: Channel, request: Json) -> None:
        reply: Json | None = None
        while True:
            try:
                what, value = playing.send(reply)
            except StopIteration:
                return
            reply = None
            match what:
                case "send":
                    await channel.write(json.dumps(value))
                case "text":
                    await channel.write(value)
                case "announce":
                    await self._announce(value, channel)
                case "hold":
                    self._released[value] = asyncio.Event()
                    await self._released[value].wait()
                case "release":
                    await self._channels[value["id"]].write(json.dumps(value))
                    self._released[value["id"]].set()
                case "ask":
                    await channel.write(json.dumps(value))
                    reply = await self._reply_to(value["id"], channel)
                    if reply is None:
                        self.hung_up(request)
                case "die":
                    channel.die()
                    return
                case "hang":
                    await channel.gone.wait()
                    self.hung_up(request)
                case _:
                    await channel.gone.wait()

    async def _announce(self, message: Json, channel: Channel) -> None:
        """Write what is no part of an answer; a modern server has streams for it."""
        listener = message["params"].get("_meta", {}).get(SUBSCRIPTION)
        await self._channels.get(listener, channel).write(json.dumps(message))

    async def _reply_to(self, asked: str, channel: Channel) -> Json | None:
        reply = self._asked[asked] = asyncio.get_running_loop().create_future()
        gone = asyncio.ensure_future(channel.gone.wait())
        await asyncio.wait({reply, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        return reply.result() if reply.done() else None


@dataclass(eq=False)
class _SocketChannel:
    socket: ServerConnection
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def write(self, line: str) -> None:
        await self.socket.send(line)

    def die(self) -> None:
        self.socket.transport.abort()


@asynccontextmanager
async def on_websocket(era: str, folder: Path) -> AsyncGenerator[RunningServer]:
    """Run a server whose messages are frames of a WebSocket."""
    del folder
    sockets = Sockets(era)

    async def serve_session(socket: ServerConnection) -> None:
        channel = _SocketChannel(socket)
        sockets.server.listening.clear()
        with suppress(ConnectionClosed):
            async for frame in socket:
                message = json.loads(frame)
                sockets.received.append(Received(message))
                sockets.begin(message, channel)
        channel.gone.set()

    async with serve(serve_session, "127.0.0.1", 0, subprotocols=[Subprotocol("mcp")]) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        config = {"url": f"ws://127.0.0.1:{port}"}
        try:
            yield RunningServer(config, sockets.arrange, lambda: sockets.received)
        finally:
            await sockets.end()


@dataclass(eq=False)
class _StreamChannel:
    """The event stream of the older HTTP transport."""

    reply: Reply

    @property
    def gone(self) -> asyncio.Event:
        return self.reply.hung_up

    async def write(self, line: str) -> None:
        self.reply.event(line)

    def die(self) -> None:
        self.reply.cut()


@asynccontextmanager
async def on_sse(era: str, folder: Path) -> AsyncGenerator[RunningServer]:
    """Run a server that gets messages by POST, and sends its own as events of one GET."""
    del folder
    sockets, streams = Sockets(era), list[_StreamChannel]()

    async def stream(reply: Reply) -> None:
        sockets.server.listening.clear()
        reply.start_events()
        reply.chunk(b"event: endpoint\ndata: /messages\n\n")
        streams.append(_StreamChannel(reply))
        await reply.hung_up.wait()

    async def message(reply: Reply) -> None:
        reply.status(202)
        await reply.writer.drain()
        sockets.begin(reply.seen.message, streams[-1])

    async with http_server(era, stream, message) as server:
        config = {"url": server.url, "transport": "sse"}
        try:
            yield RunningServer(config, sockets.arrange, lambda: received_by(server, ()))
        finally:
            await sockets.end()


@asynccontextmanager
async def http_server(era: str, on_get: Answer, on_post: Answer) -> AsyncGenerator[ScriptedHttp]:
    """Run a server that answers nothing by itself."""
    async with scripted_http(on_post, era=era) as server:
        server.on_get, server.on_post = on_get, on_post
        yield server


def received_by(server: ScriptedHttp, prefixes: tuple[str, ...]) -> list[Received]:
    """Return the requests that reached a server, with the headers that begin so."""
    return [
        Received(seen.message, seen.verb, _headers(seen.headers, prefixes)) for seen in server.seen
    ]


def _headers(headers: dict[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith(prefixes)}
