"""A local authorization server and an MCP server it protects, for tests of signing in."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import unquote, urlencode

import jwt
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from plait._support.http_servers import LocalServer, buffer_body
from plait._support.mappings import entries_of
from plait.testing.ports import bind
from plait.testing.serve_transports import serve_with, sse_app

_WRITE_SCOPE = "write"
"""The additional scope of `write_note`."""

_JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class _RefusedError(Exception):
    """A request is refused, with an OAuth error code."""

    def __init__(self, code: str, status: int = 400) -> None:
        super().__init__(code)
        self.status = status


@dataclass(frozen=True, slots=True)
class _Client:
    client_id: str
    secret: str | None = field(default=None, repr=False)
    public_key: str | None = None
    redirect_uris: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Code:
    """An authorization code that has not been exchanged yet."""

    client_id: str
    redirect_uri: str
    challenge: str
    scope: str


@dataclass(frozen=True, slots=True)
class _Grant:
    client_id: str
    scope: str
    expires_at: float


@dataclass
class OAuthServer:
    """An authorization server and a protected MCP server on one port of this machine.

    Entering its context starts it; the fields and methods are switches that tests set.
    """

    scopes: tuple[str, ...] = ("read",)
    """The scopes that every request needs."""
    token_seconds: float = 3600.0
    rotate: bool = True
    """Whether a refresh token can be used only once."""
    refreshable: bool = True
    """Whether there are refresh tokens."""
    revocable: bool = True
    """Whether clients may revoke their tokens."""

    def __post_init__(self) -> None:
        self.issuer = ""
        self.counts: Counter[str] = Counter()
        """How often each endpoint and each grant type was used.

        `authorize`, `register`, `metadata`, `resource_metadata`, `mcp`, `unauthorized`,
        `forbidden`, `revoke`, and the grants `authorization_code`, `refresh_token`,
        `client_credentials`.
        """
        self.issued: list[str] = []
        """Every code and token that was issued, for leak checks."""
        self._advertised: tuple[str, ...] | None = None
        self._described: dict[str, Any] = {}
        self._resource_metadata: str | None = None
        self._held_refusals = 0
        """How many refusals are held back until the last of them is due."""
        self._refusals = 0
        self._clients: dict[str, _Client] = {}
        self._codes: dict[str, _Code] = {}
        self._tokens: dict[str, _Grant] = {}
        self._refresh_tokens: dict[str, _Grant] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        listener = bind()
        self.issuer = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.url = f"{self.issuer}/mcp"
        self.sse_url = f"{self.issuer}/sse"
        self._server = LocalServer(self._app())
        self._server.start(listener, name="the test authorization server")
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.stop()

    def advertise(self, *issuers: str) -> None:
        """Name these authorization servers in the metadata of the MCP server."""
        self._advertised = issuers

    def describe(self, **fields: Any) -> None:
        """Change fields of the authorization server's metadata; `None` removes one."""
        self._described.update(fields)

    def challenge_with(self, resource_metadata: str) -> None:
        """Name this address of the metadata of the MCP server in refusals."""
        self._resource_metadata = resource_metadata

    def add_client(
        self,
        client_id: str,
        *,
        secret: str | None = None,
        public_key: str | None = None,
        redirect_uris: tuple[str, ...] = (),
    ) -> None:
        """Register a client by hand: with a secret, or with the PEM of its public key."""
        self._clients[client_id] = _Client(client_id, secret, public_key, redirect_uris)

    def forget_clients(self) -> None:
        """Remove every registered client."""
        self._clients.clear()

    def refuse_next(self, requests: int) -> None:
        """Answer the next requests to the MCP server with 401, whatever their token."""
        with self._lock:
            self._refusals = requests

    def knows(self, token: str) -> bool:
        """Return whether an access or refresh token is valid."""
        return token in self._refresh_tokens or self.grant_of(token) is not None

    def grant_of(self, access_token: str) -> _Grant | None:
        """Return what an access token grants; `None` if it is unknown or expired."""
        grant = self._tokens.get(access_token)
        return grant if grant is not None and grant.expires_at > time.time() else None

    def end_access(self, *, together: int = 0) -> None:
        """Expire every access token; refresh tokens stay valid.

        The first `together` requests are refused at the same moment, once all have arrived.
        """
        self._tokens.clear()
        self._held_refusals = together

    def revoke(self) -> None:
        """Invalidate every token."""
        self._tokens.clear()
        self._refresh_tokens.clear()

    def take_held_refusal(self) -> int | None:
        """Count a refusal that is held back, and return how many are to come; `None` if none is."""
        if not self._held_refusals:
            return None
        self._held_refusals -= 1
        return self._held_refusals

    def refusal(self, request: Request, tool: str | None) -> Response | None:
        """Return the answer to a request to the MCP server whose token is not good enough."""
        self.counts["mcp"] += 1
        token = bearer_in(request.headers)
        grant = self.grant_of(token)
        with self._lock:
            is_refused = self._refusals > 0
            self._refusals -= is_refused
        if grant is None or is_refused:
            self.counts["unauthorized"] += 1
            status, error, scopes = 401, "invalid_token", list(self.scopes)
        else:
            needed = {*self.scopes, *([_WRITE_SCOPE] if tool == "write_note" else [])}
            status, error, scopes = (
                403,
                "insufficient_scope",
                sorted(needed - {*grant.scope.split()}),
            )
            if not scopes:
                return None
            self.counts["forbidden"] += 1
        metadata = (
            self._resource_metadata
            or f"{self.issuer}/.well-known/oauth-protected-resource{request.url.path}"
        )
        challenge = f'error="{error}", scope="{" ".join(scopes)}", resource_metadata="{metadata}"'
        # Quotes the token, which reveals clients that leak such texts.
        body = f"the credentials {token} are not good enough"
        return Response(body, status, headers={"WWW-Authenticate": f"Bearer {challenge}"})

    def _app(self) -> Starlette:
        """Make the application: the authorization server, and `/mcp` and `/sse` behind it."""
        server = _mcp_server(self)
        mcp = server.streamable_http_app()
        sse = _Protected(sse_app(serve_with(server), "127.0.0.1"), self)
        well_known = "/.well-known"
        return Starlette(
            routes=[
                Route(f"{well_known}/oauth-protected-resource/{{path}}", self._resource),
                Route(f"{well_known}/oauth-authorization-server", self._metadata),
                Route("/register", self._register, methods=["POST"]),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/revoke", self._revoke, methods=["POST"]),
                Route("/mcp", _Protected(mcp, self), methods=["GET", "POST", "DELETE"]),
                Route("/sse", sse),
                Route("/messages/", sse, methods=["POST"]),
            ],
            exception_handlers={_RefusedError: _oauth_error, KeyError: _oauth_error},
            lifespan=mcp.router.lifespan_context,
        )

    async def _resource(self, request: Request) -> Response:
        self.counts["resource_metadata"] += 1
        return JSONResponse(
            {
                "resource": f"{self.issuer}/{request.path_params['path']}",
                "authorization_servers": list(self._advertised or [self.issuer]),
                "scopes_supported": list(self.scopes),
            }
        )

    async def _metadata(self, _: Request) -> Response:
        issuer = self.issuer
        self.counts["metadata"] += 1
        metadata = {
            "revocation_endpoint": f"{issuer}/revoke" if self.revocable else None,
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "registration_endpoint": f"{issuer}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": True,
            "authorization_response_iss_parameter_supported": True,
            **self._described,
        }
        return JSONResponse({name: one for name, one in metadata.items() if one is not None})

    async def _register(self, request: Request) -> Response:
        self.counts["register"] += 1
        body = await request.json()
        client_id = f"client-{len(self._clients) + 1}"
        self.add_client(client_id, redirect_uris=tuple(body.get("redirect_uris") or ()))
        added = {"client_id": client_id, "token_endpoint_auth_method": "none"}
        return JSONResponse({**body, **added}, 201)

    async def _authorize(self, request: Request) -> Response:
        """Redirect back with a code at once; consent is always granted."""
        self.counts["authorize"] += 1
        query = request.query_params
        client_id, redirect_uri = query["client_id"], query["redirect_uri"]
        client = self._clients.get(client_id)
        if client is None and client_id.startswith("https://"):
            client = self._clients[client_id] = _Client(client_id, redirect_uris=(redirect_uri,))
        if (
            client is None
            or redirect_uri not in client.redirect_uris
            or query.get("code_challenge_method") != "S256"
            or not query.get("resource", "").startswith(self.issuer)
        ):
            raise _RefusedError("invalid_request")
        code = secrets.token_urlsafe(24)
        scope = query.get("scope") or " ".join(self.scopes)
        self._codes[code] = _Code(client_id, redirect_uri, query["code_challenge"], scope)
        self.issued.append(code)
        answer = {"code": code, "iss": self.issuer, "state": query.get("state", "")}
        return RedirectResponse(f"{redirect_uri}?{urlencode(answer)}", 302)

    async def _token(self, request: Request) -> Response:
        """Exchange a code, a refresh token or client credentials for tokens."""
        form = await _form_of(request)
        grant = form.get("grant_type", "")
        self.counts[grant] += 1
        client = self._client_of(form, request)
        match grant:
            case "authorization_code":
                code = self._codes.pop(form.get("code", ""), None)
                verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
                if (
                    code is None
                    or code.client_id != client.client_id
                    or code.redirect_uri != form.get("redirect_uri")
                    or code.challenge != base64.urlsafe_b64encode(verifier).decode().rstrip("=")
                ):
                    raise _RefusedError("invalid_grant")
                answer = self._issue(client, code.scope)
            case "refresh_token":
                refresh_token = form.get("refresh_token", "")
                known = self._refresh_tokens.get(refresh_token)
                if known is None or known.client_id != client.client_id:
                    raise _RefusedError("invalid_grant")
                if self.rotate:
                    del self._refresh_tokens[refresh_token]
                answer = self._issue(client, known.scope, last=not self.rotate)
            case "client_credentials":
                if client.secret is None and client.public_key is None:
                    raise _RefusedError("unauthorized_client")
                answer = self._issue(client, form.get("scope") or " ".join(self.scopes), last=True)
            case _:
                raise _RefusedError("unsupported_grant_type")
        return JSONResponse(answer, headers={"Cache-Control": "no-store"})

    async def _revoke(self, request: Request) -> Response:
        """Revoke a token of a client; with a refresh token, all tokens of the client.

        https://www.rfc-editor.org/rfc/rfc7009#section-2.1
        """
        self.counts["revoke"] += 1
        form = await _form_of(request)
        client = self._client_of(form, request)
        token = form.get("token", "")
        known = self._refresh_tokens.get(token) or self._tokens.get(token)
        if known is None or known.client_id != client.client_id:
            return Response()
        ended = [token]
        if token in self._refresh_tokens:
            stored = {**self._refresh_tokens, **self._tokens}
            ended = [name for name, its in stored.items() if its.client_id == known.client_id]
        for name in ended:
            self._refresh_tokens.pop(name, None)
            self._tokens.pop(name, None)
        return Response()

    def _issue(self, client: _Client, scope: str, *, last: bool = False) -> dict[str, Any]:
        """Issue tokens; with `last`, no new refresh token."""
        access, refresh = (f"secret-{secrets.token_urlsafe(24)}" for _ in range(2))
        grant = _Grant(client.client_id, scope, time.time() + self.token_seconds)
        self._tokens[access] = grant
        self.issued.append(access)
        answer: dict[str, Any] = {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": int(self.token_seconds),
            "scope": scope,
        }
        if self.refreshable and not last:
            self._refresh_tokens[refresh] = grant
            self.issued.append(refresh)
            answer["refresh_token"] = refresh
        return answer

    def _client_of(self, form: Mapping[str, str], request: Request) -> _Client:
        scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
        name, secret = form.get("client_id", ""), form.get("client_secret")
        if scheme.lower() == "basic":
            name, _, secret = base64.b64decode(encoded).decode().partition(":")
            name, secret = unquote(name), unquote(secret)
        if form.get("client_assertion_type") == _JWT_BEARER:
            return self._client_in(form.get("client_assertion", ""))
        client = self._clients.get(name)
        if client is None or client.public_key is not None or client.secret not in (None, secret):
            raise _RefusedError("invalid_client", 401)
        return client

    def _client_in(self, assertion: str) -> _Client:
        """Check a signed statement: https://www.rfc-editor.org/rfc/rfc7523#section-3."""
        try:
            name = jwt.decode(assertion, options={"verify_signature": False})["sub"]
            client = self._clients[name]
            jwt.decode(
                assertion, client.public_key or "", algorithms=["RS256"], audience=self.issuer
            )
        except (jwt.PyJWTError, KeyError) as error:
            raise _RefusedError("invalid_client", 401) from error
        return client


oauth_server = OAuthServer
"""Run an authorization server while the context is open."""


class _Protected:
    """Passes requests with a valid token on to the MCP server."""

    def __init__(self, app: ASGIApp, authority: OAuthServer) -> None:
        self._app = app
        self._authority = authority
        self._all_here = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check an HTTP request; pass everything else on."""
        if scope["type"] == "http":
            body, receive = await buffer_body(receive)
            try:
                call = entries_of(json.loads(body or b"null"))
            except ValueError:
                call = entries_of(None)
            is_call = call.get("method") == "tools/call"
            tool = entries_of(call.get("params")).get("name") if is_call else None
            refusal = self._authority.refusal(Request(scope), tool)
            if refusal is not None:
                # Until all refusals are due that are to be sent together.
                left = self._authority.take_held_refusal()
                if left:
                    await self._all_here.wait()
                elif left == 0:
                    self._all_here.set()
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _mcp_server(authority: OAuthServer) -> MCPServer:
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


async def _form_of(request: Request) -> dict[str, str]:
    return {name: str(value) for name, value in (await request.form()).items()}


async def _oauth_error(_: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, _RefusedError) else 400
    return JSONResponse({"error": str(error)}, status)
