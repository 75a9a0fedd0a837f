"""The test authorization server and the MCP server it protects, as one web application."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlencode

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from plait._support.local_server import buffer_body
from plait.testing.oauth.authority import Authority, RefusedError
from plait.testing.serve import serve_with, sse_app

WRITE_SCOPE = "write"
"""The additional scope of `write_note`."""


def build_server(authority: Authority) -> MCPServer:
    """Make the protected MCP server."""
    server = MCPServer("Protected", version="1.0.0", log_level="ERROR")

    @server.tool()
    def whoami(ctx: Context) -> str:
        """Return the calling client and its scopes."""
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
    """Passes requests with a valid token on to the MCP server."""

    def __init__(self, app: ASGIApp, authority: Authority) -> None:
        self._app = app
        self._authority = authority
        self._all_here = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check an HTTP request; pass everything else on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body, receive = await buffer_body(receive)
        self._authority.counts["mcp"] += 1
        refusal = self._refusal(Request(scope), _tool_in(body))
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await self._hold_back()
            await refusal(scope, receive, send)

    async def _hold_back(self) -> None:
        """Delay a refusal until all that are to be sent together are due."""
        if self._authority.held_refusals > 0:
            self._authority.held_refusals -= 1
            if self._authority.held_refusals:
                await self._all_here.wait()
            self._all_here.set()

    def _refusal(self, request: Request, tool: str | None) -> Response | None:
        authority, token = self._authority, bearer_in(request.headers)
        metadata = f"{authority.issuer}/.well-known/oauth-protected-resource{request.url.path}"
        grant = authority.grant_of(token)
        scopes = " ".join(authority.scopes)
        if grant is None or authority.take_refusal():
            authority.counts["unauthorized"] += 1
            return _refused(401, token, _challenge("invalid_token", scopes, metadata))
        needed = {*authority.scopes, *([WRITE_SCOPE] if tool == "write_note" else [])}
        if missing := needed - set(grant.scope.split()):
            authority.counts["forbidden"] += 1
            missing_scopes = " ".join(sorted(missing))
            return _refused(403, token, _challenge("insufficient_scope", missing_scopes, metadata))
        return None


def _challenge(error: str, scope: str, metadata: str) -> str:
    return f'Bearer error="{error}", scope="{scope}", resource_metadata="{metadata}"'


class Endpoints:
    """The endpoints of the authorization server: discovery, registration, sign-in and tokens."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority

    async def resource(self, request: Request) -> Response:
        """Return the metadata of the protected resource."""
        authority = self._authority
        authority.counts["resource_metadata"] += 1
        return JSONResponse(
            {
                "resource": f"{authority.issuer}/{request.path_params['path']}",
                "authorization_servers": list(authority.advertised or [authority.issuer]),
                "scopes_supported": list(authority.scopes),
            }
        )

    async def metadata(self, _: Request) -> Response:
        """Return the metadata of the authorization server."""
        issuer = self._authority.issuer
        self._authority.counts["metadata"] += 1
        revocation = {"revocation_endpoint": f"{issuer}/revoke"}
        return JSONResponse(
            {
                **(revocation if self._authority.revocable else {}),
                "issuer": issuer,
                "authorization_endpoint": f"{issuer}/authorize",
                "token_endpoint": f"{issuer}/token",
                "registration_endpoint": f"{issuer}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "client_id_metadata_document_supported": True,
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def register(self, request: Request) -> Response:
        """Register a client."""
        body = await request.json()
        client_id = self._authority.register(tuple(body.get("redirect_uris") or ()))
        added = {"client_id": client_id, "token_endpoint_auth_method": "none"}
        return JSONResponse({**body, **added}, 201)

    async def authorize(self, request: Request) -> Response:
        """Redirect back with a code; consent is always granted."""
        query = request.query_params
        code = self._authority.authorize(query)
        answer = {"code": code, "iss": self._authority.issuer, "state": query.get("state", "")}
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(answer)}", 302)

    async def token(self, request: Request) -> Response:
        """Issue tokens."""
        answer = self._authority.token(*await _form_of(request))
        return JSONResponse(answer, headers={"Cache-Control": "no-store"})

    async def revoke(self, request: Request) -> Response:
        """Revoke a token."""
        self._authority.revoke_token(*await _form_of(request))
        return Response()


async def _form_of(request: Request) -> tuple[dict[str, str], str | None]:
    form = {name: str(value) for name, value in (await request.form()).items()}
    return form, request.headers.get("authorization")


def build_app(authority: Authority) -> Starlette:
    """Make the application: the authorization server, and `/mcp` and `/sse` behind it."""
    endpoints = Endpoints(authority)
    server = build_server(authority)
    mcp = server.streamable_http_app()
    sse = sse_app(serve_with(server), "127.0.0.1")
    guarded, guarded_sse = (Protected(app, authority) for app in (mcp, sse))
    well_known = "/.well-known"
    return Starlette(
        routes=[
            Route(f"{well_known}/oauth-protected-resource/{{path}}", endpoints.resource),
            Route(f"{well_known}/oauth-authorization-server", endpoints.metadata),
            Route("/register", endpoints.register, methods=["POST"]),
            Route("/authorize", endpoints.authorize),
            Route("/token", endpoints.token, methods=["POST"]),
            Route("/revoke", endpoints.revoke, methods=["POST"]),
            Route("/mcp", guarded, methods=["GET", "POST", "DELETE"]),
            Route("/sse", guarded_sse),
            Route("/messages/", guarded_sse, methods=["POST"]),
        ],
        exception_handlers={RefusedError: _oauth_error, KeyError: _oauth_error},
        lifespan=mcp.router.lifespan_context,
    )


async def _oauth_error(_: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, RefusedError) else 400
    return JSONResponse({"error": str(error)}, status)


def _refused(status: int, token: str, challenge: str) -> Response:
    # Quotes the token, which reveals clients that leak such texts.
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
