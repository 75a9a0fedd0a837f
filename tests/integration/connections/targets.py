"""Every way to reach a server, with a way to kill it and bring it back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from plait import Toolbox
from plait.testing import ServerProcess, StateDir
from tests.nursery import fault_server, send_signal, stdio_config
from tests.servers import everything_server, everything_stdio_config, legacy_server

Json = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """A server under test."""

    config: Json
    restart: Callable[[Toolbox], None]
    """Kill the server with -9; bring it back if nobody else will."""
    sessions: Callable[[], int] | None = None
    """How many sessions the server has seen, where it can tell."""
    tool: str = "add"
    arguments: tuple[tuple[str, Any], ...] = (("a", 2), ("b", 3))
    answer: str = "5"


@contextmanager
def _port_target(server: ServerProcess, kind: str | None = None, **extra: Any) -> Generator[Target]:
    with server:
        tool = extra.pop("target", {})
        yield Target(
            config={"url": server.url, **extra},
            restart=lambda _: _restarted(server),
            sessions=None if kind is None else lambda: len(server.state.sessions(kind)),
            **tool,
        )


def _restarted(server: ServerProcess) -> None:
    server.restart()


def _pid(box: Toolbox) -> int:
    pid = box.status()["server"].pid
    assert pid is not None
    return pid


@contextmanager
def _stdio_target(**options: Any) -> Generator[Target]:
    with TemporaryDirectory() as folder:
        state = StateDir(folder)
        yield Target(
            config=stdio_config(state_dir=folder, **options),
            restart=lambda box: send_signal(_pid(box), signal.SIGKILL),
            sessions=lambda: len(state.starts()),
        )


@contextmanager
def _everything_stdio() -> Generator[Target]:
    yield Target(
        config=everything_stdio_config(),
        restart=lambda box: os.kill(_pid(box), signal.SIGKILL),
        **EVERYTHING,
    )


EVERYTHING: Json = {
    "tool": "get-sum",
    "arguments": (("a", 2), ("b", 3)),
    "answer": "The sum of 2 and 3 is 5.",
}

TARGETS: dict[str, Callable[[], Any]] = {
    "stdio modern": lambda: _stdio_target(modern_only=True),
    "stdio legacy": lambda: _stdio_target(legacy_only=True),
    "stdio node": _everything_stdio,
    "http modern": lambda: _port_target(fault_server("http")),
    "http legacy": lambda: _port_target(fault_server("http", legacy_only=True), "initialize"),
    "http mcp 1.x": lambda: _port_target(legacy_server("http"), "initialize"),
    "http node": lambda: _port_target(everything_server("http"), target=EVERYTHING),
    "sse modern": lambda: _port_target(fault_server("sse"), "connect", transport="sse"),
    "sse legacy": lambda: _port_target(
        fault_server("sse", legacy_only=True), "initialize", transport="sse"
    ),
    "sse mcp 1.x": lambda: _port_target(legacy_server("sse"), "initialize", transport="sse"),
    "sse node": lambda: _port_target(everything_server("sse"), transport="sse", target=EVERYTHING),
    "websocket modern": lambda: _port_target(fault_server("websocket"), "connect"),
    "websocket legacy": lambda: _port_target(
        fault_server("websocket", legacy_only=True), "initialize"
    ),
}


def state_of(folder: Path) -> StateDir:
    """Return the state a fault server left in a folder."""
    return StateDir(folder)
