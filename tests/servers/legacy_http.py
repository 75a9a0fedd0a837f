"""A server written for MCP SDK 1.x, run by the Python of `.legacy/venv`.

`legacy_http.py [--transport http|sse|stdio] [--port N] [--state-dir DIR] [--sessions-log FILE]`;
over HTTP its sessions are stateful. Nothing of this repository can be imported there.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false
# The SDK of the checked environment is 2.x.
from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from pathlib import Path

import uvicorn
from mcp import types
from mcp.server.fastmcp import FastMCP
from mcp.server.session import ServerSession
from mcp.types import ToolAnnotations


def append_line(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())


def log_every_initialize(path: Path) -> None:
    """Write a line for each handshake; the SDK has no hook for it."""
    original = ServerSession._received_request

    async def logged(self, responder) -> None:
        if isinstance(responder.request.root, types.InitializeRequest):
            append_line(path, f"initialize {os.getpid()}")
        await original(self, responder)

    ServerSession._received_request = logged


def build_server(state_dir: Path) -> FastMCP:
    server = FastMCP("legacy server", log_level="ERROR")
    calls = 0

    @server.tool()
    def counter() -> str:
        """Count the calls of this tool in this process: 1, 2, 3 and so on."""
        nonlocal calls
        calls += 1
        return str(calls)

    @server.tool(annotations=ToolAnnotations(destructiveHint=True, idempotentHint=False))
    def pay(amount: int) -> str:
        """Write the amount to the ledger, durably, and say so."""
        append_line(state_dir / "ledger", str(amount))
        return f"paid {amount}"

    @server.tool(annotations=ToolAnnotations(readOnlyHint=True))
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @server.tool(annotations=ToolAnnotations(readOnlyHint=True))
    def pid() -> str:
        """Return the process id of the server."""
        return str(os.getpid())

    @server.tool(annotations=ToolAnnotations(readOnlyHint=True))
    async def slow(seconds: float) -> str:
        """Wait so many seconds, then answer."""
        await asyncio.sleep(seconds)
        return f"slept {seconds:g} s"

    return server


class AnnouncingServer(uvicorn.Server):
    """Says on stderr when clients may connect."""

    url = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(f"listening on {self.url}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transport", choices=["http", "sse", "stdio"], default="http")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--sessions-log", type=Path)
    arguments = parser.parse_args()
    arguments.state_dir.mkdir(parents=True, exist_ok=True)
    append_line(arguments.state_dir / "starts", str(os.getpid()))
    log_every_initialize(arguments.sessions_log or arguments.state_dir / "sessions")
    server = build_server(arguments.state_dir)
    if arguments.transport == "stdio":
        server.run("stdio")
        return
    over_sse = arguments.transport == "sse"
    app = server.sse_app() if over_sse else server.streamable_http_app()
    with socket.create_server(("127.0.0.1", arguments.port)) as listener:
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
        runner = AnnouncingServer(config)
        path = "/sse" if over_sse else "/mcp"
        runner.url = f"http://127.0.0.1:{listener.getsockname()[1]}{path}"
        asyncio.run(runner.serve(sockets=[listener]))


if __name__ == "__main__":
    main()
