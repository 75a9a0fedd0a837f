"""A small, well-behaved MCP server to try a client against: `python -m plait.testing.server`.

It offers `get_current_time`, `get_timestamp` and `add_numbers`, on every transport and in both
protocol eras.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime

import anyio
from mcp.server import MCPServer
from mcp.types import ToolAnnotations

from plait.testing.ports import bind
from plait.testing.serve import (
    exit_when_stdin_closes,
    http_app,
    http_server,
    serve_websocket,
    serve_with,
)

_READ_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)


def build_server() -> MCPServer:
    """Make the server, ready to be run or handed to an in-process client."""
    server = MCPServer("Test MCP Server", version="1.0.0", log_level="WARNING")

    @server.tool(annotations=_READ_ONLY)
    def get_current_time(timezone: str = "UTC") -> str:
        """Return the current time as ISO 8601 in UTC, with the requested timezone beside it."""
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        return now if timezone == "UTC" else f"{now} (requested: {timezone})"

    @server.tool(annotations=_READ_ONLY)
    def get_timestamp() -> int:
        """Return the current Unix time in whole seconds."""
        return int(datetime.now(UTC).timestamp())

    @server.tool(annotations=_READ_ONLY)
    def add_numbers(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    return server


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line and serve until stopped."""
    parser = argparse.ArgumentParser(prog="python -m plait.testing.server", description=__doc__)
    parser.add_argument("-p", "--port", type=int, default=5000, help="0 picks a free one")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument(
        "--transport", choices=["http", "sse", "websocket", "stdio"], default="http"
    )
    parser.add_argument(
        "--until-stdin-closes", action="store_true", help="end when standard input ends"
    )
    arguments = parser.parse_args(argv)
    if arguments.until_stdin_closes and arguments.transport != "stdio":
        exit_when_stdin_closes()
    try:
        serve(arguments.transport, arguments.host, arguments.port)
    except OSError as error:
        parser.exit(1, f"cannot listen on {arguments.host}:{arguments.port}: {error.strerror}\n")


def serve(transport: str, host: str = "127.0.0.1", port: int = 5000) -> None:
    """Serve on one transport until the process is stopped."""
    server = build_server()
    if transport == "stdio":
        server.run("stdio")
        return
    with bind(host, port) as listener:
        if transport == "websocket":
            anyio.run(serve_websocket, serve_with(server), listener)
            return
        app, path = http_app(server, serve_with(server), transport, host)
        anyio.run(http_server(app, listener, path).serve, [listener])


if __name__ == "__main__":
    main()
