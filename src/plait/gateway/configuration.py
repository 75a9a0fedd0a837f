"""Lists the tool servers of agents, verifies their tools, and sends chat history."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypedDict, TypeVar, Unpack

from cachetools import LRUCache

from plait._support.clock import Clock, SystemClock
from plait._support.durations import checked_seconds
from plait._support.redact import Redactor
from plait._support.suggestions import did_you_mean
from plait._support.threads import in_thread
from plait.client.catalog.tool import Tool
from plait.client.config.servers import HttpServer, ReconnectPolicy
from plait.client.config.urls import is_private, public_url
from plait.client.toolbox import Toolbox
from plait.errors import (
    ChatHistoryError,
    ConfigError,
    DiscoveryError,
    OutboxError,
    PlaitError,
    TokenError,
)
from plait.gateway.credentials import (
    NO_APPLICATION,
    ApiVersion,
    Credentials,
    GatewayRequestOptions,
    GatewaySettings,
    check_token,
    discovery_headers,
    fingerprint,
    history_headers,
    is_expired,
    settings_from,
)
from plait.gateway.history import (
    ChatHistory,
    ChatHistoryMessage,
    OperationError,
    OperationResult,
    Redact,
    TurnContext,
    history_of,
)
from plait.gateway.manifest import (
    GatewayServer,
    ServerList,
    entries_of,
    read_manifest,
    servers_from,
)
from plait.gateway.outbox import Outbox, get_with_retries, is_refused, send

T = TypeVar("T")


class SharedCache(Generic[T]):
    """Caches values for a while; may be used from any loop and any thread.

    Expired values stay available to `stale` until newer ones need their place.
    """

    def __init__(self, ttl_seconds: float, clock: Clock, *, max_entries: int = 1024) -> None:
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: LRUCache[Hashable, tuple[T, float]] = LRUCache(max_entries)
        """Values, and when they expire."""
        self._pending: dict[Hashable, concurrent.futures.Future[None]] = {}

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        """Return the cached value, or compute and cache it; a failure is not cached."""
        while True:
            with self._lock:
                entry = self._entries.get(key)
                if entry is not None and self._clock.monotonic() < entry[1]:
                    return entry[0]
                pending = self._pending.get(key)
                if pending is None:
                    mine = self._pending[key] = concurrent.futures.Future()
                    break
            await asyncio.wrap_future(pending)
        try:
            value = await compute()
            with self._lock:
                self._entries[key] = (value, self._clock.monotonic() + self._ttl_seconds)
        finally:
            with self._lock:
                del self._pending[key]
            mine.set_result(None)  # waiting callers look again, and one of them takes over
        return value

    def stale(self, key: Hashable, prolonged_seconds: float) -> T | None:
        """Return the value even if it has expired, and let it expire only later."""
        with self._lock:
            if (entry := self._entries.get(key)) is None:
                return None
            self._entries[key] = (entry[0], self._clock.monotonic() + prolonged_seconds)
            return entry[0]


logger = logging.getLogger("plait.gateway")

_STALE_SECONDS = 30.0
"""How long a stale list is used before a gateway that failed is tried again."""

MAX_REASON_CHARACTERS = 500
"""How much of a reply is quoted: as in the platform's own library."""
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
        known = GatewayOptions.__annotations__
        for name in options.keys() - known.keys():
            hint = did_you_mean(name, known) or f"there are: {', '.join(sorted(known))}"
            raise ConfigError(f"the gateway has no option {name!r} ({hint})")
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
        owner: str = "",
    ) -> ServerList:
        """List the tool servers of an agent, in development those of the manifest.

        Entries that cannot be used are in `skipped`. `owner` identifies the user of a token that
        surely is theirs: the list then holds for their next token, too.

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
        url = settings.discovery_url(agent)
        headers = discovery_headers(
            settings,
            options or GatewayRequestOptions(),
            token=auth_token,
            turn=turn_context,
            environ=self.environ,
        )
        # By the token itself: its claims are not checked here, so that anybody can forge them.
        key = (url, "owner" if owner else "token", owner or fingerprint(auth_token))
        try:
            return await self._lists.get(key, partial(self._fetch_list, settings, url, headers))
        except DiscoveryError as error:
            if is_refused(error) or (stale := self._lists.stale(key, _STALE_SECONDS)) is None:
                raise
            logger.warning("using the earlier list of servers: %s", error)
            return stale

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
                    on_connect=_NOT_ARRIVED,
                    on_status=_NOT_ARRIVED,
                    limit=MAX_REASON_CHARACTERS,
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


def _log_skipped(servers: ServerList) -> None:
    for skipped in servers.skipped:
        logger.warning("a tool server is left out: %s", skipped)


State = Literal["matches", "differs", "nothing declared", "failed"]
"""How the tools of a server compare with its declaration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The comparison for one server."""

    server: str
    url: str
    declared: tuple[str, ...] | None = None
    live: tuple[str, ...] = ()
    error: PlaitError | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """Declared tools that the server does not list."""
        return tuple(name for name in self.declared or () if name not in self.live)

    @property
    def undeclared(self) -> tuple[str, ...]:
        """Listed tools that are not declared."""
        declared = self.declared
        return () if declared is None else tuple(name for name in self.live if name not in declared)

    @property
    def state(self) -> State:
        """The overall outcome."""
        if self.error is not None:
            return "failed"
        if self.declared is None:
            return "nothing declared"
        return "differs" if self.missing or self.undeclared else "matches"

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON data."""
        names = ("server", "url", "state", "declared", "live", "missing", "undeclared")
        error = None if self.error is None else str(self.error)
        return {**{name: getattr(self, name) for name in names}, "error": error}


async def verify_servers(
    configuration: McpToolServerConfigurationService,
    servers: Iterable[GatewayServer],
    credentials: Credentials,
) -> list[Verification]:
    """List the tools of all servers in parallel, and compare them; a failure is an outcome too."""

    async def verify(server: GatewayServer) -> Verification:
        name = server.mcp_server_name
        result = Verification(server=name, url=public_url(server.url), declared=server.tools)
        if (no_token := credentials.failures.get(name)) is not None:
            return replace(result, error=no_token)
        token = credentials.tokens.get(name)
        ready = server.with_headers({"Authorization": f"Bearer {token}"} if token else {})
        try:
            tools = await configuration.get_mcp_client_tools(name, ready)
        except PlaitError as error:
            return replace(result, error=error)
        return replace(result, live=tuple(tool.wire_name for tool in tools))

    return await asyncio.gather(*map(verify, servers))
