"""What is measured: scenarios, the rows they fill, and the servers they need."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

SERVER = Path(__file__).with_name("server.py")

Unit = Literal["s", "bytes"]
Era = Literal["handshake", "modern"]


@dataclass(frozen=True)
class Row:
    """One line of the table; less is better in every one."""

    id: str
    title: str
    group: str
    unit: Unit = "s"


@dataclass(frozen=True)
class Location:
    """Where the servers of a run are."""

    port: int
    """Of the HTTP and WebSocket server."""
    core: int | None
    """The core of the servers, or `None` where processes cannot be pinned."""

    def stdio(self, era: Era = "handshake", number: int | None = None) -> dict[str, Any]:
        """Describe a stdio server, which the client starts."""
        suffix = "" if number is None else str(number)
        args = ["-ES", str(SERVER), "stdio", "--era", era, "--suffix", suffix]
        if self.core is not None:
            args += ["--core", str(self.core)]
        return {
            "name": f"server{suffix}",
            "transport": "stdio",
            "era": era,
            "command": sys.executable,
            "args": args,
        }

    def http(self, era: Era = "handshake", tools: int = 0) -> dict[str, Any]:
        """Describe a server at a URL."""
        url = f"http://127.0.0.1:{self.port}/{era}/{tools}"
        return {"name": "server", "transport": "HTTP", "era": era, "url": url}

    def websocket(self) -> dict[str, Any]:
        """Describe a server on a WebSocket."""
        url = f"ws://127.0.0.1:{self.port}/handshake/0"
        return {"name": "server", "transport": "WebSocket", "era": "handshake", "url": url}


ServerKind = Literal["stdio", "stdio modern", "HTTP", "HTTP modern", "WebSocket"]


@dataclass(frozen=True)
class Scenario:
    """One measurement; `request` is what the worker reads."""

    rows: tuple[Row, ...]
    request: Mapping[str, Any]
    server: ServerKind = "stdio"
    is_fresh: bool = False
    """Each visit starts a worker of its own."""
    is_from_start: bool = False
    """The sample is the time from the start of the worker to its reply."""
    includes_imports: bool = False
    """The first visit, in which Python writes its bytecode, is not measured."""
    rounds: int = 7
    quick_rounds: int = 0
    """Rounds in a quick run; 0 leaves the scenario out."""
    timeout_seconds: float = 60
    stdio_servers: int | None = None
    """How many stdio servers, each with names of its own."""
    catalogue_tools: int | None = None
    """How many tools the second HTTP server has."""

    def servers(self, location: Location) -> list[dict[str, Any]]:
        """Return the servers of the request."""
        if self.stdio_servers is not None:
            return [location.stdio(number=number) for number in range(self.stdio_servers)]
        if self.catalogue_tools is not None:
            return [location.http(), location.http(tools=self.catalogue_tools)]
        match self.server:
            case "stdio":
                return [location.stdio()]
            case "stdio modern":
                return [location.stdio("modern")]
            case "HTTP":
                return [location.http()]
            case "HTTP modern":
                return [location.http("modern")]
            case "WebSocket":
                return [location.websocket()]


ECHO: dict[str, Any] = {"tool": "echo", "arguments": {"text": "hello"}}
KILO, MEGA = 1024, 1024 * 1024

WARM = "One warm call"
AT_ONCE = "64 calls at once, time per call"
PAYLOAD = "Result over stdio"
CATALOGUE = "Many tools"
START = "Start"


def _warm(
    row: str, title: str, *, run: str = "call", server: ServerKind = "stdio", quick: int = 0
) -> Scenario:
    request = {"run": run, "row": row, "n": 1000, "seconds": 1.0, **ECHO}
    return Scenario((Row(row, title, WARM),), request, server=server, quick_rounds=quick)


def _at_once(row: str, title: str, server: ServerKind, count: int) -> Scenario:
    request = {"run": "throughput", "row": row, "n": count, "at_once": 64, "seconds": 1.0, **ECHO}
    return Scenario((Row(row, title, AT_ONCE),), request, server=server, quick_rounds=2)


def _payload(row: str, title: str, size: int, kind: str = "ascii", quick: int = 0) -> Scenario:
    request = {
        "run": "call",
        "row": row,
        "n": max(1, min(200, 20 * MEGA // size)),
        "seconds": 1.0,
        "tool": "payload",
        "arguments": {"size": size, "kind": kind},
    }
    return Scenario(
        (Row(row, title, PAYLOAD),),
        request,
        rounds=3 if size > MEGA else 5,
        quick_rounds=quick,
        timeout_seconds=120,
    )


def _cold(row: str, title: str, count: int | None) -> Scenario:
    """Start a process, `count` stdio servers or the HTTP server, and make a call."""
    suffix = "" if count is None else str(count - 1)
    request = {"run": "cold", "row": row, "suffix": suffix}
    return Scenario(
        (Row(row, title, START),),
        request,
        is_fresh=True,
        is_from_start=True,
        includes_imports=True,
        rounds=5,
        server="HTTP" if count is None else "stdio",
        stdio_servers=count,
    )


def _catalogue(count: int, quick: int = 0) -> Scenario:
    shown = f"{count:,}"
    rows = (
        Row(f"tools-{count}", f"{shown} tools listed and made LangChain tools", CATALOGUE),
        Row(f"bind-{count}", f"{shown} tools bound the first time", CATALOGUE),
        Row(f"memory-{count}", f"{shown} tools, memory", CATALOGUE, unit="bytes"),
    )
    return Scenario(
        rows,
        {"run": "tools", "count": count},
        is_fresh=True,
        rounds=3,
        quick_rounds=quick,
        timeout_seconds=240,
        catalogue_tools=count,
    )


SCENARIOS: tuple[Scenario, ...] = (
    _warm("stdio", "stdio", quick=3),
    _warm("stdio-modern", "stdio, 2026-07-28", server="stdio modern"),
    _warm("http", "HTTP", server="HTTP", quick=3),
    _warm("http-modern", "HTTP, 2026-07-28", server="HTTP modern", quick=2),
    _warm("websocket", "WebSocket", server="WebSocket"),
    _warm("blocking", "stdio, blocking `invoke`", run="blocking", quick=2),
    _warm("listener", "stdio, with a callback handler", run="listener"),
    _warm("graph", "stdio, ToolNode in a graph with checkpointer", run="graph"),
    _at_once("at-once-stdio", "stdio", "stdio", 2048),
    _at_once("at-once-http", "HTTP", "HTTP", 512),
    _payload("payload-1k", "1 KB", KILO),
    _payload("payload-16k", "16 KB", 16 * KILO),
    _payload("payload-256k", "256 KB", 256 * KILO, quick=2),
    _payload("payload-256k-unicode", "256 K characters, not ASCII", 256 * KILO, "unicode"),
    _payload("payload-2m", "2 MB", 2 * MEGA),
    _payload("payload-20m", "20 MB", 20 * MEGA),
    _catalogue(100),
    _catalogue(1000, quick=1),
    _catalogue(5000),
    Scenario(
        (Row("import", "import", START),),
        {"run": "import"},
        is_fresh=True,
        includes_imports=True,
        rounds=5,
    ),
    _cold("cold-1", "process start to first result, 1 server", 1),
    _cold("cold-http", "process start to first result, 1 server over HTTP", None),
    _cold("cold-8", "process start to first result, 8 servers", 8),
    Scenario(
        (Row("heal", "call right after the server was killed", START),),
        {"run": "heal"},
        rounds=5,
        quick_rounds=1,
        timeout_seconds=45,
    ),
)

ROWS: tuple[Row, ...] = tuple(row for scenario in SCENARIOS for row in scenario.rows)
