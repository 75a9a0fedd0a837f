"""The mock gateway as a web application."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plait._support.local_server import buffer_body
from plait.errors import TokenError
from plait.gateway.mock.faults import Fault, Faults
from plait.gateway.mock.records import Record, Records, inspection_page
from plait.gateway.mock.servers import MockServers
from plait.gateway.tokens import check_token, claims_of

_SERVERS = "/agents/servers/"
_HISTORY = "/agents/real-time-threat-protection/chat-message"
_CATALOGUE = "/agents/discoverToolServers"
_TOO_MANY = 429


@dataclass(slots=True)
class MockState:
    """The state of a mock gateway."""

    servers: MockServers
    faults: Faults = field(default_factory=Faults)
    records: Records = field(default_factory=Records)
    details: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """More keys for the entries of servers: `audience`, `scope` …"""
    require_token: bool = False
    """Whether requests need a token that is not expired, with the audience of the server."""

    def entries(self, base: str) -> list[dict[str, Any]]:
        """Return the entries of all servers."""
        return [
            {
                "mcpServerName": name,
                "mcpServerUniqueName": name,
                "url": f"{base}{_SERVERS}{name}",
                **self.details.get(name, {}),
            }
            for name in self.servers.names()
        ]


def build_app(mock: MockState) -> ASGIApp:
    """Create the application: discovery, servers, chat history and an inspection page."""

    async def discovery(request: Request) -> Response:
        entries = mock.entries(_base(request))
        fault = cast("Fault | None", request.scope.get("plait.fault"))
        if fault is not None and fault.kind == "malformed":
            entries.insert(0, {"mcpServerName": "malformed", "url": 7})
        if fault is not None and fault.kind == "duplicate" and entries:
            entries.append({**entries[0], "url": f"{entries[0]['url']}?again"})
        return JSONResponse(entries)

    async def catalogue(request: Request) -> Response:
        return JSONResponse({"mcpServers": mock.entries(_base(request))})

    async def history(_: Request) -> Response:
        return JSONResponse({})

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok", "servers": mock.servers.names()})

    async def page(request: Request) -> Response:
        return HTMLResponse(
            inspection_page(_base(request), mock.servers.names(), mock.records.of())
        )

    async def requests(_: Request) -> Response:
        return JSONResponse([record.to_dict() for record in mock.records.of()])

    routes = [
        Route("/", page),
        Route("/requests", requests),
        Route("/health", health),
        Route("/agents/{agent}/mcpServers", discovery),
        Route("/agents/v2/{agent}/mcpServers", discovery),
        Route(_CATALOGUE, catalogue),
        Route(_HISTORY, history, methods=["POST"]),
        Route(f"{_SERVERS}{{name}}", endpoint=mock.servers),
        Route(f"{_SERVERS}{{name}}/", endpoint=mock.servers),
    ]
    return _MockMiddleware(Starlette(routes=routes, lifespan=mock.servers.running), mock)


class _MockMiddleware:
    """Records requests, simulates faults and checks tokens."""

    def __init__(self, app: ASGIApp, mock: MockState) -> None:
        self._app = app
        self._mock = mock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        target = _target(scope)
        if target is None:
            await self._app(scope, receive, send)
            return
        body, receive = await buffer_body(receive)
        request = Request(scope)
        path = request.url.path
        record = self._mock.records.add(target, request.method, path, request.headers, body)
        fault = self._mock.faults.take(target)
        scope["plait.fault"] = fault
        if fault is not None and fault.kind == "slow":
            await asyncio.sleep(fault.seconds or 0)
        answer = _failing(fault) or self._refusal(target, request)
        await (answer or self._app)(scope, receive, _record_status(record, send))

    def _refusal(self, target: str, request: Request) -> Response | None:
        if not self._mock.require_token or target == "history":
            return None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            check_token(token if scheme.lower() == "bearer" else "")
        except TokenError as error:
            return PlainTextResponse(error.message, 401, {"WWW-Authenticate": "Bearer"})
        audience = self._mock.details.get(target, {}).get("audience")
        if audience and claims_of(token).get("aud") not in {audience, f"api://{audience}"}:
            text = "the token is for another audience"
            return PlainTextResponse(text, 401, {"WWW-Authenticate": "Bearer"})
        return None


def _target(scope: Scope) -> str | None:
    """Return the target of a request; `None` for those that only inspect the mock."""
    if scope["type"] != "http":
        return None
    path: str = scope["path"]
    if path.startswith(_SERVERS):
        return unquote(path.removeprefix(_SERVERS).strip("/"))
    if path == _HISTORY:
        return "history"
    if path == _CATALOGUE:
        return "catalogue"
    return "discovery" if path.endswith("/mcpServers") else None


def _failing(fault: Fault | None) -> Response | None:
    if fault is None:
        return None
    if fault.kind == "garbage":
        return HTMLResponse("<html>this is not what you asked for")
    if not fault.kind.isdigit():
        return None
    status = int(fault.kind)
    seconds = 1.0 if fault.seconds is None and status == _TOO_MANY else fault.seconds
    headers = {} if seconds is None else {"Retry-After": f"{seconds:g}"}
    return PlainTextResponse(f"simulated fault {status}", status, headers)


def _record_status(record: Record, send: Send) -> Send:
    async def recording(message: Message) -> None:
        if message["type"] == "http.response.start":
            record.status = message["status"]
        await send(message)

    return recording


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")
