"""HTTP servers of the tests: uvicorn in this process or in a thread, with connections to cut."""

from __future__ import annotations

import socket
import sys
import threading
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive

_START_SECONDS = 30.0


def url_of(listener: socket.socket, scheme: str, path: str) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{path}"


def announce(url: str) -> None:
    """Print to stderr that clients may connect."""
    print(f"listening on {url}", file=sys.stderr, flush=True)  # noqa: T201


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


class _CuttableServer(uvicorn.Server):
    def __init__(self, app: ASGIApp, **options: Any) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                log_level="critical",
                access_log=False,
                timeout_graceful_shutdown=0,
                **options,
            )
        )

    def cut(self, client: tuple[str, int] | None = None) -> None:
        """Abort the TCP connection of one client address, or of all."""
        for connection in list(self.server_state.connections):
            transport = connection.transport
            if client is None or transport.get_extra_info("peername") == tuple(client):
                transport.abort()


class HttpServer(_CuttableServer):
    """A server in this process that announces its URL."""

    def __init__(self, app: ASGIApp, listener: socket.socket, url: str) -> None:
        super().__init__(app, lifespan="on")
        self._listener = listener
        self._url = url

    async def run_until_stopped(self) -> None:
        """Serve until a signal ends the process."""
        await self.serve(sockets=[self._listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then announce the URL."""
        await super().startup(sockets)
        announce(self._url)


class ThreadServer(_CuttableServer):
    """A server in a thread of its own."""

    def __init__(self, app: ASGIApp, *, name: str, **options: Any) -> None:
        super().__init__(app, **options)
        self._name = name
        self._listening = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, listener: socket.socket) -> None:
        """Serve on a bound socket; returns when clients may connect.

        Raises:
            TimeoutError: The server does not start in time.
        """
        self._thread = threading.Thread(
            target=self.run, kwargs={"sockets": [listener]}, name=self._name, daemon=True
        )
        self._thread.start()
        if not self._listening.wait(_START_SECONDS):
            raise TimeoutError(f"{self._name} did not start")

    def stop(self) -> None:
        """Stop serving, and wait until the thread has ended."""
        self.should_exit = True
        if self._thread is not None:
            self._thread.join(_START_SECONDS)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then let `start` return."""
        await super().startup(sockets)
        self._listening.set()
