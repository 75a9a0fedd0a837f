"""Serving one client on standard input and output."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from plait.reasoning.serving.server import build_server
from plait.reasoning.serving.service import Service


async def serve_stdio(service: Service) -> None:
    """Serve until the client closes its end."""
    server = build_server(service, one_client=True)
    async with service.changes.watching(), stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
