"""Serves clients over Streamable HTTP, without MCP sessions, so that any replica may answer."""

from __future__ import annotations

import hmac
import re
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from sqlalchemy import text
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from plait._support.connection_limits import ConnectionLimits, protocol_with
from plait._support.http_servers import LOOPBACK, KnownHostsOnly
from plait._version import __version__
from plait.errors import ConfigError
from plait.models.endpoints import is_loopback
from plait.reasoning.serving.mcp_server import build_server
from plait.reasoning.serving.service import Service, open_sibling

PATH = "/mcp"
HEALTH = "/health"
MAX_BODY_BYTES = 4 * 1024 * 1024
"""The longest text that a tool takes has 100,000 characters."""
MAX_GRACE_SECONDS = 5
"""How long running requests may take after a signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """The address to listen on, and the requests to accept."""

    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = field(default=None, repr=False)
    """The bearer token that every request must have."""
    tokens: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The bearer tokens of callers, by name; each caller has sessions of its own."""
    allowed_hosts: Sequence[str] = ()
    """Host names of the server, if it is reached from other machines."""
    max_body_bytes: int = MAX_BODY_BYTES
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)


def tokens_from_text(text: str) -> dict[str, str]:
    """Read `NAME=TOKEN`, several of them with commas or spaces between.

    Raises:
        ConfigError: It is something else; the text quotes no token.
    """
    tokens: dict[str, str] = {}
    for entry in re.split(r"[,\s]+", text.strip()):
        name, _, token = entry.partition("=")
        if not re.fullmatch(r"[a-z0-9_-]{1,32}", name) or not token:
            raise ConfigError(
                "PLAIT_REASONING_TOKENS is NAME=TOKEN, with commas between; a name has small "
                "letters, digits, - and _"
            )
        if name in tokens or token in tokens.values():
            raise ConfigError(f"PLAIT_REASONING_TOKENS has the name or the token of {name} twice")
        tokens[name] = token
    return tokens


def http_options_from_text(
    address: str,
    *,
    token: str | None = None,
    tokens: Mapping[str, str] | None = None,
    allowed_hosts: Sequence[str] = (),
) -> HttpOptions:
    """Read `HOST:PORT`, `:PORT` or `PORT`.

    Raises:
        ConfigError: It is none of these, or is open to the network without a token.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise ConfigError(f"{address!r} is no address to listen on: write HOST:PORT")
    if not is_loopback(f"//{_in_url(host)}"):
        if token is None and not tokens:
            raise ConfigError(
                f"{host} can be reached by others: set PLAIT_REASONING_TOKEN, the bearer token "
                "that clients must send"
            )
        if not allowed_hosts:
            raise ConfigError(
                f"{host} can be reached by others: say with --allowed-host under which names"
            )
    return HttpOptions(
        host=host, port=int(port), token=token, tokens=tokens or {}, allowed_hosts=allowed_hosts
    )


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def build_app(
    service: Service, options: HttpOptions, callers: Mapping[str, Service] | None = None
) -> ASGIApp:
    """Return the ASGI application: the MCP endpoint and a health check.

    `callers` has a service for each name in `options.tokens`; see `open_sibling`.
    """
    default = _app_for(service, options)
    services = callers or {}
    apps = {token: _app_for(services[name], options) for name, token in options.tokens.items()}
    if options.token:
        apps[options.token] = default
    app = _ByToken(default, apps) if apps else default
    # Probes of health come under any name, often the address of a container.
    return KnownHostsOnly(app, (*LOOPBACK, *options.allowed_hosts), open_paths=(HEALTH,))


def _app_for(service: Service, options: HttpOptions) -> Starlette:
    async def health(_request: Request) -> Response:
        try:
            async with service.store.engine.connect() as connection:
                await connection.execute(text("SELECT 1"))
        except Exception as error:  # noqa: BLE001 - boundary: any failure means unhealthy
            return JSONResponse({"status": "down", "error": type(error).__name__}, 503)
        return JSONResponse(
            {"status": "ok", "version": __version__, "backend": service.choice.backend}
        )

    return build_server(service).streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        max_request_body_size=options.max_body_bytes,
        # Its check takes `127.0.0.1:1.evil.example` for a port of this machine; ours is around it.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        host=options.host,
        custom_starlette_routes=[Route(HEALTH, health)],
    )


class _ByToken:
    """Passes a request to the application of its token; health checks need none."""

    def __init__(self, default: Starlette, apps: Mapping[str, Starlette]) -> None:
        self._default = default
        self._apps = [(f"Bearer {token}".encode(), app) for token, app in apps.items()]
        self._all = Starlette(lifespan=self._running)

    @asynccontextmanager
    async def _running(self, _app: object) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for app in {self._default, *(app for _, app in self._apps)}:
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._all(scope, receive, send)
            return
        header = dict(scope["headers"]).get(b"authorization", b"")
        # Compared with every token, so that the time says nothing about them.
        found = [app for expected, app in self._apps if hmac.compare_digest(header, expected)]
        app: ASGIApp = JSONResponse({"error": "unauthorized"}, 401, {"WWW-Authenticate": "Bearer"})
        if found:
            app = found[0]
        elif scope["path"] == HEALTH:
            app = self._default
        await app(scope, receive, send)


def listener_for(options: HttpOptions) -> socket.socket:
    """Bind the address, so that it is known before the server starts.

    Raises:
        ConfigError: It cannot be bound.
    """
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        return socket.create_server((options.host, options.port), family=family, backlog=2048)
    except OSError as error:
        address = f"{options.host}:{options.port}"
        raise ConfigError(f"cannot listen on {address}: {error.strerror}") from error


def mcp_url(listener: socket.socket) -> str:
    """Return the URL of the MCP endpoint."""
    host, port = listener.getsockname()[:2]
    return f"http://{_in_url(host)}:{port}{PATH}"


async def serve_http(service: Service, options: HttpOptions, listener: socket.socket) -> None:
    """Serve until a signal arrives; running requests get a few seconds to finish."""
    async with AsyncExitStack() as stack:
        callers: dict[str, Service] = {}
        for name in options.tokens:
            sibling = open_sibling(service, service.database.for_caller(name))
            callers[name] = await stack.enter_async_context(sibling)
        for one in (service, *callers.values()):
            await stack.enter_async_context(one.changes.watching())
        config = uvicorn.Config(
            build_app(service, options, callers),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=MAX_GRACE_SECONDS,
            http=protocol_with(options.limits),
            ws="none",
            # uvicorn declares whole seconds, and passes any number on to the loop.
            timeout_keep_alive=options.limits.idle_seconds,  # pyright: ignore[reportArgumentType]
        )
        await uvicorn.Server(config).serve(sockets=[listener])
