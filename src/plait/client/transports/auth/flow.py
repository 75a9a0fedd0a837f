"""Gets tokens for one server: by signing a person in, with credentials, or with a refresh token.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

import httpx2
import jwt
from pydantic import BaseModel, Field, FiniteFloat

from plait._support.gather import resolve
from plait._support.threads import in_thread
from plait.client.config.oauth_settings import CLIENT_AUTH_METHODS, OAuth
from plait.client.transports.auth import discovery
from plait.client.transports.auth.authorization_servers import (
    OAuthError,
    RefusedRequestError,
    Send,
    error_in,
    read_model,
    require_https,
    unreachable,
)
from plait.client.transports.auth.challenge import Challenge, joined_scopes
from plait.client.transports.auth.discovery import ResourceMetadata, ServerMetadata
from plait.client.transports.auth.sign_in import Prompt, is_same_state
from plait.client.transports.auth.stores import Login

Save = Callable[[Login], Awaitable[None]]

_HEADERS: Final = {"Accept": "application/json"}
_ASSERTION_SECONDS: Final = 300
_JWT_BEARER: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class OAuthClient(BaseModel):
    """A registered client: https://www.rfc-editor.org/rfc/rfc7591#section-3.2.1.

    Servers may write null or an empty text for what they do not know.
    """

    client_id: str = Field(min_length=1)
    client_secret: str | None = None
    token_endpoint_auth_method: str | None = None
    redirect_uris: list[str] | Literal[""] | None = None
    issuer: str | None = None
    """The authorization server that registered it; no other one may have its secret."""

    @property
    def method(self) -> str:
        """How it authenticates."""
        usual = "client_secret_basic" if self.client_secret else "none"
        return self.token_endpoint_auth_method or usual

    def is_of(self, issuer: str) -> bool:
        """Return whether an authorization server may know it."""
        return not self.issuer or discovery.is_same_issuer(self.issuer, issuer)


class _Tokens(BaseModel):
    """The answer of a token endpoint: https://www.rfc-editor.org/rfc/rfc6749#section-5.1."""

    access_token: str = Field(min_length=1)
    token_type: str = Field("Bearer", pattern="^(?i:bearer)$")
    expires_in: FiniteFloat | None = None
    refresh_token: str | None = None
    scope: str | None = None


