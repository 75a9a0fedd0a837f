"""Serves clients over Streamable HTTP, without MCP sessions, so that any replica may answer."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from sqlalchemy import text
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from plait._version import __version__
from plait.errors import ConfigError
from plait.models.endpoints import is_loopback
from plait.reasoning.serving.server import build_server
from plait.reasoning.serving.service import Service

PATH = "/mcp"
HEALTH = "/health"
MAX_BODY_BYTES = 4 * 1024 * 1024
_GRACE_SECONDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """The address to listen on, and the requests to accept."""

    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = field(default=None, repr=False)
    """The bearer token that every request must have."""
    allowed_hosts: Sequence[str] = ()
    """Host names of the server, if it is reached from other machines."""
    max_body_bytes: int = MAX_BODY_BYTES


def http_options_from_text(
    address: str, *, token: str | None = None, allowed_hosts: Sequence[str] = ()
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
        if token is None:
            raise ConfigError(
                f"{host} can be reached by others: set PLAIT_REASONING_TOKEN, the bearer token "
                "that clients must send"
            )
        if not allowed_hosts:
            raise ConfigError(
                f"{host} can be reached by others: say with --allowed-host under which names"
            )
    return HttpOptions(host=host, port=int(port), token=token, allowed_hosts=allowed_hosts)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def build_app(service: Service, options: HttpOptions) -> ASGIApp:
    """Return the ASGI application: the MCP endpoint and a health check."""

    async def health(_request: Request) -> Response:
        try:
            async with service.store.engine.connect() as connection:
                await connection.execute(text("SELECT 1"))
        except Exception as error:  # noqa: BLE001 - boundary: any failure means unhealthy
            return JSONResponse({"status": "down", "error": type(error).__name__}, 503)
        return JSONResponse(
            {"status": "ok", "version": __version__, "backend": service.choice.backend}
        )

    app = build_server(service).streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        max_request_body_size=options.max_body_bytes,
        transport_security=_security(options),
        host=options.host,
        custom_starlette_routes=[Route(HEALTH, health)],
    )
    return _RequireToken(app, options.token) if options.token else app


def _security(options: HttpOptions) -> TransportSecuritySettings:
    names = ["127.0.0.1", "localhost", "[::1]", *options.allowed_hosts]
    hosts = [host for name in names for host in (name, f"{name}:*")]
    origins = [f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=hosts, allowed_origins=origins
    )


class _RequireToken:
    """Rejects requests without the token, except health checks."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != HEALTH:
            header = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(header, self._expected):
                response = JSONResponse(
                    {"error": "unauthorized"}, 401, {"WWW-Authenticate": "Bearer"}
                )
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)


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
    config = uvicorn.Config(
        build_app(service, options),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    async with service.changes.watching():
        await uvicorn.Server(config).serve(sockets=[listener])
