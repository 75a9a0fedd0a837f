"""Runs the mock gateway in a thread, or in the foreground."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import uvicorn

from plait.errors import ConfigError
from plait.gateway.mock.app import MockState, build_app
from plait.gateway.mock.faults import Fault, Faults
from plait.gateway.mock.records import Record
from plait.gateway.mock.servers import MockServers, read_mocks

_START_SECONDS = 30.0

DEFAULT_PORT = 5309
"""The port of the mock server in the platform's own tools."""


class MockGateway:
    """A local gateway; entering its context starts it.

    `mocks` is a folder with a file of mock tools for each server.
    """

    def __init__(
        self,
        mocks: str | os.PathLike[str],
        *,
        port: int = 0,
        fail: Iterable[str | Fault] = (),
        details: Mapping[str, Mapping[str, Any]] | None = None,
        require_token: bool = False,
    ) -> None:
        """Take the folder and the faults; `details` are more keys for the entries of servers.

        Raises:
            ConfigError: A fault or a file of mocks is invalid.
        """
        folder = Path(mocks)
        for path in folder.glob("*.json"):
            read_mocks(path)
        self._mock = MockState(
            MockServers(folder), Faults(fail), details=details or {}, require_token=require_token
        )
        self._port = port
        self._started = threading.Event()
        self.url = ""

    @property
    def faults(self) -> Faults:
        """The simulated faults; `faults.set("discovery=500x2")` changes them."""
        return self._mock.faults

    def requests(self, target: str | None = None) -> list[Record]:
        """Return the requests to `discovery`, `history`, or a server; oldest first."""
        return self._mock.records.of(target)

    def clear(self) -> None:
        """Forget all requests."""
        self._mock.records.clear()

    def histories(self) -> list[Any]:
        """Return the bodies of chat history that were accepted."""
        return [each.json for each in self.requests("history") if each.status == 200]

    def add_server(self, name: str, tools: Iterable[Mapping[str, Any]]) -> None:
        """Add a server with mock tools."""
        path = self._mock.servers.folder / f"{name}.json"
        path.write_text(json.dumps([dict(tool) for tool in tools]), "utf-8")

    def __enter__(self) -> Self:
        self._server, listener = self._listen(self._started.set)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="plait gateway mock"
        )
        self._thread.daemon = True
        self._thread.start()
        if not self._started.wait(_START_SECONDS):
            raise TimeoutError("the mock gateway did not start")
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.should_exit = True
        self._thread.join(_START_SECONDS)

    def serve(self, on_ready: Callable[[str], None]) -> None:
        """Serve until a signal ends it; `on_ready` gets the URL."""
        server, listener = self._listen(lambda: on_ready(self.url))
        server.run(sockets=[listener])

    def _listen(self, on_ready: Callable[[], None]) -> tuple[uvicorn.Server, socket.socket]:
        # With the protocol named, asyncio switches Nagle's algorithm off.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", self._port))
        except OSError as error:
            listener.close()
            reason = error.strerror
            raise ConfigError(f"port {self._port} cannot be listened on: {reason}") from error
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            build_app(self._mock),
            http="h11",
            ws="none",
            lifespan="on",
            log_level="critical",
            access_log=False,
            timeout_graceful_shutdown=0,
        )
        return _Announcing(config, on_ready), listener


class _Announcing(uvicorn.Server):
    """Calls `on_ready` when it listens."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()
