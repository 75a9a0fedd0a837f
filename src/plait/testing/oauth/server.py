"""The test authorization server in a thread, and the switches that tests set."""

from __future__ import annotations

import threading
from collections import Counter
from types import TracebackType
from typing import Self

from plait.testing.http_server import ThreadServer
from plait.testing.oauth.app import build_app
from plait.testing.oauth.authority import Authority, Client
from plait.testing.ports import bind


class OAuthServer:
    """An authorization server and a protected MCP server on one port of this machine."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._refusals = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        listener = bind()
        self.issuer = self._authority.issuer = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.url = f"{self.issuer}/mcp"
        self.sse_url = f"{self.issuer}/sse"
        app = build_app(self._authority, self._take_refusal)
        self._server = ThreadServer(app, name="the test authorization server")
        self._server.start(listener)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.stop()

    @property
    def counts(self) -> Counter[str]:
        """How often each endpoint and each grant type was used.

        `authorize`, `register`, `metadata`, `resource_metadata`, `mcp`, `unauthorized`,
        `forbidden`, `revoke`, and the grants `authorization_code`, `refresh_token`,
        `client_credentials`.
        """
        return self._authority.counts

    @property
    def issued(self) -> tuple[str, ...]:
        """Every code and token that was issued, for leak checks."""
        return tuple(self._authority.issued)

    def advertise(self, *issuers: str) -> None:
        """Name these authorization servers in the metadata of the MCP server."""
        self._authority.advertised = issuers

    def knows(self, token: str) -> bool:
        """Return whether an access or refresh token is valid."""
        return self._authority.is_known(token)

    def add_client(
        self,
        client_id: str,
        *,
        secret: str | None = None,
        public_key: str | None = None,
        redirect_uris: tuple[str, ...] = (),
    ) -> None:
        """Register a client by hand: with a secret, or with the PEM of its public key."""
        self._authority.clients[client_id] = Client(client_id, secret, public_key, redirect_uris)

    def end_access(self, *, together: int = 0) -> None:
        """Expire every access token; refresh tokens stay valid.

        The first `together` requests are refused at the same moment, once all have arrived.
        """
        self._authority.end_access()
        self._authority.held_refusals = together

    def revoke(self) -> None:
        """Invalidate every token."""
        self._authority.revoke()

    def forget_clients(self) -> None:
        """Remove every registered client."""
        self._authority.clients.clear()

    def refuse_next(self, requests: int) -> None:
        """Answer the next requests to the MCP server with 401, whatever their token."""
        with self._lock:
            self._refusals = requests

    def _take_refusal(self) -> bool:
        with self._lock:
            due = self._refusals > 0
            self._refusals -= due
            return due


def oauth_server(
    *,
    scopes: tuple[str, ...] = ("read",),
    token_seconds: float = 3600.0,
    rotate: bool = True,
    refreshable: bool = True,
    revocable: bool = True,
) -> OAuthServer:
    """Return a server; entering its context starts it.

    `scopes` are needed by every request, `token_seconds` is the lifetime of access tokens,
    `rotate` whether a refresh token can be used only once, `refreshable` whether there are refresh
    tokens, and `revocable` whether clients may revoke tokens.
    """
    return OAuthServer(
        Authority(
            scopes=scopes,
            token_seconds=token_seconds,
            rotate=rotate,
            refreshable=refreshable,
            revocable=revocable,
        )
    )
