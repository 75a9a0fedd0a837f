"""A reasoning server on HTTP with short limits: port, then database."""

from __future__ import annotations

import asyncio
import sys

from plait.reasoning import (
    ConnectionLimits,
    HttpOptions,
    ScriptedCompleter,
    database_from_text,
    listener_for,
    open_service,
    read_settings,
    serve_http,
)
from plait.reasoning.serving.http_server import mcp_url

LIMITS = ConnectionLimits(
    max_connections=8, header_seconds=0.5, body_seconds=0.5, idle_seconds=0.5, unread_seconds=0.5
)


async def main(port: str, database: str) -> None:
    """Serve until a signal arrives."""
    options = HttpOptions(port=int(port), limits=LIMITS)
    where, completer = database_from_text(database), ScriptedCompleter([])
    async with open_service(read_settings({}), database=where, completer=completer) as service:
        with listener_for(options) as listener:
            print(f"listening on {mcp_url(listener)}", file=sys.stderr, flush=True)
            await serve_http(service, options, listener)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
