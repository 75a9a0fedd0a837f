"""Serving one client on standard input and output."""

from __future__ import annotations

import os
import signal

import anyio
from mcp.server.stdio import stdio_server

from plait.reasoning.serving.server import build_server
from plait.reasoning.serving.service import Service


async def serve_stdio(service: Service) -> None:
    """Serve until the client closes its end, or a signal ends the process."""
    server = build_server(service, one_client=True)
    async with anyio.create_task_group() as group:
        group.start_soon(_end_on_signal, service)
        async with service.changes.watching(), stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
        group.cancel_scope.cancel()


async def _end_on_signal(service: Service) -> None:
    """Close the store and leave.

    The thread that waits for standard input cannot be woken, so there is no other way out.
    """
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            with anyio.CancelScope(shield=True):
                await service.reasoner.completer.aclose()
                await service.store.aclose()
            os._exit(128 + number)