class OAuthFlow:
    """Exchanges with the authorization server of one MCP server, for one purpose."""

    def __init__(self, settings: OAuth, url: str, login: Login, save: Save, send: Send) -> None:
        self._settings = settings
        self._url = url
        self._login = login
        self._save = save
        self._send = send
        self._resource = read_model(ResourceMetadata, login.protected_resource)
        self._server = read_model(ServerMetadata, login.authorization_server)
        self._client = read_model(OAuthClient, login.client)
        if settings.client_id is not None:
            self._client = OAuthClient(
                client_id=settings.client_id,
                client_secret=settings.client_secret,
                token_endpoint_auth_method=settings.token_endpoint_auth_method,
            )

    async def sign_in(self, challenge: Challenge, prompt: Prompt | None = None) -> None:
        """Save a new login after a refusal: with a prompt, else with client credentials.

        After a 401 the authorization server is discovered again: it may be another one.

        Raises:
            OAuthError: Signing in failed.
            ConnectError: The authorization server cannot be reached.
        """
        server = self._server
        if server is None or not challenge.steps_up:
            server = await self._discover(challenge.resource_metadata)
        scope = self._scope_for(challenge, server)
        if prompt is None:
            grant = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        else:
            if not server.has_pkce:
                reason = "does not declare PKCE with S256"
                raise OAuthError(f"the authorization server {server.issuer} {reason}")
            client, uri = self._client, prompt.redirect_uri
            if (
                client is None
                or not client.is_of(server.issuer)
                or uri not in (client.redirect_uris or [uri])
            ):
                client = await self._register(server, uri, scope)
            grant = await self._ask_for_code(server, client.client_id, prompt, scope)
        await self._exchange(server, grant, scope)

    async def refresh(self) -> None:
        """Exchange the refresh token for new tokens.

        Raises:
            RefusedRequestError: The refresh token is not valid.
            OAuthError: It cannot be exchanged.
            ConnectError: The authorization server cannot be used now; nothing has changed.
        """
        server = self._server or await self._discover(None)
        token = self._login.refresh_token or ""
        grant = {"grant_type": "refresh_token", "refresh_token": token}
        try:
            await self._exchange(server, grant, self._login.scope)
        except RefusedRequestError as refused:
            # A page of another service, or a failure, says nothing about the refresh token.
            if refused.status == HTTPStatus.TOO_MANY_REQUESTS or refused.status // 100 != 4:
                raise unreachable(refused.url, refused.code) from None
            raise

    async def revoke(self, endpoint: str) -> None:
        """Revoke the tokens of the login.

        The refresh token goes first: most servers revoke its access tokens with it.
        https://www.rfc-editor.org/rfc/rfc7009#section-2
        """
        login = self._login
        for hint in ("refresh_token", "access_token"):
            token: str | None = getattr(login, hint)
            if token is None:
                continue
            form = {"token": token, "token_type_hint": hint}
            response = await self._post(endpoint, login.issuer or endpoint, form)
            # Servers need not support revoking access tokens.
            optional = hint == "access_token" and error_in(response) == "unsupported_token_type"
            if not response.is_success and not optional:
                raise OAuthError(f"the authorization server refused: {error_in(response)}")

    async def _discover(self, resource_metadata: str | None) -> ServerMetadata:
        only = self._settings.issuer
        known = (only, self._login.issuer, None if self._client is None else self._client.issuer)
        self._resource, self._server = await discovery.discover(
            self._url,
            resource_metadata,
            self._send,
            only=only,
            preferred=[issuer for issuer in known if issuer],
        )
        return self._server

    def _scope_for(self, challenge: Challenge, server: ServerMetadata) -> str | None:
        """Choose the scopes: those of the challenge, else the ones the server usually needs."""
        scope = challenge.scope
        if scope is None:
            scope = joined_scopes(*((self._resource or server).scopes_supported or ()))
        if challenge.steps_up:
            scope = joined_scopes(self._settings.scope, self._login.scope, scope)
        metadata = self._settings.client_metadata or {}
        may_refresh = self._settings.grant == "authorization_code" and (
            "refresh_token" in metadata.get("grant_types", ("refresh_token",))
        )
        if scope and may_refresh and "offline_access" in (server.scopes_supported or ()):
            scope = joined_scopes(scope, "offline_access")
        return scope

    async def _register(self, server: ServerMetadata, uri: str, scope: str | None) -> OAuthClient:
        """Become a client of an authorization server: with the own document, else by registration.

        It is saved without the tokens of the previous client, which it could not renew.
        https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration
        """
        settings, document = self._settings, self._settings.client_metadata_url
        name = f"the authorization server {server.issuer}"
        if document is not None and server.client_id_metadata_document_supported:
            client = OAuthClient(client_id=document, redirect_uris=[uri])
        elif server.registration_endpoint is None:
            raise OAuthError(
                f"{name} registers no clients; register one by hand, and set client_id"
            )
        else:
            metadata = {
                "client_name": settings.client_name,
                "application_type": "native",
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                **(settings.client_metadata or {}),
                "redirect_uris": [uri],
                "scope": scope,
            }
            body = {key: value for key, value in metadata.items() if value is not None}
            address = server.registration_endpoint
            request = httpx2.Request("POST", address, json=body, headers=_HEADERS)
            response = await self._send(request)
            client = read_model(OAuthClient, response.content) if response.is_success else None
            if client is None:
                raise RefusedRequestError(response)
            # The client may differ from what was requested.
            method = client.method
            if method not in CLIENT_AUTH_METHODS or (method != "none" and not client.client_secret):
                raise OAuthError(f"{name} registered a client that plait cannot authenticate")
            client = client.model_copy(update={"issuer": server.issuer})
        await self._keep(Login(key=self._login.key, client=_plain(client)))
        self._client = client
        return client

    async def _ask_for_code(
        self, server: ServerMetadata, client_id: str, prompt: Prompt, scope: str | None
    ) -> dict[str, str]:
        """Have the person sign in, and return the grant for the code that comes back."""
        endpoint = server.authorization_endpoint
        if endpoint is None:
            raise OAuthError(f"the authorization server {server.issuer} has no page to sign in")
        digest = hashlib.sha256(prompt.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": prompt.redirect_uri,
            "state": prompt.state,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
            "resource": self._resource_id,
        }
        if scope is not None:
            query["scope"] = scope
        if "offline_access" in (scope or "").split():
            # https://openid.net/specs/openid-connect-core-1_0.html#OfflineAccess
            query["prompt"] = "consent"
        separator = "&" if urlsplit(endpoint).query else "?"
        address = f"{endpoint}{separator}{urlencode(query)}"
        require_https(address)
        await resolve(prompt.show(address))
        result = await prompt.wait_for_result()
        # https://www.rfc-editor.org/rfc/rfc9207#section-2.4: before anything else is believed.
        if result.iss not in {None, server.issuer}:
            raise OAuthError("the answer comes from another authorization server")
        if result.error is not None:
            raise OAuthError(result.error)
        if not is_same_state(result.state, prompt.state):
            raise OAuthError("the answer belongs to another attempt to sign in")
        if result.iss is None and server.authorization_response_iss_parameter_supported:
            raise OAuthError("the answer does not name the authorization server that it comes from")
        return {
            "grant_type": "authorization_code",
            "code": result.code,
            "redirect_uri": prompt.redirect_uri,
            "code_verifier": prompt.verifier,
        }

    async def _exchange(
        self, server: ServerMetadata, grant: dict[str, str], scope: str | None
    ) -> None:
        """Exchange a grant for tokens, and save them before they are used."""
        form = {**grant, "resource": self._resource_id}
        response = await self._post(server.token_endpoint, server.issuer, form)
        tokens = read_model(_Tokens, response.content) if response.is_success else None
        if tokens is None:
            raise RefusedRequestError(response)
        lifetime = tokens.expires_in
        login = replace(
            self._login,
            access_token=tokens.access_token,
            # A server that does not replace the refresh token, or the scopes, leaves them out.
            refresh_token=tokens.refresh_token or grant.get("refresh_token"),
            scope=scope if tokens.scope is None else tokens.scope,
            lifetime_seconds=lifetime,
            expires_at=None if lifetime is None else time.time() + lifetime,
        )
        await self._keep(login)

    async def _post(self, address: str, issuer: str, form: dict[str, str]) -> httpx2.Response:
        """Send a form to an authorization server, with the credentials of the client."""
        client, settings = self._client, self._settings
        if client is None or not client.is_of(issuer):
            raise OAuthError(f"there is no client that is registered at {issuer}")
        form, headers = {**form, "client_id": client.client_id}, dict(_HEADERS)
        if settings.private_key or settings.private_key_file:
            form["client_assertion"] = await in_thread(_assertion, settings, issuer)
            form["client_assertion_type"] = _JWT_BEARER
        elif client.client_secret and client.method == "client_secret_basic":
            # https://www.rfc-editor.org/rfc/rfc6749#section-2.3.1
            pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif client.client_secret and client.method == "client_secret_post":
            form["client_secret"] = client.client_secret
        return await self._send(httpx2.Request("POST", address, data=form, headers=headers))

    async def _keep(self, login: Login) -> None:
        """Save a login with the metadata, so that renewing it needs no discovery."""
        server, resource = _plain(self._server), _plain(self._resource)
        login = replace(login, authorization_server=server, protected_resource=resource)
        await self._save(login)
        self._login = login

    @property
    def _resource_id(self) -> str:
        """What the tokens are for: https://www.rfc-editor.org/rfc/rfc8707."""
        resource = self._resource
        return discovery.resource_of(self._url) if resource is None else resource.resource


def _plain(model: BaseModel | None) -> dict[str, Any] | None:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


def _assertion(settings: OAuth, issuer: str) -> str:
    """Sign that this is the client: https://www.rfc-editor.org/rfc/rfc7523#section-2.2."""
    key = settings.private_key
    if key is None:
        key = Path(settings.private_key_file or "").read_text(encoding="utf-8")
    now = int(time.time())
    claims = {"iss": settings.client_id, "sub": settings.client_id, "aud": issuer}
    times = {"iat": now, "exp": now + _ASSERTION_SECONDS, "jti": str(uuid4())}
    headers = {"kid": settings.key_id} if settings.key_id else None
    try:
        return jwt.encode({**claims, **times}, key, algorithm=settings.algorithm, headers=headers)
    except (jwt.PyJWTError, NotImplementedError, TypeError, ValueError) as error:
        # Not its text, which may hold a part of the key.
        reason = f"the private key cannot sign with {settings.algorithm}: {type(error).__name__}"
        raise OAuthError(reason) from None
