"""Lists the tool servers of agents, and sends chat history."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Self, TypedDict, Unpack

from plait._support.clock import Clock, SystemClock
from plait._support.durations import checked_seconds
from plait._support.redact import Redactor
from plait._support.suggestions import did_you_mean
from plait._support.threads import in_thread
from plait.client.catalog.tool import Tool
from plait.client.config.servers import HttpServer
from plait.client.config.timing import ReconnectPolicy
from plait.client.config.urls import is_private, public_url
from plait.client.toolbox import Toolbox
from plait.errors import ChatHistoryError, ConfigError, DiscoveryError, OutboxError, TokenError
from plait.gateway.credentials import check_token, is_expired
from plait.gateway.entries import GatewayServer, ServerList, entries_of, servers_from
from plait.gateway.headers import (
    GatewayRequestOptions,
    discovery_headers,
    history_headers,
    token_key,
)
from plait.gateway.history import (
    ChatHistory,
    ChatHistoryMessage,
    OperationError,
    OperationResult,
    Redact,
    history_of,
)
from plait.gateway.http import get_with_retries, is_refused, send
from plait.gateway.manifest import read_manifest
from plait.gateway.outbox import Outbox
from plait.gateway.port import TurnContext
from plait.gateway.settings import NO_APPLICATION, ApiVersion, GatewaySettings, settings_from
from plait.gateway.shared_cache import SharedCache

logger = logging.getLogger("plait.gateway")

_STALE_SECONDS = 30.0
"""How long a stale list is used before a gateway that failed is tried again."""

_LONGEST_LOGGED = 500
_NOT_ARRIVED = "chat history did not arrive"

DEFAULT_RETRY = ReconnectPolicy(max_attempts=3, first_delay_seconds=0.5, longest_delay_seconds=10.0)


class GatewayOptions(TypedDict, total=False):
    """Options of the gateway services."""

    endpoint: str | None
    """The URL of the gateway; by default `MCP_PLATFORM_ENDPOINT`, else the hosted one."""
    scope: str | None
    """The scope of the token that most servers share."""
    use_manifest: bool | None
    """Whether servers come from `ToolingManifest.json`; by default in development only."""
    manifest: str | os.PathLike[str] | None
    """The path of that file."""
    api_version: ApiVersion
    ttl_seconds: float
    """How long a list of servers is cached."""
    timeout_seconds: float
    """The timeout for listing servers, retries included, and for sending chat history."""
    retry: ReconnectPolicy
    outbox: str | os.PathLike[str] | Outbox | None
    """Stores chat history before it is sent; without, it is sent at once."""
    redact: Redact | bool | None
    """Removes secrets from chat history; `True` for texts that look like secrets."""
    environ: Mapping[str, str] | None
    """Replaces the environment variables of the process."""
    clock: Clock


class McpToolServerConfigurationService:
    """Lists the tool servers of agents, and sends chat history to the gateway.

    One service is enough for all turns of a program, from any loop. Lists are cached; `aclose`
    stops background work.
    """

    def __init__(self, **options: Unpack[GatewayOptions]) -> None:
        """Take the options."""
        _check_names(options)
        self._options = options
        self._timeout_seconds = checked_seconds(
            options.get("timeout_seconds", 30.0), "timeout_seconds"
        )
        self._clock = options.get("clock") or SystemClock()
        ttl_seconds = checked_seconds(
            options.get("ttl_seconds", 300.0), "ttl_seconds", may_be_zero=True
        )
        self._lists: SharedCache[ServerList] = SharedCache(ttl_seconds, self._clock)
        outbox = options.get("outbox")
        self._outbox = Outbox(outbox) if isinstance(outbox, str | os.PathLike) else outbox
        if self._outbox is not None:
            # What waits since the endpoint was another one goes to the new one too.
            self._outbox.current_url = lambda: self.settings().history_url
            self._outbox.resume()
        redact = options.get("redact")
        self._redact: Redact | None = Redactor() if redact is True else redact or None

    @property
    def outbox(self) -> Outbox | None:
        """The outbox, if there is one."""
        return self._outbox

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment variables in use."""
        environ = self._options.get("environ")
        return os.environ if environ is None else environ

    def settings(self) -> GatewaySettings:
        """Read the current settings.

        Raises:
            ConfigError: The endpoint is not an HTTP(S) URL.
        """
        return settings_from(
            self.environ,
            endpoint=self._options.get("endpoint"),
            scope=self._options.get("scope"),
            use_manifest=self._options.get("use_manifest"),
            api_version=self._options.get("api_version", 2),
        )

    async def list_tool_servers(
        self,
        agentic_app_id: str = "",
        auth_token: str = "",
        options: GatewayRequestOptions | None = None,
        *,
        turn_context: TurnContext | None = None,
    ) -> ServerList:
        """List the tool servers of an agent, in development those of the manifest.

        Entries that cannot be used are in `skipped`.

        Raises:
            ConfigError: The agent is missing.
            TokenError: The token is missing, malformed or expired.
            DiscoveryError: The gateway failed, and there is no earlier list.
            ManifestError: The manifest cannot be read.
        """
        settings = self.settings()
        if settings.use_manifest:
            path = self._options.get("manifest")
            servers = await in_thread(
                read_manifest, None if path is None else Path(path), settings.server_url
            )
            _log_skipped(servers)
            return servers
        if not settings.development:
            check_token(auth_token)
        elif is_expired(auth_token):
            raise TokenError("Authentication token has expired")
        agent = agentic_app_id.strip() or (NO_APPLICATION if settings.development else "")
        if not agent:
            raise ConfigError("agentic_app_id is required")
        return await self._cached_list(
            settings, agent, auth_token, options or GatewayRequestOptions(), turn_context
        )

    async def list_available_servers(
        self, auth_token: str = "", options: GatewayRequestOptions | None = None
    ) -> ServerList:
        """List all servers of the gateway, for any agent.

        Raises:
            DiscoveryError: The gateway failed.
        """
        settings = self.settings()
        headers = discovery_headers(
            settings, options or GatewayRequestOptions(), token=auth_token, environ=self.environ
        )
        return await self._fetch_list(settings, settings.catalogue_url, headers)

    async def _cached_list(
        self,
        settings: GatewaySettings,
        agent: str,
        token: str,
        options: GatewayRequestOptions,
        turn: TurnContext | None,
    ) -> ServerList:
        url = settings.discovery_url(agent)
        headers = discovery_headers(settings, options, token=token, turn=turn, environ=self.environ)
        # By the token itself: its claims are not checked here, so that anybody can forge them.
        key = (url, token_key(token))
        try:
            return await self._lists.get(key, partial(self._fetch_list, settings, url, headers))
        except DiscoveryError as error:
            stale = self._lists.stale(key)
            if stale is None or is_refused(error):
                raise
            logger.warning("using the earlier list of servers: %s", error)
            self._lists.prolong(key, _STALE_SECONDS)
            return stale

    async def _fetch_list(
        self, settings: GatewaySettings, url: str, headers: Mapping[str, str]
    ) -> ServerList:
        answer = await get_with_retries(
            url,
            headers,
            policy=self._options.get("retry", DEFAULT_RETRY),
            timeout_seconds=self._timeout_seconds,
            clock=self._clock,
        )
        try:
            document: object = json.loads(answer.body or b"null")
        except (ValueError, RecursionError) as error:
            text = f"Failed to parse MCP server configuration response: {public_url(url)}: {error}"
            raise DiscoveryError(text, url=public_url(url), status=answer.status) from error
        entries = entries_of(document)
        if entries is None:
            logger.warning("the reply of %s has no list of servers", public_url(url))
            return ServerList()
        servers = servers_from(entries, settings.server_url)
        _log_skipped(servers)
        return servers

    async def get_mcp_client_tools(self, name: str, config: GatewayServer | None) -> list[Tool]:
        """List the tools of one server, over a connection that is closed afterwards.

        Raises:
            ConfigError: The server has no URL.
            PlaitError: It cannot be reached.
        """
        if config is None:
            raise ConfigError("Invalid MCP Server Configuration")
        if not config.url.strip():
            raise ConfigError("MCP Server URL cannot be null or empty", server=name)
        server = HttpServer(url=config.url, headers=dict(config.headers), required=True)
        info = {"name": f"{name} Client", "version": "1.0"}
        async with Toolbox({name: server}, client_info=info) as box:
            return await box.tools(name)

    async def send_chat_history(
        self,
        turn_context: TurnContext | None,
        chat_history_messages: Iterable[ChatHistoryMessage] | None,
        options: GatewayRequestOptions | None = None,
    ) -> OperationResult:
        """Send chat history, or store it in the outbox; an empty one registers the message.

        Failures are returned, not raised.

        Raises:
            ConfigError: An argument is missing, or the turn lacks an id or a text.
        """
        if turn_context is None:
            raise ConfigError("turn_context is required")
        if chat_history_messages is None:
            raise ConfigError("chat_history_messages is required")
        history = history_of(turn_context, chat_history_messages)
        return await self.deliver(
            history, history_headers(options or GatewayRequestOptions(), turn_context)
        )

    async def deliver(self, history: ChatHistory, headers: Mapping[str, str]) -> OperationResult:
        """Send chat history, or store it in the outbox; failures are returned.

        Raises:
            ConfigError: The endpoint is not an HTTP(S) URL.
        """
        settings = self.settings()
        url = settings.history_url
        try:
            if not settings.development and not is_private(url):
                text = "chat history is not sent over plain HTTP to another machine"
                raise ChatHistoryError(f"{text}: {public_url(url)}", url=public_url(url))
            if self._redact is not None:
                history = history.redacted(self._redact)
            if self._outbox is None:
                await send(
                    "POST",
                    url,
                    headers,
                    history.body(),
                    self._timeout_seconds,
                    error=ChatHistoryError,
                    texts=(_NOT_ARRIVED, _NOT_ARRIVED),
                    limit=_LONGEST_LOGGED,
                )
            else:
                conversation = history.conversation_id
                await in_thread(self._outbox.put, conversation, url, headers, history.body())
        except (ChatHistoryError, OutboxError) as error:
            logger.warning("%s", error)
            return OperationResult.failed(OperationError(error))
        except Exception as error:  # boundary: the user's `redact` may raise anything
            logger.exception("chat history was not sent")
            return OperationResult.failed(OperationError(error))
        return OperationResult.success()

    async def aclose(self) -> None:
        """Stop background work; what is in the outbox stays there."""
        if self._outbox is not None:
            await in_thread(self._outbox.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


def _check_names(options: GatewayOptions) -> None:
    known = GatewayOptions.__annotations__
    for name in options.keys() - known.keys():
        hint = did_you_mean(name, known) or f"there are: {', '.join(sorted(known))}"
        raise ConfigError(f"the gateway has no option {name!r} ({hint})")


def _log_skipped(servers: ServerList) -> None:
    for skipped in servers.skipped:
        logger.warning("a tool server is left out: %s", skipped)
