"""Drives the MCP SDK's OAuth flow step by step, sending its requests.

The SDK holds one lock during every request, forgets when tokens expire, and prompts the user after
every 401. So each flow is run once, for one purpose; its result is kept in a `Login`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import time
import warnings
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NoReturn, cast
from uuid import uuid4

import httpx2
import jwt
from mcp.client.auth import (
    OAuthClientProvider,
    OAuthFlowError,
    OAuthRegistrationError,
    OAuthTokenError,
)
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
)
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls as metadata_addresses,
)
from mcp.client.auth.utils import (
    create_oauth_metadata_request,
    handle_auth_metadata_response,
    issuers_match,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import AnyUrl, BaseModel, ValidationError

from plait._support.threads import in_thread
from plait.client.config.oauth import OAuth
from plait.client.transports.auth.endpoints import RefusedAddressError, require_https
from plait.client.transports.auth.stores import Login
from plait.errors import ConnectError

Send = Callable[[httpx2.Request], Awaitable[httpx2.Response]]
"""Sends a request to an authorization server; raises `ConnectError` if it is unreachable."""

Save = Callable[[Login], Awaitable[None]]

_ASSERTION_SECONDS = 300
MOST_TRIED: Final = 5
"""How many authorization servers are tried: a server could name thousands, of others."""
_ERROR_CODE = re.compile(r"[a-z_]{1,40}")
"""https://www.rfc-editor.org/rfc/rfc6749#section-5.2"""
_JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass(frozen=True, slots=True)
class Prompt:
    """How the user signs in: the redirect address, and how to open it and wait for the result."""

    redirect_uri: str
    show: Callable[[str], Awaitable[None]]
    """Opens the authorization address."""
    wait_for_result: Callable[[], Awaitable[AuthorizationCodeResult]]
    """Waits for the redirect."""


class SentAwayError(OAuthFlowError):
    """The user was redirected to sign in, and the result arrives another way."""

    def __init__(self, message: str, address: str) -> None:
        super().__init__(message)
        self.address = address


