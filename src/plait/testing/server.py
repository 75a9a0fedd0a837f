"""A small, well-behaved MCP server to try a client against: `python -m plait.testing.server`.

It offers `get_current_time`, `get_timestamp` and `add_numbers`, on every transport and in both
protocol eras.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from plait.testing.clock import FUNCTIONS, NAME, VERSION, serve_stdio

if TYPE_CHECKING:
    from mcp.server import MCPServer


def build_server() -> MCPServer:
    """Make the server, ready to be run or handed to an in-process client."""
    from mcp.server import MCPServer  # noqa: PLC0415  # slow to import, and an extra
    from mcp.types import ToolAnnotations  # noqa: PLC0415

    server = MCPServer(NAME, version=VERSION, log_level="WARNING")
    read_only = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    for function in FUNCTIONS.values():
        server.tool(annotations=read_only)(function)
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
        from plait.testing.serve import exit_when_stdin_closes  # noqa: PLC0415  # as above

        exit_when_stdin_closes()
    try:
        serve(arguments.transport, arguments.host, arguments.port)
    except OSError as error:
        parser.exit(1, f"cannot listen on {arguments.host}:{arguments.port}: {error.strerror}\n")


def serve(transport: str, host: str = "127.0.0.1", port: int = 5000) -> None:
    """Serve on one transport until the process is stopped."""
    if transport == "stdio":
        serve_stdio()
        return
    import anyio  # noqa: PLC0415  # as above

    from plait.testing.ports import bind  # noqa: PLC0415
    from plait.testing.serve import (  # noqa: PLC0415
        http_app,
        http_server,
        serve_websocket,
        serve_with,
    )

    server = build_server()
    with bind(host, port) as listener:
        if transport == "websocket":
            anyio.run(serve_websocket, serve_with(server), listener)
            return
        app, path = http_app(server, serve_with(server), transport, host)
        anyio.run(http_server(app, listener, path).serve, [listener])


if __name__ == "__main__":
    main()
