"""HTTP servers on this machine: listening sockets, request bodies, and uvicorn."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_START_SECONDS = 30.0


def listen(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """Return a listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol, asyncio disables Nagle's algorithm; otherwise an answer in two
    # writes takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(256)
    except BaseException:
        listener.close()
        raise
    return listener


class LocalHostsOnly:
    """Refuses requests that a web page sends to this machine under a name of its own.

    Such a page may have its name resolve to this machine (DNS rebinding); the browser then sends
    that name as `Host`, and its origin as `Origin`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests to this machine, and everything that is no HTTP request."""
        if scope["type"] in {"http", "websocket"}:
            headers = Headers(scope=scope)
            named = [f"//{headers.get('host', '')}", *headers.getlist("origin")]
            if not all(_is_here(address) for address in named):
                refusal = PlainTextResponse("this server is for programs of this machine", 403)
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _is_here(address: str) -> bool:
    try:
        host = urlsplit(address).hostname
    except ValueError:
        return False
    return host in {"127.0.0.1", "localhost", "::1"}


async def buffer_body(receive: Receive) -> tuple[bytes, Receive]:
    """Read a request body, and return it with a `receive` that delivers it again."""
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        body.extend(message.get("body", b""))
        more = message.get("more_body", False)
    replay: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def again() -> Message:
        return replay.pop() if replay else await receive()

    return bytes(body), again


class LocalServer(uvicorn.Server):
    """A server whose connections can be cut; `serve` runs it here, `start` in a thread.

    `on_ready` is called when it listens.
    """

    def __init__(
        self, app: ASGIApp, *, on_ready: Callable[[], None] = lambda: None, **options: Any
    ) -> None:
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            log_level="critical",
            access_log=False,
            timeout_graceful_shutdown=0,
            **options,
        )
        super().__init__(config)
        self._on_ready = on_ready
        self._listening = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, listener: socket.socket, *, name: str) -> None:
        """Serve in a thread; returns when clients may connect."""
        self._thread = threading.Thread(
            target=self.run, kwargs={"sockets": [listener]}, name=name, daemon=True
        )
        self._thread.start()
        if not self._listening.wait(_START_SECONDS):
            raise TimeoutError(f"{name} did not start")

    def stop(self) -> None:
        """Stop serving, and wait until the thread has ended."""
        self.should_exit = True
        if self._thread is not None:
            self._thread.join(_START_SECONDS)

    def cut(self, client: tuple[str, int] | None = None) -> None:
        """Abort the TCP connection of one client address, or of all."""
        for connection in list(self.server_state.connections):
            transport = connection.transport
            if client is None or transport.get_extra_info("peername") == tuple(client):
                transport.abort()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then report it."""
        await super().startup(sockets)
        self._listening.set()
        self._on_ready()
