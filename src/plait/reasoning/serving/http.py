"""Serving many clients over Streamable HTTP, without sessions, so that any replica may answer."""

from __future__ import annotations

import hmac
import ipaddress
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
from plait.reasoning.serving.server import build_server
from plait.reasoning.serving.service import Service

PATH = "/mcp"
HEALTH = "/health"
MAX_BODY_BYTES = 4 * 1024 * 1024
_GRACE_SECONDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Where to listen, and to whom."""

    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = field(default=None, repr=False)
    """What every request must bring as its bearer token."""
    allowed_hosts: Sequence[str] = ()
    """Names under which the server is reached, where it is not on this machine."""
    max_body_bytes: int = MAX_BODY_BYTES


def http_options_from_text(
    address: str, *, token: str | None = None, allowed_hosts: Sequence[str] = ()
) -> HttpOptions:
    """Read `HOST:PORT`, `:PORT` or `PORT`.

    Raises:
        ConfigError: It is none of these, or would serve the network without a token.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise ConfigError(f"{address!r} is no address to listen on: write HOST:PORT")
    if not _is_loopback(host):
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


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def build_app(service: Service, options: HttpOptions) -> ASGIApp:
    """Make the ASGI application: the MCP endpoint, and one that says whether all is well."""

    async def health(_request: Request) -> Response:
        try:
            async with service.store.engine.connect() as connection:
                await connection.execute(text("SELECT 1"))
        except Exception as error:  # noqa: BLE001 - boundary: whatever it is, the answer is no
            return JSONResponse({"status": "down", "error": type(error).__name__}, 503)
        facts = {"status": "ok", "version": __version__, "backend": service.choice.backend}
        return JSONResponse(facts)

    app = build_server(service).streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        max_request_body_size=options.max_body_bytes,
        transport_security=_security(options),
        host=options.host,
        custom_starlette_routes=[Route(HEALTH, health)],
    )
    return _Guarded(app, options.token) if options.token else app


def _security(options: HttpOptions) -> TransportSecuritySettings:
    names = ["127.0.0.1", "localhost", "[::1]", *options.allowed_hosts]
    hosts = [one for name in names for one in (name, f"{name}:*")]
    origins = [f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=hosts, allowed_origins=origins
    )


class _Guarded:
    """Lets only requests with the right token through; health is open to all."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != HEALTH:
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                refusal = JSONResponse(
                    {"error": "unauthorized"}, 401, {"WWW-Authenticate": "Bearer"}
                )
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def listener_for(options: HttpOptions) -> socket.socket:
    """Take the address, so that it is known before anything is announced.

    Raises:
        ConfigError: It cannot be had.
    """
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        return socket.create_server((options.host, options.port), family=family, backlog=2048)
    except OSError as error:
        place = f"{options.host}:{options.port}"
        raise ConfigError(f"cannot listen on {place}: {error.strerror}") from error


def mcp_url(listener: socket.socket) -> str:
    """Return the address of the MCP endpoint."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


async def serve_http(service: Service, options: HttpOptions, listener: socket.socket) -> None:
    """Serve until a signal ends it; requests that run are given a few seconds."""
    config = uvicorn.Config(
        build_app(service, options),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    async with service.changes.watching():
        await uvicorn.Server(config).serve(sockets=[listener])
