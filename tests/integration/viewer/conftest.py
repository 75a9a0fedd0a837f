"""The viewer, signed in, over HTTP without sockets."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx

from plait.viewer.app import ViewerOptions, guarded_app

HEADERS = {"X-Plait-View": "1"}


@asynccontextmanager
async def viewing(options: ViewerOptions) -> AsyncGenerator[httpx.AsyncClient]:
    """Serve the pages, with what they need, and sign in."""
    app = guarded_app(options, port=7411)
    async with AsyncExitStack() as stack:
        if options.sessions is not None:
            await options.sessions.open()
            stack.push_async_callback(options.sessions.aclose)
        if options.servers is not None:
            await stack.enter_async_context(options.servers.running())
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:7411", headers=HEADERS
        )
        async with client:
            signed = await client.post("/sign-in", content=app.token)
            assert signed.status_code == 204
            yield client
