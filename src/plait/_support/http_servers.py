"""HTTP servers on this machine: listening sockets, request bodies, and uvicorn."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
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


LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""How this machine names itself in an address."""


class KnownHostsOnly:
    """Refuses requests that a web page sends to this machine under a name of its own.

    Such a page may have its name resolve to this machine (DNS rebinding); the browser then sends
    that name as `Host`, and its origin as `Origin`. A name without a port stands for all ports.
    """

    def __init__(
        self, app: ASGIApp, names: Iterable[str] = LOOPBACK, *, open_paths: Collection[str] = ()
    ) -> None:
        self._app = app
        self._known = frozenset(_host_and_port(f"//{name}") for name in names)
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests under a known name, and everything that is no HTTP request."""
        app = self._app
        if scope["type"] in {"http", "websocket"} and scope["path"] not in self._open_paths:
            headers = Headers(scope=scope)
            if not all(self._is_known(f"//{host}") for host in headers.getlist("host") or [""]):
                app = PlainTextResponse("this host name is not served here", 421)
            elif not all(map(self._is_known, headers.getlist("origin"))):
                app = PlainTextResponse("requests of other sites are refused", 403)
        await app(scope, receive, send)

    def _is_known(self, address: str) -> bool:
        host, port = _host_and_port(address)
        return host is not None and not self._known.isdisjoint({(host, None), (host, port)})


@lru_cache(1000)  # a client sends the same ones with every request
def _host_and_port(address: str) -> tuple[str | None, int | None]:
    """Read an address that consists of a host and maybe a port; any other has no host."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:  # also for a port such as `1.evil.example`
        return None, None
    has_more = "@" in parts.netloc or parts.path or parts.query or parts.fragment
    return (None, None) if has_more else (host, port)


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
