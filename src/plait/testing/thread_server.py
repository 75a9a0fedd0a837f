"""Serving a web application from a thread of the test."""

from __future__ import annotations

import socket
import threading
from typing import Any

import uvicorn
from starlette.types import ASGIApp

_START_SECONDS = 30.0


class ThreadServer(uvicorn.Server):
    """A uvicorn server in a thread of its own, which can cut the connection of a client."""

    def __init__(self, app: ASGIApp, *, name: str, **options: Any) -> None:
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
        self._name = name
        self._listening = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, listener: socket.socket) -> None:
        """Serve on a bound socket; returns when clients may come.

        Raises:
            TimeoutError: It does not come up.
        """
        self._thread = threading.Thread(
            target=self.run, kwargs={"sockets": [listener]}, name=self._name, daemon=True
        )
        self._thread.start()
        if not self._listening.wait(_START_SECONDS):
            raise TimeoutError(f"{self._name} did not start")

    def stop(self) -> None:
        """Stop serving, and wait for it."""
        self.should_exit = True
        if self._thread is not None:
            self._thread.join(_START_SECONDS)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Come up, and say so."""
        await super().startup(sockets)
        self._listening.set()

    def cut(self, client: tuple[str, int]) -> None:
        """Break the connection of a client, as a network does."""
        for connection in list(self.server_state.connections):
            if connection.transport.get_extra_info("peername") == tuple(client):
                connection.transport.abort()
