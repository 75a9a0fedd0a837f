"""Runs the mock gateway in a thread, or in the foreground."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from plait._support.local_server import LocalServer, listen
from plait.errors import ConfigError
from plait.gateway.mock.app import MockState, build_app
from plait.gateway.mock.faults import Fault, Faults
from plait.gateway.mock.records import Record
from plait.gateway.mock.servers import MockServers, read_mocks


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
        listener = self._listen()
        self._server = LocalServer(build_app(self._mock), lifespan="on")
        self._server.start(listener, name="the mock gateway")
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.stop()

    def serve(self, on_ready: Callable[[str], None]) -> None:
        """Serve until a signal ends it; `on_ready` gets the URL."""
        listener = self._listen()
        app, url = build_app(self._mock), self.url
        LocalServer(app, on_ready=lambda: on_ready(url), lifespan="on").run([listener])

    def _listen(self) -> socket.socket:
        try:
            listener = listen(port=self._port)
        except OSError as error:
            reason = error.strerror
            raise ConfigError(f"port {self._port} cannot be listened on: {reason}") from error
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        return listener