class Negotiation:
    """One run of the SDK's flow for one server."""

    def __init__(
        self, settings: OAuth, url: str, login: Login, save: Save, prompt: Prompt | None = None
    ) -> None:
        self.login = login
        """The current login; every change has been saved."""
        self._settings = settings
        self._url = url
        self._save = save
        self._prompt = prompt
        self._provider = self._make_provider()

    async def authorize(
        self, request: httpx2.Request, refusal: httpx2.Response, send: Send
    ) -> None:
        """Get a new login after the refusal of a request, or raise `OAuthFlowError`.

        After a 401 the SDK discovers the authorization server again, else it uses the known one.
        """
        if refusal.status_code != HTTPStatus.UNAUTHORIZED:
            self._recall()
        await self._run(request, refusal, send)

    async def refresh(self, request: httpx2.Request, send: Send) -> None:
        """Exchange the refresh token for new tokens; if `send` raises, nothing changes."""
        self._recall()
        # The SDK refreshes tokens that it believes to be expired.
        self._provider.context.token_expiry_time = 1.0
        await self._run(request, None, send)

    async def signed_post(self, address: str, form: dict[str, str]) -> httpx2.Request:
        """Build a request to the authorization server, with the client's credentials."""
        context = self._provider.context
        client = context.client_info = await self.get_client_info()
        if client is not None and client.client_id:
            form = {**form, "client_id": client.client_id}
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        form, headers = context.prepare_token_auth(form, headers)
        if self._settings.private_key or self._settings.private_key_file:
            form["client_assertion"] = await self._assertion(self.login.issuer or address)
            form["client_assertion_type"] = _JWT_BEARER
        return httpx2.Request("POST", address, data=form, headers=headers)

    async def discover(
        self, request: httpx2.Request, refusal: httpx2.Response, send: Send
    ) -> Login:
        """Discover the authorization server, and return the login with its metadata.

        The flow is stopped where it would prompt the user.
        """
        self._provider.context.redirect_handler = _stop
        self._provider.context.callback_handler = _stop
        with contextlib.suppress(_DiscoveredError):
            await self._run(request, refusal, send)
        return replace(self.login, **self._discovered())

    def _discovered(self) -> dict[str, Any]:
        """Return the metadata that the SDK has, as fields of a login."""
        context = self._provider.context
        return {
            "authorization_server": _plain(context.oauth_metadata),
            "protected_resource": _plain(context.protected_resource_metadata),
        }

    def _recall(self) -> None:
        """Pass the SDK the result of an earlier discovery."""
        context, login = self._provider.context, self.login
        context.oauth_metadata = _model(OAuthMetadata, login.authorization_server)
        resource = _model(ProtectedResourceMetadata, login.protected_resource)
        context.protected_resource_metadata = resource
        context.auth_server_url = login.issuer if resource is not None else None

    def _check_issuer(self) -> None:
        """Refuse any other authorization server than the configured one."""
        context, expected = self._provider.context, self._settings.issuer
        metadata = context.oauth_metadata
        actual = context.auth_server_url or (metadata and str(metadata.issuer))
        if expected and actual and not issuers_match(actual, expected):
            raise OAuthFlowError(f"the server names {actual}, but issuer is set to {expected}")

    def _check_pkce(self) -> None:
        """Refuse an authorization server that does not bind codes to the client.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization
        """
        context = self._provider.context
        metadata = context.oauth_metadata
        if self._prompt is None:
            return
        if metadata is None:
            if context.auth_server_url is not None:
                raise OAuthFlowError(f"{context.auth_server_url} has no metadata that can be used")
            return  # a server of 2025-03-26, which is its own authorization server without any
        if "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise OAuthFlowError(
                f"the authorization server {metadata.issuer} does not declare PKCE with S256"
            )

    async def _show(self, address: str) -> None:
        """Show the address at which to sign in, if a browser may be sent there."""
        self._check_pkce()
        require_https(address)
        if self._prompt is not None:
            await self._prompt.show(address)

    async def _run(
        self, request: httpx2.Request, refusal: httpx2.Response | None, send: Send
    ) -> None:
        """Step through the flow, up to where it would send the request with a new token."""
        flow = self._provider.async_auth_flow(request)
        answer: httpx2.Response | None = None
        try:
            with _quiet_sdk():
                pending = await anext(flow)
            while True:
                if pending is not request:
                    if pending.method == "POST":
                        self._check_pkce()
                    answer = await self._best_first(await send(pending), send)
                elif refusal is not None:
                    answer, refusal = refusal, None
                else:
                    return
                with _quiet_sdk():
                    pending = await flow.asend(answer)
                self._check_issuer()
        except (OAuthTokenError, OAuthRegistrationError, ValidationError, UnicodeError):
            # The SDK quotes the answer, which may come from a server that is nobody's business.
            raise OAuthFlowError(await _refusal_in(answer)) from None
        finally:
            await flow.aclose()

    async def _best_first(self, response: httpx2.Response, send: Send) -> httpx2.Response:
        """Put the best of several authorization servers first in the metadata of a resource.

        The SDK uses the first. The best is one that is known, else the first that responds.
        """
        issuers = await _issuers_in(response)
        if len(issuers) <= 1:
            return response
        registered: object = (self.login.client or {}).get("issuer")
        known = (self._settings.issuer, self.login.issuer, registered)
        preferred = [issuer for issuer in known if isinstance(issuer, str)]
        best = await _best_of(issuers, self._url, preferred, send)
        body = {**cast("dict[str, Any]", response.json()), "authorization_servers": [best]}
        return httpx2.Response(response.status_code, json=body, request=response.request)

    async def get_tokens(self) -> OAuthToken | None:
        """Pass the SDK the current tokens."""
        if self.login.access_token is None:
            return None
        return OAuthToken(
            access_token=self.login.access_token,
            refresh_token=self.login.refresh_token,
            scope=self.login.scope,
        )

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Save new tokens with their expiry, before they are used."""
        lifetime = None if tokens.expires_in is None else float(tokens.expires_in)
        await self._keep(
            replace(
                self.login,
                access_token=tokens.access_token,
                refresh_token=tokens.refresh_token,
                scope=tokens.scope,
                lifetime_seconds=lifetime,
                expires_at=None if lifetime is None else time.time() + lifetime,
                **self._discovered(),
            )
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Pass the SDK the configured client, else the registered one."""
        settings = self._settings
        if settings.client_id is None:
            return _model(OAuthClientInformationFull, self.login.client)
        uris = None if self._prompt is None else [AnyUrl(self._prompt.redirect_uri)]
        usual = "client_secret_basic" if settings.client_secret else "none"
        return OAuthClientInformationFull(
            client_id=settings.client_id,
            client_secret=settings.client_secret,
            redirect_uris=uris,
            token_endpoint_auth_method=settings.token_endpoint_auth_method or usual,
            issuer=settings.issuer,
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Save a registration, without the tokens of the previous client."""
        client = _plain(client_info)
        await self._keep(Login(key=self.login.key, client=client, **self._discovered()))

    async def _keep(self, login: Login) -> None:
        await self._save(login)
        self.login = login

    def _make_provider(self) -> OAuthClientProvider:
        settings = self._settings
        if settings.grant == "authorization_code":
            return self._make_prompt_provider()
        client_id = settings.client_id or ""
        with warnings.catch_warnings():
            # Without an issuer the server names it, as for interactive sign-in.
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            if settings.client_secret is not None:
                post = settings.token_endpoint_auth_method == "client_secret_post"  # noqa: S105
                method = "client_secret_post" if post else "client_secret_basic"
                return ClientCredentialsOAuthProvider(
                    self._url,
                    self,
                    client_id,
                    settings.client_secret,
                    token_endpoint_auth_method=method,
                    scope=settings.scope,
                    issuer=settings.issuer,
                )
            return PrivateKeyJWTOAuthProvider(
                self._url, self, client_id, self._assertion, settings.scope, issuer=settings.issuer
            )

    def _make_prompt_provider(self) -> OAuthClientProvider:
        settings, prompt = self._settings, self._prompt
        uri = "http://127.0.0.1/" if prompt is None else prompt.redirect_uri
        metadata = OAuthClientMetadata.model_validate(
            {
                "client_name": settings.client_name,
                **(settings.client_metadata or {}),
                "redirect_uris": [uri],
                "scope": settings.scope,
            }
        )
        return OAuthClientProvider(
            self._url,
            metadata,
            self,
            redirect_handler=None if prompt is None else self._show,
            callback_handler=None if prompt is None else prompt.wait_for_result,
            client_metadata_url=settings.client_metadata_url,
        )

    async def _assertion(self, audience: str) -> str:
        """Sign a client assertion for one authorization server.

        https://www.rfc-editor.org/rfc/rfc7523#section-2.2
        """
        return await in_thread(_signed, self._settings, audience)


async def _refusal_in(response: httpx2.Response | None) -> str:
    """Describe the last answer of an authorization server, without quoting it."""
    if response is None:
        return "the authorization server was not asked"
    await response.aread()
    answer = "an answer that cannot be used" if response.is_success else error_in(response)
    return f"the authorization server at {response.request.url.host} refused: {answer}"


def error_in(response: httpx2.Response) -> str:
    """Return the error code in a token endpoint's response; only what can be one is quoted."""
    with contextlib.suppress(ValueError, RecursionError):
        match json.loads(response.content):
            case {"error": str() as code} if _ERROR_CODE.fullmatch(code):
                return code
            case _:
                pass
    return f"HTTP {response.status_code}"


class _DiscoveredError(OAuthFlowError):
    """Discovery is done; stops the flow."""


async def _stop(*_: str) -> NoReturn:
    raise _DiscoveredError


def _signed(settings: OAuth, audience: str) -> str:
    key = settings.private_key
    if key is None:
        key = Path(settings.private_key_file or "").read_text(encoding="utf-8")
    now = int(time.time())
    claims = {
        "iss": settings.client_id,
        "sub": settings.client_id,
        "aud": audience,
        "iat": now,
        "exp": now + _ASSERTION_SECONDS,
        "jti": str(uuid4()),
    }
    headers = {"kid": settings.key_id} if settings.key_id else None
    return jwt.encode(claims, key, algorithm=settings.algorithm, headers=headers)


def _plain(model: BaseModel | None) -> dict[str, Any] | None:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


def _model(kind: type[Any], data: object) -> Any:
    """Parse stored data as a model; invalid data counts as missing."""
    if data is None:
        return None
    try:
        return kind.model_validate(data)
    except ValueError:
        return None


_within: ContextVar[bool] = ContextVar("plait_oauth", default=False)


def _is_foreign(record: logging.LogRecord) -> bool:  # noqa: ARG001  # the signature of a filter
    """Drop the SDK's log records of our flows, which are reported without secrets elsewhere."""
    return not _within.get()


@contextmanager
def _quiet_sdk() -> Generator[None]:
    logging.getLogger("mcp.client.auth.oauth2").addFilter(_is_foreign)
    token = _within.set(True)
    try:
        yield
    finally:
        _within.reset(token)


async def metadata_of(issuer: str | None, url: str, send: Send) -> OAuthMetadata | None:
    """Fetch the metadata of an authorization server; `None` if there is none.

    Without an issuer, the server at `url` is its own authorization server.
    """
    for address in metadata_addresses(issuer, url):
        response = await send(create_oauth_metadata_request(address))
        _, metadata = await handle_auth_metadata_response(response)
        if metadata is not None:
            return metadata
    return None


async def _best_of(issuers: Sequence[str], url: str, preferred: Sequence[str], send: Send) -> str:
    for preference in preferred:
        for issuer in issuers:
            if issuers_match(issuer, preference):
                return issuer
    for issuer in issuers[:MOST_TRIED]:
        with contextlib.suppress(ConnectError, RefusedAddressError):
            metadata = await metadata_of(issuer, url, send)
            if metadata is not None and issuers_match(str(metadata.issuer), issuer):
                return issuer
    return issuers[0]


async def _issuers_in(response: httpx2.Response) -> list[str]:
    if response.status_code != HTTPStatus.OK or response.request.method != "GET":
        return []
    await response.aread()
    with contextlib.suppress(ValueError, RecursionError):
        match response.json():
            case {"authorization_servers": [*issuers]}:
                return [issuer for issuer in issuers if isinstance(issuer, str)]
            case _:
                pass
    return []
