"""Running the test authorization server in a thread, with its switches at hand."""

from __future__ import annotations

import threading
from collections import Counter
from types import TracebackType
from typing import Self

from plait.testing.oauth.app import build_app
from plait.testing.oauth.authority import Authority, Client
from plait.testing.ports import bind
from plait.testing.thread_server import ThreadServer


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
        """How often each thing was asked for.

        `authorize`, `register`, `metadata`, `resource_metadata`, `mcp`, `unauthorized`,
        `forbidden`, `revoke`, and the grants `authorization_code`, `refresh_token`,
        `client_credentials`.
        """
        return self._authority.counts

    @property
    def issued(self) -> tuple[str, ...]:
        """Every code and token that was handed out, to look for where none may be."""
        return tuple(self._authority.issued)

    def advertise(self, *issuers: str) -> None:
        """Name these authorization servers in the metadata of the MCP server."""
        self._authority.advertised = issuers

    def knows(self, token: str) -> bool:
        """Say whether an access or refresh token is good for anything."""
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
        """End every access token, as if its time were over; refresh tokens stay good.

        The first `together` requests are refused at the same moment, when all of them are there.
        """
        self._authority.end_access()
        self._authority.storm = together

    def revoke(self) -> None:
        """End every login."""
        self._authority.revoke()

    def forget_clients(self) -> None:
        """Forget every client that registered."""
        self._authority.clients.clear()

    def refuse_next(self, requests: int) -> None:
        """Answer the next requests to the MCP server with 401, whatever token they have."""
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
    """Return a server that entering its context starts.

    `scopes` is what every request needs, `token_seconds` how long access tokens last, `rotate`
    whether a refresh token can be used only once, `refreshable` whether there are any, and
    `revocable` whether clients may end their tokens.
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
