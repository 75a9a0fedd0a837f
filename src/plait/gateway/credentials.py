"""The settings of the gateway, tokens for its servers, and the headers of requests.

Only structure and expiry are checked; the receiver of a token checks its signature.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
import os
import platform
import re
import secrets
import time
import tomllib
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import quote, urlsplit

from plait._support.redact import Redactor
from plait.client.config.urls import is_private, public_url
from plait.errors import ConfigError, TokenError
from plait.gateway.history import Authorization, TurnContext
from plait.gateway.manifest import GatewayServer

PLATFORM = "https://agent365.svc.cloud.microsoft"
"""The hosted gateway."""

PLATFORM_APPLICATION = "ea9ffc3e-8a23-4a7d-836d-234d7c7565c1"
"""The application, and audience, that all older tool servers share."""

DEFAULT_SCOPE = f"{PLATFORM_APPLICATION}/.default"

NO_APPLICATION = "00000000-0000-0000-0000-000000000000"
"""The id of an unknown agent."""

_ENVIRONMENTS = (
    "PYTHON_ENVIRONMENT",
    "ENVIRONMENT",
    "ASPNETCORE_ENVIRONMENT",
    "DOTNET_ENVIRONMENT",
)

ApiVersion = Literal[1, 2]
"""The version of the gateway's API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """URLs and mode of the gateway."""

    endpoint: str = PLATFORM
    scope: str = DEFAULT_SCOPE
    api_version: ApiVersion = 2
    development: bool = False
    """Whether tokens come from the environment instead of a token exchange."""
    use_manifest: bool = False
    """Whether servers come from a `ToolingManifest.json`."""

    def discovery_url(self, agent: str) -> str:
        """Return the URL that lists the servers of an agent."""
        version = "" if self.api_version == 1 else "v2/"
        return f"{self.endpoint}/agents/{version}{quote(agent, safe='')}/mcpServers"

    def server_url(self, name: str) -> str:
        """Return the URL of a server whose entry has none."""
        return f"{self.endpoint}/agents/servers/{quote(name, safe='')}"

    @property
    def catalogue_url(self) -> str:
        """The URL that lists all servers."""
        return f"{self.endpoint}/agents/discoverToolServers"

    @property
    def history_url(self) -> str:
        """The URL that receives chat history."""
        return f"{self.endpoint}/agents/real-time-threat-protection/chat-message"


def settings_from(
    environ: Mapping[str, str] | None = None,
    *,
    endpoint: str | None = None,
    scope: str | None = None,
    use_manifest: bool | None = None,
    api_version: ApiVersion = 2,
) -> GatewaySettings:
    """Read the settings; arguments win over the environment."""
    variables = os.environ if environ is None else environ
    named = next((variables[name] for name in _ENVIRONMENTS if variables.get(name)), "")
    development = named.strip().lower() == "development" or use_manifest is True
    address = (endpoint or variables.get("MCP_PLATFORM_ENDPOINT") or PLATFORM).strip().rstrip("/")
    if urlsplit(address).scheme not in {"http", "https"} or not urlsplit(address).netloc:
        raise ConfigError(f"MCP_PLATFORM_ENDPOINT is not the address of a gateway: {address!r}")
    return GatewaySettings(
        endpoint=address,
        scope=scope or variables.get("MCP_PLATFORM_AUTHENTICATION_SCOPE") or DEFAULT_SCOPE,
        api_version=api_version,
        development=development,
        use_manifest=development if use_manifest is None else use_manifest,
    )


logger = logging.getLogger("plait.gateway")

_PARTS = 3


def claims_of(token: str) -> dict[str, Any]:
    """Decode the claims of a token."""
    if not token.strip():
        raise TokenError("Authentication token is required")
    parts = token.split(".")
    if len(parts) != _PARTS:
        raise TokenError("Invalid JWT token format")
    try:
        body = parts[1].encode("ascii")
        text = base64.b64decode(body + b"=" * (-len(body) % 4), altchars=b"-_", validate=True)
        claims: object = json.loads(text)
    except (ValueError, binascii.Error, RecursionError) as error:
        raise TokenError("Failed to decode JWT token payload") from error
    if not isinstance(claims, dict):
        raise TokenError("Failed to decode JWT token payload")
    return cast("dict[str, Any]", claims)


def check_token(token: str, *, now: float | None = None) -> None:
    """Check the structure and expiry of a token."""
    expiry = claims_of(token).get("exp")
    if not isinstance(expiry, int | float) or isinstance(expiry, bool) or not expiry:
        raise TokenError("Authentication token does not contain expiration claim")
    if expiry < (time.time() if now is None else now):
        raise TokenError("Authentication token has expired")


