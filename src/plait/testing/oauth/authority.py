"""The clients, codes and tokens of the test authorization server; no I/O."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import jwt

JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class RefusedError(Exception):
    """A request is refused, with an OAuth error code."""

    def __init__(self, code: str, status: int = 400) -> None:
        super().__init__(code)
        self.code = code
        self.status = status


@dataclass(slots=True)
class Client:
    """A registered OAuth client."""

    client_id: str
    secret: str | None = field(default=None, repr=False)
    public_key: str | None = None
    redirect_uris: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Code:
    """An authorization code that has not been exchanged yet."""

    client_id: str
    redirect_uri: str
    challenge: str
    scope: str


@dataclass(frozen=True, slots=True)
class Token:
    """What a token grants."""

    client_id: str
    scope: str
    expires_at: float


@dataclass(slots=True)
class Authority:
    """The state of an authorization server, and the switches that tests set."""

    issuer: str = ""
    scopes: tuple[str, ...] = ("read",)
    """The scopes that every request needs."""
    token_seconds: float = 3600.0
    rotate: bool = True
    """Whether a refresh token can be used only once."""
    refreshable: bool = True
    """Whether there are refresh tokens."""
    revocable: bool = True
    """Whether clients may revoke their tokens."""
    held_refusals: int = 0
    """How many refusals are held back until the last of them is due."""
    advertised: tuple[str, ...] | None = None
    """The authorization servers in the resource metadata; `None` is this one."""
    clients: dict[str, Client] = field(default_factory=dict[str, Client])
    counts: Counter[str] = field(default_factory=Counter[str])
    """How often each endpoint and each grant type was used."""
    _codes: dict[str, Code] = field(default_factory=dict[str, Code])
    _tokens: dict[str, Token] = field(default_factory=dict[str, Token])
    _refresh_tokens: dict[str, Token] = field(default_factory=dict[str, Token])
    issued: list[str] = field(default_factory=list[str])
    """Every code and token that was issued, for leak checks."""

    def register(self, redirect_uris: tuple[str, ...], secret: str | None = None) -> Client:
        """Register a client."""
        self.counts["register"] += 1
        client = Client(f"client-{len(self.clients) + 1}", secret, redirect_uris=redirect_uris)
        self.clients[client.client_id] = client
        return client

    def authorize(self, query: Mapping[str, str]) -> str:
        """Issue a code at once; consent is always granted."""
        self.counts["authorize"] += 1
        client_id, redirect_uri = query["client_id"], query["redirect_uri"]
        client = self.clients.get(client_id)
        if client is None and client_id.startswith("https://"):
            client = self.clients[client_id] = Client(client_id, redirect_uris=(redirect_uri,))
        if client is None or redirect_uri not in client.redirect_uris:
            raise RefusedError("invalid_request")
        if query.get("code_challenge_method") != "S256" or not query.get("resource", "").startswith(
            self.issuer
        ):
            raise RefusedError("invalid_request")
        code = secrets.token_urlsafe(24)
        scope = query.get("scope") or " ".join(self.scopes)
        self._codes[code] = Code(client_id, redirect_uri, query["code_challenge"], scope)
        self.issued.append(code)
        return code

    def token(self, form: Mapping[str, str], authorization: str | None) -> dict[str, Any]:
        """Exchange a code, a refresh token or client credentials for tokens."""
        grant = form.get("grant_type", "")
        self.counts[grant] += 1
        client = self._client_of(form, authorization)
        match grant:
            case "authorization_code":
                return self._for_code(client, form)
            case "refresh_token":
                return self._for_refresh_token(client, form)
            case "client_credentials":
                if client.secret is None and client.public_key is None:
                    raise RefusedError("unauthorized_client")
                return self._issue(client, form.get("scope") or " ".join(self.scopes), last=True)
            case _:
                raise RefusedError("unsupported_grant_type")

    def grant_of(self, access_token: str) -> Token | None:
        """Return what an access token grants; `None` if it is unknown or expired."""
        token = self._tokens.get(access_token)
        return token if token is not None and token.expires_at > time.time() else None

    def is_known(self, token: str) -> bool:
        """Return whether an access or refresh token is valid."""
        return token in self._refresh_tokens or self.grant_of(token) is not None

    def end_access(self) -> None:
        """Invalidate every access token; refresh tokens stay valid."""
        self._tokens.clear()

    def revoke(self) -> None:
        """Invalidate every token."""
        self._tokens.clear()
        self._refresh_tokens.clear()

    def revoke_token(self, form: Mapping[str, str], authorization: str | None) -> None:
        """Revoke a token of a client; with a refresh token, all tokens of the client.

        https://www.rfc-editor.org/rfc/rfc7009#section-2.1
        """
        self.counts["revoke"] += 1
        client = self._client_of(form, authorization)
        token = form.get("token", "")
        known = self._refresh_tokens.get(token) or self._tokens.get(token)
        if known is None or known.client_id != client.client_id:
            return
        ended = [token]
        if token in self._refresh_tokens:
            stored = {**self._refresh_tokens, **self._tokens}
            ended = [name for name, its in stored.items() if its.client_id == known.client_id]
        for name in ended:
            self._refresh_tokens.pop(name, None)
            self._tokens.pop(name, None)

    def _for_code(self, client: Client, form: Mapping[str, str]) -> dict[str, Any]:
        code = self._codes.pop(form.get("code", ""), None)
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if (
            code is None
            or code.client_id != client.client_id
            or code.redirect_uri != form.get("redirect_uri")
            or code.challenge != base64.urlsafe_b64encode(verifier).decode().rstrip("=")
        ):
            raise RefusedError("invalid_grant")
        return self._issue(client, code.scope)

    def _for_refresh_token(self, client: Client, form: Mapping[str, str]) -> dict[str, Any]:
        refresh_token = form.get("refresh_token", "")
        known = self._refresh_tokens.get(refresh_token)
        if known is None or known.client_id != client.client_id:
            raise RefusedError("invalid_grant")
        if not self.rotate:
            return self._issue(client, known.scope, last=True)
        del self._refresh_tokens[refresh_token]
        return self._issue(client, known.scope)

    def _issue(self, client: Client, scope: str, *, last: bool = False) -> dict[str, Any]:
        """Issue tokens; with `last`, no new refresh token."""
        access, refresh = (f"secret-{secrets.token_urlsafe(24)}" for _ in range(2))
        token = Token(client.client_id, scope, time.time() + self.token_seconds)
        self._tokens[access] = token
        self.issued.append(access)
        answer: dict[str, Any] = {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": int(self.token_seconds),
            "scope": scope,
        }
        if self.refreshable and not last:
            self._refresh_tokens[refresh] = token
            self.issued.append(refresh)
            answer["refresh_token"] = refresh
        return answer

    def _client_of(self, form: Mapping[str, str], authorization: str | None) -> Client:
        """Authenticate the client of a request."""
        scheme, _, encoded = (authorization or "").partition(" ")
        name, secret = form.get("client_id", ""), form.get("client_secret")
        if scheme.lower() == "basic":
            name, _, secret = base64.b64decode(encoded).decode().partition(":")
            name, secret = unquote(name), unquote(secret)
        if form.get("client_assertion_type") == JWT_BEARER:
            return self._client_in(form.get("client_assertion", ""))
        client = self.clients.get(name)
        if client is None or (client.secret is not None and client.secret != secret):
            raise RefusedError("invalid_client", 401)
        if client.public_key is not None:
            raise RefusedError("invalid_client", 401)
        return client

    def _client_in(self, assertion: str) -> Client:
        """Check a signed statement: https://www.rfc-editor.org/rfc/rfc7523#section-3."""
        try:
            name = jwt.decode(assertion, options={"verify_signature": False})["sub"]
            client = self.clients[name]
            jwt.decode(
                assertion, client.public_key or "", algorithms=["RS256"], audience=self.issuer
            )
        except (jwt.PyJWTError, KeyError) as error:
            raise RefusedError("invalid_client", 401) from error
        return client
