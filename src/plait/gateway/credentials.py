"""Which token each server of an agent gets; one that cannot be had costs that server only."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from plait._support.redact import Redactor
from plait.client.config.urls import is_private, public_url
from plait.errors import TokenError
from plait.gateway.entries import GatewayServer
from plait.gateway.port import Authorization, TurnContext
from plait.gateway.settings import GatewaySettings
from plait.gateway.tokens import check_token, is_over, scope_for

logger = logging.getLogger("plait.gateway")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The tokens of one turn, by server; an empty one means that none is sent."""

    tokens: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    failures: Mapping[str, TokenError] = field(default_factory=dict[str, TokenError])


class TokenSource:
    """Gets the tokens of one turn: from an exchange, or in development from the environment."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        authorization: Authorization | None = None,
        auth_handler_name: str | None = None,
        turn: TurnContext | None = None,
        given: str = "",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Take the token that the caller has already, if there is one."""
        self._settings = settings
        self._authorization = authorization
        self._handler = auth_handler_name
        self._turn = turn
        self._given = _bare(given)
        self._environ = os.environ if environ is None else environ
        self._exchanged: dict[str, str | _NoToken] = {}

    async def shared(self) -> str:
        """Return the token for the gateway itself; development may do without.

        Raises:
            TokenError: There is none, or it is of no use.
        """
        if self._given:
            check_token(self._given)
            return self._given
        if self._settings.development:
            token = _bare(self._environ.get("BEARER_TOKEN", ""))
            if is_over(token):
                raise TokenError("BEARER_TOKEN: Authentication token has expired")
            return token
        text = "Failed to obtain authentication token from token exchange"
        token = await self._exchange(self._settings.scope, text)
        check_token(token)
        return token

    async def for_servers(self, servers: Iterable[GatewayServer], shared: str) -> Credentials:
        """Return the token of each server, and why some have none."""
        tokens: dict[str, str] = {}
        failures: dict[str, TokenError] = {}
        for server in servers:
            name = server.mcp_server_name
            try:
                tokens[name] = await self._for_server(server, shared)
            except TokenError as error:
                text = error.message if name in error.message else f"{name}: {error.message}"
                failures[name] = TokenError(text, server=name, url=public_url(server.url))
                failures[name].__cause__ = error.__cause__
        return Credentials(tokens, failures)

    async def _for_server(self, server: GatewayServer, shared: str) -> str:
        if self._settings.development:
            return self._in_development(server)
        if not is_private(server.url):
            raise TokenError("a token is not sent over plain HTTP to another machine")
        scope = scope_for(server, self._settings)
        if scope == self._settings.scope:
            return shared
        text = f"Failed to obtain token for MCP server '{server.mcp_server_name}' (scope: {scope})"
        token = await self._exchange(scope, text)
        check_token(token)
        return token

    def _in_development(self, server: GatewayServer) -> str:
        name = server.mcp_server_name
        if own := self._of_its_own(name):
            return own
        if scope_for(server, self._settings) != self._settings.scope:
            logger.warning("%s wants a token of its own, and gets the shared one if any", name)
        token = _bare(self._environ.get("BEARER_TOKEN", ""))
        if is_over(token):
            raise TokenError(f"{name}: BEARER_TOKEN: Authentication token has expired")
        return token or self._given

    def _of_its_own(self, server: str) -> str:
        upper = server.upper()
        for name in (f"BEARER_TOKEN_{upper}", f"BEARER_TOKEN_{re.sub(r'[^A-Z0-9]', '_', upper)}"):
            if token := _bare(self._environ.get(name, "")):
                if is_over(token):
                    raise TokenError(f"{server}: {name}: Authentication token has expired")
                return token
        return ""

    async def _exchange(self, scope: str, failure: str) -> str:
        """Exchange a token, once for each scope."""
        if scope not in self._exchanged:
            self._exchanged[scope] = await self._asked(scope)
        found = self._exchanged[scope]
        if isinstance(found, _NoToken):
            reason = f": {found.reason}" if found.reason else ""
            raise TokenError(f"{failure}{reason}") from found.cause
        return found

    async def _asked(self, scope: str) -> str | _NoToken:
        if self._authorization is None or self._turn is None:
            return _NoToken("there is nobody to ask for one: give `authorization`")
        try:
            answer = await self._authorization.exchange_token(
                self._turn, scopes=[scope], auth_handler_id=self._handler
            )
        except Exception as error:  # noqa: BLE001  # boundary: hosts raise what they like
            said = Redactor().excerpt(str(error))
            return _NoToken(f"{type(error).__name__}: {said}".removesuffix(": "), error)
        return _bare(answer.token or "") or _NoToken()


@dataclass(frozen=True, slots=True)
class _NoToken:
    """Why an exchange gave no token."""

    reason: str = ""
    cause: Exception | None = None


def _bare(token: str) -> str:
    """Return the token without the word that may stand before it."""
    text = token.strip()
    return text[7:].strip() if text[:7].lower() == "bearer " else text