def is_expired(token: str, *, now: float | None = None) -> bool:
    """Say whether a text is an expired token; a text that is no token is not."""
    try:
        expiry = claims_of(token).get("exp")
    except TokenError:
        return False
    return isinstance(expiry, int | float) and expiry < (time.time() if now is None else now)


def claim(token: str, *names: str) -> str:
    """Return the first of these claims that a token has, or an empty string."""
    try:
        claims: Mapping[str, Any] = claims_of(token)
    except TokenError:
        return ""
    return next((str(claims[name]) for name in names if claims.get(name)), "")


def scope_for(server: GatewayServer, settings: GatewaySettings) -> str:
    """Return the scope of the token for a server: the shared one, or its own."""
    audience = (server.audience or "").strip()
    shared = settings.scope.rpartition("/")[0].lower()
    plain = audience.lower().removeprefix("api://")
    if plain in {"", "default", PLATFORM_APPLICATION, shared, shared.removeprefix("api://")}:
        return settings.scope
    return f"{audience}/{server.scope or '.default'}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The tokens of one turn by server; an empty one is not sent."""

    tokens: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    failures: Mapping[str, TokenError] = field(default_factory=dict[str, TokenError])


@dataclass
class TokenSource:
    """Gets the tokens of one turn by token exchange, or in development from the environment."""

    settings: GatewaySettings
    authorization: Authorization | None = None
    auth_handler_name: str | None = None
    turn: TurnContext | None = None
    token: str = field(default="", repr=False)
    """The caller's token, if there is one already."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    _exchanged: dict[str, str | TokenError] = field(
        default_factory=dict[str, "str | TokenError"], init=False, repr=False
    )

    def __post_init__(self) -> None:
        self.token = _bare(self.token)

    async def shared(self) -> str:
        """Return the token for the gateway itself; in development it may be empty."""
        if self.token:
            check_token(self.token)
            return self.token
        if self.settings.development:
            return self._from_environ("BEARER_TOKEN")
        text = "Failed to obtain authentication token from token exchange"
        return await self._exchange(self.settings.scope, text)

    async def for_servers(self, servers: Iterable[GatewayServer], shared: str) -> Credentials:
        """Return the token of each server, and the reasons for missing ones."""
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
        """Return the token for a server: a shared one, or one of its own."""
        name, scope = server.mcp_server_name, scope_for(server, self.settings)
        token = None
        if self.settings.development:
            upper = name.upper()
            for suffix in (upper, re.sub(r"[^A-Z0-9]", "_", upper)):
                token = token or self._from_environ(f"BEARER_TOKEN_{suffix}", name)
            if not token:
                if scope != self.settings.scope:
                    logger.warning("%s needs its own token, and gets the shared one if any", name)
                token = self._from_environ("BEARER_TOKEN", name) or self.token
        if token != "" and not is_private(server.url):
            raise TokenError("a token is not sent over plain HTTP to another machine")
        if token is not None:
            return token
        if scope == self.settings.scope:
            return shared
        text = f"Failed to obtain token for MCP server '{name}' (scope: {scope})"
        return await self._exchange(scope, text)

    def _from_environ(self, variable: str, server: str = "") -> str:
        token = _bare(self.environ.get(variable, ""))
        if is_expired(token):
            where = f"{server}: {variable}" if server else variable
            raise TokenError(f"{where}: Authentication token has expired")
        return token

    async def _exchange(self, scope: str, failure: str) -> str:
        """Get a token, by one exchange for each scope, and check it."""
        if scope not in self._exchanged:
            if self.authorization is None or self.turn is None:
                answer = TokenError("there is no one to request it from: set `authorization`")
            else:
                try:
                    exchanged = await self.authorization.exchange_token(
                        self.turn, scopes=[scope], auth_handler_id=self.auth_handler_name
                    )
                    token = _bare(getattr(exchanged, "token", None) or "")
                    answer = token or TokenError("")
                except Exception as error:  # noqa: BLE001  # boundary: a host may raise anything
                    text = Redactor().excerpt(str(error))
                    answer = TokenError(f"{type(error).__name__}: {text}".removesuffix(": "))
                    answer.__cause__ = error
            self._exchanged[scope] = answer
        answer = self._exchanged[scope]
        if isinstance(answer, TokenError):
            text = f"{failure}: {answer.message}".removesuffix(": ")
            raise TokenError(text) from answer.__cause__
        check_token(answer)
        return answer


def _bare(token: str) -> str:
    """Remove a leading `Bearer`."""
    text = token.strip()
    return text[7:].strip() if text[:7].lower() == "bearer " else text


SDK_VERSION = "2.0.0"
"""The version of the platform's own library that these headers follow."""

_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
"""Characters allowed in headers; other ones, as in ids of channels, are percent-encoded."""

