"""The mock gateway as a web application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plait.errors import TokenError
from plait.gateway.mock.faults import Fault, Faults
from plait.gateway.mock.page import inspection_page
from plait.gateway.mock.records import Record, Records
from plait.gateway.mock.servers import MockServers
from plait.gateway.tokens import check_token, claims_of

_SERVERS = "/agents/servers/"
_HISTORY = "/agents/real-time-threat-protection/chat-message"
_CATALOGUE = "/agents/discoverToolServers"
_TOO_MANY = 429


@dataclass(slots=True)
class Mock:
    """What the application works with."""

    servers: MockServers
    faults: Faults = field(default_factory=Faults)
    records: Records = field(default_factory=Records)
    details: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """What the entries of servers say besides name and address: `audience`, `scope` …"""

    require_token: bool = False
    """Whether requests need a token that is not over, and meant for the server."""

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


def build_app(mock: Mock) -> ASGIApp:
    """Make the application: discovery, servers, chat history, and a page to look at it all."""

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
        return JSONResponse([one.to_dict() for one in mock.records.of()])

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with mock.servers.running():
            yield

    routes = [
        Route("/", page),
        Route("/requests", requests),
        Route("/health", health),
        Route("/agents/{agent}/mcpServers", discovery),
        Route("/agents/v2/{agent}/mcpServers", discovery),
        Route(_CATALOGUE, catalogue),
        Route(_HISTORY, history, methods=["POST"]),
        Route(f"{_SERVERS}{{name}}", endpoint=_Server(mock)),
        Route(f"{_SERVERS}{{name}}/", endpoint=_Server(mock)),
    ]
    return _Gate(Starlette(routes=routes, lifespan=lifespan), mock)


class _Server:
    """Hands requests to the server they are for."""

    def __init__(self, mock: Mock) -> None:
        self._mock = mock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path_params"]["name"]
        if name in self._mock.servers.names():
            await self._mock.servers.handle(name, scope, receive, send)
        else:
            answer = PlainTextResponse(f"there is no mock server {name!r}", 404)
            await answer(scope, receive, send)


class _Gate:
    """Notes every request to the gateway, does wrong what is to be done wrong, checks tokens."""

    def __init__(self, app: ASGIApp, mock: Mock) -> None:
        self._app = app
        self._mock = mock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        target = _target(scope)
        if target is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        path = request.url.path
        record = self._mock.records.add(target, request.method, path, request.headers, body)
        fault = self._mock.faults.take(target)
        scope["plait.fault"] = fault
        if fault is not None and fault.kind == "slow":
            await asyncio.sleep(fault.seconds or 0)
        answer = _failing(fault) or self._refusal(target, request)
        noted = _noting(record, send)
        await (answer or self._app)(scope, _replayed(body, receive), noted)

    def _refusal(self, target: str, request: Request) -> Response | None:
        if not self._mock.require_token or target == "history":
            return None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            check_token(token if scheme.lower() == "bearer" else "")
        except TokenError as error:
            return PlainTextResponse(error.message, 401, {"WWW-Authenticate": "Bearer"})
        wanted = self._mock.details.get(target, {}).get("audience")
        if wanted and claims_of(token).get("aud") not in {wanted, f"api://{wanted}"}:
            text = "the token is for another audience"
            return PlainTextResponse(text, 401, {"WWW-Authenticate": "Bearer"})
        return None


def _target(scope: Scope) -> str | None:
    """Name what is asked: `None` for everything that only looks at the mock."""
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


def _noting(record: Record, send: Send) -> Send:
    async def noted(message: Message) -> None:
        if message["type"] == "http.response.start":
            record.status = message["status"]
        await send(message)

    return noted


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Give out the body again, then whatever else comes."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")
