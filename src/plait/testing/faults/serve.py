"""Build the fault server from its settings and serve it on its transport."""

from __future__ import annotations

import socket
import sys
from functools import partial
from http import HTTPStatus

import anyio
from mcp.server import MCPServer
from mcp.server.stdio import stdio_server
from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from plait.testing.faults.client_features import add_client_features
from plait.testing.faults.content import add_content
from plait.testing.faults.http_faults import HttpFaults, refusal_headers, status_due
from plait.testing.faults.interference import Interference, serve_streams
from plait.testing.faults.run import Run
from plait.testing.faults.stdio_noise import NoisyStdout
from plait.testing.faults.tools import add_tools
from plait.testing.ports import bind
from plait.testing.serve import (
    MAX_REQUEST_BODY_BYTES,
    ServeStreams,
    exit_when_stdin_closes,
    http_server,
    lowlevel_server,
    serve_websocket,
    sse_app,
)


def build_server(run: Run) -> MCPServer:
    """Make the server with all its tools; also for in-process clients."""
    server = MCPServer(
        "fault server",
        version="1.0.0",
        instructions="Ask for the failure you want to see.",
        log_level="CRITICAL",
        middleware=[Interference(run)],
    )
    add_tools(server, run)
    add_content(server)
    add_client_features(server, lowlevel_server(server), run)
    return server


def serve(run: Run) -> None:
    """Serve on the transport of the settings until the process ends."""
    settings = run.settings
    server = build_server(run)
    serve_one = partial(serve_streams, lowlevel_server(server), run)
    if settings.transport == "stdio":
        anyio.run(_serve_stdio, serve_one, run)
        return
    if settings.until_stdin_closes:
        exit_when_stdin_closes()
    with bind(settings.host, settings.port) as listener:
        if settings.transport == "websocket":
            anyio.run(_serve_websocket, serve_one, run, listener)
        else:
            anyio.run(_serve_http, server, serve_one, run, listener)


async def _serve_stdio(serve_one: ServeStreams, run: Run) -> None:
    stdout = NoisyStdout(sys.stdout.buffer, run.settings.noise, run.wrote)
    async with stdio_server(stdout=anyio.wrap_file(stdout)) as (read, write):
        await serve_one(read, write)


async def _serve_http(
    server: MCPServer, serve_one: ServeStreams, run: Run, listener: socket.socket
) -> None:
    settings = run.settings
    if settings.transport == "sse":
        app, path = sse_app(serve_one, settings.host), "/sse"
    else:
        path = "/mcp"
        app = server.streamable_http_app(
            host=settings.host,
            json_response=settings.json_response,
            stateless_http=settings.stateless,
            max_request_body_size=MAX_REQUEST_BODY_BYTES,
        )
    faults = HttpFaults(app, run)
    http = http_server(faults, listener, path)
    faults.cut = http.cut
    run.cut = http.cut
    await http.serve([listener])


async def _serve_websocket(serve_one: ServeStreams, run: Run, listener: socket.socket) -> None:
    def check_request(connection: ServerConnection, _: Request) -> Response | None:
        if not status_due(run, "initialize"):
            return None
        status = run.settings.status_code or HTTPStatus.INTERNAL_SERVER_ERROR
        response = connection.respond(HTTPStatus(status), run.settings.http_body)
        for name, value in refusal_headers(run).items():
            response.headers[name] = value
        return response

    def ready(server: WebSocketServer) -> None:
        def cut() -> None:
            for connection in list(server.connections):
                connection.transport.abort()

        run.cut = cut

    await serve_websocket(
        serve_one, listener, check_request=check_request, on_written=run.wrote, on_ready=ready
    )
