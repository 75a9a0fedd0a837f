"""The test authorization server and the MCP server it protects, as one web application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plait.testing.oauth.authority import Authority, RefusedError
from plait.testing.serve import serve_with, sse_app

WRITE_SCOPE = "write"
"""What `write_note` needs besides."""


def build_server(authority: Authority) -> MCPServer:
    """Make the MCP server; its tools tell what the caller may do."""
    server = MCPServer("Protected", version="1.0.0", log_level="ERROR")

    @server.tool()
    def whoami(ctx: Context) -> str:
        """Tell which client calls, and with which scopes."""
        grant = authority.grant_of(bearer_in(ctx.headers or {}))
        return "nobody" if grant is None else f"{grant.client_id} with {grant.scope}"

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @server.tool()
    def write_note(text: str) -> str:
        """Write a note, for which one more scope is needed."""
        return f"noted: {text}"

    return server


def bearer_in(headers: Any) -> str:
    """Return the access token of a request."""
    return str(headers.get("authorization") or "").removeprefix("Bearer ")


class Protected:
    """Lets requests with a good token through to the MCP server."""

    def __init__(
        self, app: ASGIApp, authority: Authority, take_refusal: Callable[[], bool]
    ) -> None:
        self._app = app
        self._authority = authority
        self._take_refusal = take_refusal
        self._all_here = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request; everything else is for the app."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        self._authority.counts["mcp"] += 1
        refusal = self._refusal(request, _tool_in(body))
        if refusal is None:
            await self._app(scope, _replayed(body, receive), send)
        else:
            await self._storm()
            await refusal(scope, receive, send)

    async def _storm(self) -> None:
        """Hold a refusal back until all that belong together are due."""
        if self._authority.storm > 0:
            self._authority.storm -= 1
            if self._authority.storm:
                await self._all_here.wait()
            self._all_here.set()

    def _refusal(self, request: Request, tool: str | None) -> Response | None:
        authority, token = self._authority, bearer_in(request.headers)
        place = f"{authority.issuer}/.well-known/oauth-protected-resource{request.url.path}"
        grant = authority.grant_of(token)
        wanted = " ".join(authority.scopes)
        if grant is None or self._take_refusal():
            authority.counts["unauthorized"] += 1
            return _refused(401, token, _challenge("invalid_token", wanted, place))
        needed = {*authority.scopes, *([WRITE_SCOPE] if tool == "write_note" else [])}
        if missing := needed - set(grant.scope.split()):
            authority.counts["forbidden"] += 1
            scopes = " ".join(sorted(missing))
            return _refused(403, token, _challenge("insufficient_scope", scopes, place))
        return None


def _challenge(error: str, scope: str, place: str) -> str:
    return f'Bearer error="{error}", scope="{scope}", resource_metadata="{place}"'


def build_app(authority: Authority, take_refusal: Callable[[], bool]) -> Starlette:
    """Make the application: discovery, registration, sign-in, tokens, and `/mcp`."""

    async def resource(request: Request) -> Response:
        authority.counts["resource_metadata"] += 1
        return JSONResponse(
            {
                "resource": f"{authority.issuer}/{request.path_params['path']}",
                "authorization_servers": list(authority.advertised or [authority.issuer]),
                "scopes_supported": list(authority.scopes),
            }
        )

    async def metadata(_: Request) -> Response:
        authority.counts["metadata"] += 1
        ending = {"revocation_endpoint": f"{authority.issuer}/revoke"}
        return JSONResponse(
            {
                **(ending if authority.revocable else {}),
                "issuer": authority.issuer,
                "authorization_endpoint": f"{authority.issuer}/authorize",
                "token_endpoint": f"{authority.issuer}/token",
                "registration_endpoint": f"{authority.issuer}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "client_id_metadata_document_supported": True,
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def register(request: Request) -> Response:
        wanted = await request.json()
        client = authority.register(tuple(wanted.get("redirect_uris") or ()))
        known = {"client_id": client.client_id, "token_endpoint_auth_method": "none"}
        return JSONResponse({**wanted, **known}, 201)

    async def authorize(request: Request) -> Response:
        query = request.query_params
        try:
            code = authority.authorize(query)
        except (RefusedError, KeyError) as error:
            return JSONResponse({"error": str(error)}, 400)
        answer = {"code": code, "iss": authority.issuer, "state": query.get("state", "")}
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(answer)}", 302)

    async def token(request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        try:
            answer = authority.token(form, request.headers.get("authorization"))
        except RefusedError as error:
            return JSONResponse({"error": error.code}, error.status)
        return JSONResponse(answer, headers={"Cache-Control": "no-store"})

    async def revoke(request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        try:
            authority.take_back(form, request.headers.get("authorization"))
        except RefusedError as error:
            return JSONResponse({"error": error.code}, error.status)
        return Response()

    server = build_server(authority)
    mcp = server.streamable_http_app()
    older = sse_app(serve_with(server), "127.0.0.1")
    guarded, older_guarded = (Protected(app, authority, take_refusal) for app in (mcp, older))
    well_known = "/.well-known"
    return Starlette(
        routes=[
            Route(f"{well_known}/oauth-protected-resource/{{path}}", resource),
            Route(f"{well_known}/oauth-authorization-server", metadata),
            Route("/register", register, methods=["POST"]),
            Route("/authorize", authorize),
            Route("/token", token, methods=["POST"]),
            Route("/revoke", revoke, methods=["POST"]),
            Route("/mcp", guarded, methods=["GET", "POST", "DELETE"]),
            Route("/sse", older_guarded),
            Route("/messages/", older_guarded, methods=["POST"]),
        ],
        lifespan=mcp.router.lifespan_context,
    )


def _refused(status: int, token: str, challenge: str) -> Response:
    # It quotes what it got, so that a client that shows such texts is found out.
    body = f"the credentials {token} are not good enough"
    return Response(body, status, headers={"WWW-Authenticate": challenge})


def _tool_in(body: bytes) -> str | None:
    try:
        match json.loads(body or b"null"):
            case {"method": "tools/call", "params": {"name": str() as name}}:
                return name
            case _:
                return None
    except ValueError:
        return None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Give a body that has been read to whoever reads it next."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
