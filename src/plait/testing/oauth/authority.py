"""The clients, codes and tokens of the test authorization server; no I/O."""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
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
        self.status = status


@dataclass(frozen=True, slots=True)
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


@dataclass
class Authority:
    """The state of an authorization server, and the switches that tests set."""

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
        self.advertised: tuple[str, ...] | None = None
        """The authorization servers in the resource metadata; `None` is this one."""
        self.held_refusals = 0
        """How many refusals are held back until the last of them is due."""
        self._clients: dict[str, Client] = {}
        self._codes: dict[str, Code] = {}
        self._tokens: dict[str, Token] = {}
        self._refresh_tokens: dict[str, Token] = {}
        self._refusals = 0
        self._lock = threading.Lock()

    def advertise(self, *issuers: str) -> None:
        """Name these authorization servers in the metadata of the MCP server."""
        self.advertised = issuers

    def add_client(
        self,
        client_id: str,
        *,
        secret: str | None = None,
        public_key: str | None = None,
        redirect_uris: tuple[str, ...] = (),
    ) -> None:
        """Register a client by hand: with a secret, or with the PEM of its public key."""
        self._clients[client_id] = Client(client_id, secret, public_key, redirect_uris)

    def forget_clients(self) -> None:
        """Remove every registered client."""
        self._clients.clear()

    def refuse_next(self, requests: int) -> None:
        """Answer the next requests to the MCP server with 401, whatever their token."""
        with self._lock:
            self._refusals = requests

    def take_refusal(self) -> bool:
        """Return whether to refuse a request though its token is valid, and count it."""
        with self._lock:
            due = self._refusals > 0
            self._refusals -= due
            return due

    def register(self, redirect_uris: tuple[str, ...]) -> str:
        """Register a client, and return its id."""
        self.counts["register"] += 1
        client_id = f"client-{len(self._clients) + 1}"
        self.add_client(client_id, redirect_uris=redirect_uris)
        return client_id

    def authorize(self, query: Mapping[str, str]) -> str:
        """Issue a code at once; consent is always granted."""
        self.counts["authorize"] += 1
        client_id, redirect_uri = query["client_id"], query["redirect_uri"]
        client = self._clients.get(client_id)
        if client is None and client_id.startswith("https://"):
            client = self._clients[client_id] = Client(client_id, redirect_uris=(redirect_uri,))
        if (
            client is None
            or redirect_uri not in client.redirect_uris
            or query.get("code_challenge_method") != "S256"
            or not query.get("resource", "").startswith(self.issuer)
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

    def knows(self, token: str) -> bool:
        """Return whether an access or refresh token is valid."""
        return token in self._refresh_tokens or self.grant_of(token) is not None

    def end_access(self, *, together: int = 0) -> None:
        """Expire every access token; refresh tokens stay valid.

        The first `together` requests are refused at the same moment, once all have arrived.
        """
        self._tokens.clear()
        self.held_refusals = together

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
        client = self._clients.get(name)
        if client is None or client.public_key is not None or client.secret not in (None, secret):
            raise RefusedError("invalid_client", 401)
        return client

    def _client_in(self, assertion: str) -> Client:
        """Check a signed statement: https://www.rfc-editor.org/rfc/rfc7523#section-3."""
        try:
            name = jwt.decode(assertion, options={"verify_signature": False})["sub"]
            client = self._clients[name]
            jwt.decode(
                assertion, client.public_key or "", algorithms=["RS256"], audience=self.issuer
            )
        except (jwt.PyJWTError, KeyError) as error:
            raise RefusedError("invalid_client", 401) from error
        return client
