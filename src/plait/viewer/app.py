"""The web application: all pages behind the guard, and what they need while they are served."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from plait._support.http_servers import LOOPBACK, listen
from plait.html.elements import h
from plait.html.page import SCRIPT, STYLE, asset, page
from plait.reasoning.html import SCRIPT as THINKING_SCRIPT
from plait.reasoning.html import STYLE as THINKING_STYLE
from plait.reasoning.storage.port import Storage
from plait.viewer.connected import ConnectedServers
from plait.viewer.guard import Guard
from plait.viewer.inbox import Inbox
from plait.viewer.library import TraceLibrary
from plait.viewer.pages import SITE, VIEWER_SCRIPT, VIEWER_STYLE, hint, not_found
from plait.viewer.sections import ReportPages, ReportRenderer, RunPages, ThinkingPages
from plait.viewer.servers import ServerPages
from plait.viewer.serving import ServingPages, traces_of_clients

_ASSETS = {STYLE, SCRIPT, THINKING_STYLE, THINKING_SCRIPT, VIEWER_STYLE, VIEWER_SCRIPT}
_GRACE_SECONDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerOptions:
    """What the viewer shows, and where it is served."""

    paths: Sequence[Path] = (Path(),)
    """Trace files, and folders with traces and reports."""
    sessions: Storage | None = None
    """The reasoning sessions; they are opened while the viewer is served."""
    database: str = ""
    """The name of the database of the sessions."""
    servers: ConnectedServers | None = None
    reports: ReportRenderer | None = None
    host: str = "127.0.0.1"
    port: int = 0
    home: str = "/runs"
    """The page behind the printed address."""
    names: Sequence[str] = field(default=())
    """Further names under which the viewer is reached."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """A viewer that listens; `serve` answers requests."""

    app: Guard
    listener: socket.socket
    end_requests: Callable[[], None]
    """Ends the requests that wait for a server or a person."""

    @property
    def address(self) -> str:
        """The address without a token."""
        host, port = self.listener.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    def address_with(self, token: str) -> str:
        """Return an address that signs a browser in; the fragment is never sent to a server."""
        return f"{self.address}#token={token}"

    async def serve(self) -> None:
        """Answer requests until a signal arrives."""
        config = uvicorn.Config(
            self.app,
            http="h11",  # keeps at most 64 KiB of a head, and parses one request at a time
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        with self.listener:
            await _Server(config, self.end_requests).serve(sockets=[self.listener])


class _Server(uvicorn.Server):
    """Ends requests that wait before it shuts down: they could wait for ten minutes."""

    def __init__(self, config: uvicorn.Config, end_requests: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_requests = end_requests

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what waits, then answer and close."""
        self._end_requests()
        await super().shutdown(sockets)


def open_viewer(options: ViewerOptions) -> Viewer:
    """Bind the address, so that it is known before requests are served.

    Raises:
        OSError: The address cannot be bound.
    """
    listener = listen(options.host, options.port)
    port = listener.getsockname()[1]
    end = (lambda: None) if options.servers is None else options.servers.end_requests
    return Viewer(guarded_app(options, port=port), listener, end)


def guarded_app(options: ViewerOptions, *, port: int) -> Guard:
    """Return the application; requests reach it as one of its names and this port."""
    host = f"[{options.host}]" if ":" in options.host else options.host
    return Guard(_app(options), hosts={*LOOPBACK, host, *options.names}, port=port)


def _app(options: ViewerOptions) -> Starlette:
    store, servers = options.sessions, options.servers
    library = TraceLibrary(options.paths, traces_of_clients)

    def home(_request: Request) -> Response:
        return RedirectResponse(options.home, 302)

    def unknown(_request: Request, _error: Exception) -> Response:
        return not_found("such page")

    def serve_asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _ASSETS:
            return PlainTextResponse("Not found.", 404)
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        return Response(asset(name), media_type=kind)

    routes: list[BaseRoute] = [
        Route("/", home),
        Route("/assets/{name}", serve_asset),
        *RunPages(library, options.reports).routes(),
        *ServingPages().routes(),
    ]
    if options.reports is not None:
        routes += ReportPages(options.paths, options.reports).routes()
    inbox = Inbox() if servers is None else servers.inbox
    routes += inbox.routes()
    if servers is not None:
        routes += ServerPages(servers, library).routes()
    if store is not None:
        routes += ThinkingPages(store, options.database).routes()
    # A section that has nothing to show says how to see something there.
    routes += [Route(f"/{title.lower()}", partial(_empty_section, title)) for title in _EMPTY]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            if store is not None:
                stack.push_async_callback(store.aclose)
                await store.open()
            if servers is not None:
                await stack.enter_async_context(servers.running())
            await stack.enter_async_context(inbox.listening())
            yield

    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: unknown})


_EMPTY = {
    "Servers": (
        "Start the viewer with a configuration to see its servers:",
        "plait view --config mcp.json --allow-calls",
    ),
    "Thinking": (
        "There is no database of reasoning sessions yet:",
        "plait view --db reasoning.db",
    ),
    "Reports": ("Make a report:", "plait verify suite.yaml"),
}
"""What a section says that has nothing to show, and a command that changes it."""


def _empty_section(title: str, _request: Request) -> Response:
    return HTMLResponse(page(title, h("h1", title), hint(*_EMPTY[title]), site=SITE))
