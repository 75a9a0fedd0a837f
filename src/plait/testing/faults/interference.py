"""Faults of MCP messages, on every transport."""

from __future__ import annotations

from typing import Any, cast

import anyio
from mcp import MCPError
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.runner import serve_loop
from mcp.types import METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from plait.testing.faults.run import Run

_HANDSHAKES = {"initialize": "initialize", "server/discover": "discover"}

BAD_STRUCTURE = {"city": 7, "degrees": "warm"}
"""The invalid result of `bad_structured`."""


class Interference:
    """Server middleware that delays, refuses, counts and corrupts."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._settings = run.settings

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Handle one message."""
        if ctx.request_id is None:
            return await call_next(ctx)
        if self._settings.hang_handshake:
            await anyio.sleep_forever()
        if self._settings.delay:
            await anyio.sleep(self._settings.delay)
        self._refuse_other_era(ctx)
        result = await call_next(ctx)
        if (kind := _HANDSHAKES.get(ctx.method)) is not None:
            self._run.log_session(kind)
        if ctx.method == "initialize":
            _promise_list_changed(cast("dict[str, Any]", result))
        if ctx.method == "tools/call":
            self._run.count_call()
            if (ctx.params or {}).get("name") == "bad_structured":
                # After the SDK has validated the result.
                cast("dict[str, Any]", result)["structuredContent"] = BAD_STRUCTURE
        return result

    def _refuse_other_era(self, ctx: ServerRequestContext[Any, Any]) -> None:
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if self._settings.modern_only and not modern:
            requested = str((ctx.params or {}).get("protocolVersion", ctx.protocol_version))
            raise MCPError(
                UNSUPPORTED_PROTOCOL_VERSION,
                "this server speaks only the 2026-07-28 protocol",
                {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": requested},
            )
        if self._settings.legacy_only and modern:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)


async def serve_streams(server: Server[Any], run: Run, read: Any, write: Any) -> None:
    """Serve one stdio, SSE or WebSocket connection with the configured faults."""
    run.log_session("connect")
    if run.settings.hang_handshake:
        async with read, write:
            async for _ in read:
                pass
    elif run.settings.legacy_only:
        # The SDK's default loop selects the modern era at `server/discover`.
        async with server.lifespan(server) as lifespan:
            await serve_loop(server, read, write, lifespan_state=lifespan)
    else:
        await server.run(read, write, server.create_initialization_options())


def _promise_list_changed(result: dict[str, Any]) -> None:
    """Advertise `listChanged` in the legacy era; the SDK has no option for it."""
    capabilities: dict[str, Any] = result["capabilities"]
    capabilities["tools"] = {**capabilities.get("tools", {}), "listChanged": True}