_SALT = secrets.token_bytes(16)
"""Makes keys differ between processes, so that a leaked one is useless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRequestOptions:
    """Options of a request to the gateway."""

    orchestrator_name: str | None = None
    """The agent framework, for the `User-Agent` header."""


def tool_headers(
    settings: GatewaySettings,
    options: GatewayRequestOptions,
    *,
    token: str = "",
    turn: TurnContext | None = None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the headers for tool servers, without those that have no value."""
    authorization = {"Authorization": f"Bearer {token}" if token else ""}
    headers = {**authorization, **_common_headers(options, turn)}
    if settings.api_version != 1:
        headers["x-ms-agentid"] = caller_of(turn, token, application_name(environ))
    return _sendable(headers)


def discovery_headers(
    settings: GatewaySettings,
    options: GatewayRequestOptions,
    *,
    token: str,
    turn: TurnContext | None = None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the headers for listing servers; version 1 of the API has only two of them."""
    if settings.api_version == 1:
        return tool_headers(settings, options, token=token)
    headers = tool_headers(settings, options, token=token, turn=turn, environ=environ)
    activity = None if turn is None else turn.activity.id
    return _sendable({**headers, "x-ms-correlation-id": activity or str(uuid.uuid4())})


def history_headers(
    options: GatewayRequestOptions, turn: TurnContext | None = None
) -> dict[str, str]:
    """Return the headers for chat history, which is sent without a token."""
    return _sendable({**_common_headers(options, turn), "Content-Type": "application/json"})


def _common_headers(options: GatewayRequestOptions, turn: TurnContext | None) -> dict[str, str]:
    channel, sub_channel = ("", "") if turn is None else channels_of(turn)
    known = (platform.system(), f"Python {platform.python_version()}", options.orchestrator_name)
    return {
        "x-ms-channel-id": channel,
        "x-ms-subchannel-id": sub_channel,
        "User-Agent": f"Agent365SDK/{SDK_VERSION} ({'; '.join(filter(None, known))})",
    }


def _sendable(headers: Mapping[str, str]) -> dict[str, str]:
    """Drop headers without a value, and percent-encode characters that are not allowed."""
    return {name: quote(value, safe=_PRINTABLE) for name, value in headers.items() if value}


def application_name(environ: Mapping[str, str] | None = None) -> str:
    """Return the name of the application, from the environment or its `pyproject.toml`."""
    variables = os.environ if environ is None else environ
    return variables.get("AGENT365_APPLICATION_NAME") or _project_name(Path.cwd())


@lru_cache(maxsize=8)
def _project_name(folder: Path) -> str:
    try:
        project: Any = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
        return str(project["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def agent_of(turn: TurnContext, token: str) -> str:
    """Return the id of the agent that is addressed.

    An agent without an identity of its own is identified by the application of its token.
    """
    if turn.activity.is_agentic_request():
        return turn.activity.get_agentic_instance_id() or ""
    return claim(token, "appid", "azp") if token.strip() else NO_APPLICATION


def caller_of(turn: TurnContext | None, token: str, application_name: str) -> str:
    """Return the id that an agent sends to servers (`x-ms-agentid`)."""
    sender: Any = None if turn is None else getattr(turn.activity, "from_property", None)
    for name in ("agentic_app_blueprint_id", "agenticAppBlueprintId"):
        if blueprint := getattr(sender, name, None):
            return str(blueprint)
    return claim(token, "xms_par_app_azp", "appid", "azp") or application_name


def channels_of(turn: TurnContext) -> tuple[str, str]:
    """Return channel and sub-channel of a turn; a missing one is empty."""
    whole = turn.activity.channel_id or ""
    outer, _, inner = whole.partition(":")
    channel = getattr(whole, "channel", None) or outer
    sub_channel = getattr(whole, "sub_channel", None) or inner
    return str(channel).strip(), str(sub_channel).strip()


def user_key(turn: TurnContext, token: str, *, accepted: bool = True) -> str:
    """Return a hash that identifies the user of a turn on its channel.

    It differs between users: the owner of the token and the sender of the message are part of it.
    A token that no gateway has `accepted` speaks for itself only: its claims may be forged; so
    does one that names no owner. The owner stays the same when a token is renewed.
    """
    owner = [claim(token, name) for name in ("tid", "oid", "sub", "appid", "azp")]
    if not accepted or not any(owner[1:3]):
        owner = [token]
    sender: Any = getattr(turn.activity, "from_property", None)
    ids = (str(getattr(sender, name, None) or "") for name in ("id", "aad_object_id"))
    return fingerprint(*owner, *ids, agent_of(turn, token), *channels_of(turn))


def fingerprint(*parts: str) -> str:
    """Return a hash that identifies a token, or what the parts say together."""
    # With lengths, so that no part can pretend to be two.
    text = "".join(f"{len(part)}:{part}" for part in parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, key=_SALT, digest_size=16).hexdigest()
