"""Every way to reach a server, with a way to kill it and bring it back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack, cast

from plait import Toolbox
from plait.testing import FaultOptions, ServerProcess, StateDir
from plait.testing.faults.fault_options import Transport
from plait.testing.fixtures import StartFaultServer
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


def pid_of(box: Toolbox, server: str = "server") -> int:
    """Return the process of a server that was started."""
    pid = box.status()[server].pid
    assert pid is not None
    return pid


def kill(box: Toolbox) -> None:
    """Kill the program of the server with -9."""
    send_signal(pid_of(box), signal.SIGKILL)


def reach(
    kind: str, start: StartFaultServer, **options: Unpack[FaultOptions]
) -> tuple[Json, ServerProcess | None]:
    """Return how a fault server is reached, such as over "http legacy", and its process."""
    transport, *era = kind.split()
    if transport == "stdio":
        return stdio_config(**options), None
    server = start(cast("Transport", transport), **{**options, "legacy_only": era == ["legacy"]})
    return {"url": server.url} | ({"transport": "sse"} if transport == "sse" else {}), server


@contextmanager
def _stdio_target(**options: Any) -> Generator[Target]:
    with TemporaryDirectory() as folder:
        state = StateDir(folder)
        yield Target(
            config=stdio_config(state_dir=folder, **options),
            restart=kill,
            sessions=lambda: len(state.starts()),
        )


@contextmanager
def _everything_stdio() -> Generator[Target]:
    yield Target(
        config=everything_stdio_config(),
        restart=lambda box: os.kill(pid_of(box), signal.SIGKILL),
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
