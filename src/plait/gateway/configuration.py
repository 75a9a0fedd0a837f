"""Which tool servers an agent has, and sending its chat history."""

from __future__ import annotations

import difflib
import json
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict, Unpack

import httpx2

from plait._support.clock import Clock, SystemClock
from plait._support.redact import Redactor
from plait._support.threads import in_thread
from plait.client.catalog.tool import Tool
from plait.client.config.servers import HttpServer
from plait.client.config.timing import ReconnectPolicy
from plait.client.config.urls import public_url
from plait.client.toolbox import Toolbox
from plait.errors import ChatHistoryError, ConfigError, DiscoveryError, OutboxError, TokenError
from plait.gateway.entries import GatewayServer, ServerList, entries_of, servers_from
from plait.gateway.headers import GatewayRequestOptions, discovery_headers, history_headers
from plait.gateway.history import ChatHistory, ChatHistoryMessage, Redact, history_of
from plait.gateway.http import get_with_retries, is_refused, post, reason_of
from plait.gateway.manifest import read_manifest
from plait.gateway.outbox import Outbox
from plait.gateway.port import TurnContext
from plait.gateway.result import OperationError, OperationResult
from plait.gateway.settings import NO_APPLICATION, ApiVersion, GatewaySettings, settings_from
from plait.gateway.shared_cache import SharedMemory
from plait.gateway.tokens import check_token, is_over
from plait.gateway.turns import owner_of

logger = logging.getLogger("plait.gateway")

_STALE_SECONDS = 30.0
"""How long an old list serves before a gateway that does not answer is asked again."""

_LONGEST_LOGGED = 500

PATIENCE = ReconnectPolicy(max_attempts=3, first_delay_seconds=0.5, longest_delay_seconds=10.0)


class GatewayOptions(TypedDict, total=False):
    """How the gateway is used."""

    endpoint: str | None
    """Its address; by default `MCP_PLATFORM_ENDPOINT`, then the hosted one."""

    scope: str | None
    """The scope of the token that most servers share."""

    use_manifest: bool | None
    """Whether servers come from `ToolingManifest.json`; by default in development only."""

    manifest: str | os.PathLike[str] | None
    """Where that file is."""

    api_version: ApiVersion
    ttl_seconds: float
    """How long a list of servers holds."""

    timeout_seconds: float
    """How long listing servers may take, all attempts included, and sending chat history."""

    retry: ReconnectPolicy
    outbox: str | os.PathLike[str] | Outbox | None
    """Where chat history is stored before it is sent; without, it is sent at once."""

    redact: Redact | bool | None
    """Takes secrets out of chat history; `True` for what looks like one."""

    environ: Mapping[str, str] | None
    """Read in place of the variables of the process."""

    clock: Clock


class McpToolServerConfigurationService:
    """Lists the tool servers of agents, and sends chat history to the gateway.

    One service may serve every turn of a program, from any loop. Lists are kept for a while;
    `aclose` ends what runs in the background.
    """

    def __init__(self, **options: Unpack[GatewayOptions]) -> None:
        """Take the options by name.

        Raises:
            ConfigError: There is no such option.
        """
        _check_names(options)
        self._options = options
        self._timeout_seconds = options.get("timeout_seconds", 30.0)
        self._clock = options.get("clock") or SystemClock()
        self._lists: SharedMemory[ServerList] = SharedMemory(
            options.get("ttl_seconds", 300.0), self._clock
        )
        self._personal: set[tuple[object, ...]] = set()
        """Lists with headers in them, which may be meant for one user alone."""
        outbox = options.get("outbox")
        self._outbox = Outbox(outbox) if isinstance(outbox, str | os.PathLike) else outbox
        if self._outbox is not None:
            self._outbox.resume()
        redact = options.get("redact")
        self._redact: Redact | None = Redactor() if redact is True else redact or None

    @property
    def outbox(self) -> Outbox | None:
        """Where chat history waits, if it does."""
        return self._outbox

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables that are read."""
        given = self._options.get("environ")
        return os.environ if given is None else given

    def settings(self) -> GatewaySettings:
        """Read the settings as they are now.

        Raises:
            ConfigError: The address of the gateway is none.
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
        """List the tool servers of an agent: those of a manifest in development, else its own.

        Entries that cannot be used are left out; `skipped` names them.

        Raises:
            ConfigError: No agent is named.
            TokenError: The token is missing, malformed or over.
            DiscoveryError: The gateway did not answer, and never has.
            ManifestError: The manifest cannot be read.
        """
        settings = self.settings()
        if settings.use_manifest:
            path = self._options.get("manifest")
            chosen = None if path is None else Path(path)
            found = await in_thread(read_manifest, chosen, settings.server_url)
            _say_skipped(found)
            return found
        if not settings.development:
            check_token(auth_token)
        elif is_over(auth_token):
            raise TokenError("Authentication token has expired")
        agent = agentic_app_id.strip() or (NO_APPLICATION if settings.development else "")
        if not agent:
            raise ConfigError("agentic_app_id is required")
        return await self._listed(
            settings, agent, auth_token, options or GatewayRequestOptions(), turn_context
        )

    async def list_available_servers(
        self, auth_token: str = "", options: GatewayRequestOptions | None = None
    ) -> ServerList:
        """List every server that the gateway knows, whichever agent has it.

        Raises:
            DiscoveryError: The gateway did not answer.
        """
        settings = self.settings()
        headers = discovery_headers(
            settings, options or GatewayRequestOptions(), token=auth_token, environ=self.environ
        )
        return await self._asked(settings, settings.catalogue_url, headers)

    async def _listed(
        self,
        settings: GatewaySettings,
        agent: str,
        token: str,
        options: GatewayRequestOptions,
        turn: TurnContext | None,
    ) -> ServerList:
        url = settings.discovery_url(agent)
        headers = discovery_headers(settings, options, token=token, turn=turn, environ=self.environ)
        key: tuple[object, ...] = (url,)
        if key in self._personal:
            key = (url, owner_of(token))

        async def ask() -> ServerList:
            found = await self._asked(settings, url, headers)
            if any(server.headers for server in found):
                self._personal.add((url,))
            return found

        try:
            return await self._lists.get(key, ask)
        except DiscoveryError as error:
            old = self._lists.stale(key)
            if old is None or is_refused(error):
                raise
            logger.warning("going on with the servers of before: %s", error)
            self._lists.prolong(key, _STALE_SECONDS)
            return old

    async def _asked(
        self, settings: GatewaySettings, url: str, headers: Mapping[str, str]
    ) -> ServerList:
        answer = await get_with_retries(
            url,
            headers,
            policy=self._options.get("retry", PATIENCE),
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
            logger.warning("%s answered with no list of servers", public_url(url))
            return ServerList()
        found = servers_from(entries, settings.server_url)
        _say_skipped(found)
        return found

    async def get_mcp_client_tools(self, name: str, config: GatewayServer | None) -> list[Tool]:
        """List the tools of one server, over a connection that is closed afterwards.

        Raises:
            ConfigError: The server has no address.
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

        Whatever goes wrong on the way is returned, not raised.

        Raises:
            ConfigError: Something is missing, in the turn or among the arguments.
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
        """Send what is known of a turn, or store it; whatever goes wrong is returned.

        Raises:
            ConfigError: The address of the gateway is none.
        """
        url = self.settings().history_url
        try:
            if self._redact is not None:
                history = history.redacted(self._redact)
            if self._outbox is None:
                await self._sent(url, headers, history.body())
            else:
                conversation = history.conversation_id
                await in_thread(self._outbox.put, conversation, url, headers, history.body())
        except (ChatHistoryError, OutboxError) as error:
            logger.warning("%s", error)
            return OperationResult.failed(OperationError(error))
        except Exception as error:  # boundary: a hook of the user's may raise anything
            logger.exception("chat history was not sent")
            return OperationResult.failed(OperationError(error))
        return OperationResult.success()

    async def _sent(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        shown = public_url(url)
        try:
            answer = await post(url, headers, body, timeout_seconds=self._timeout_seconds)
        except (httpx2.RequestError, TimeoutError) as fault:
            reason = reason_of(fault, self._timeout_seconds)
            text = f"chat history did not arrive: {shown}: {reason}"
            raise ChatHistoryError(text, url=shown) from fault
        if not answer.is_success:
            said = Redactor().excerpt(answer.body.decode("utf-8", "replace"), _LONGEST_LOGGED)
            raise ChatHistoryError(
                f"chat history did not arrive: {shown}: HTTP {answer.status}"
                f"{f': {said}' if said else ''}",
                url=shown,
                status=answer.status,
                retry_after=answer.retry_after,
            )

    async def aclose(self) -> None:
        """Stop what runs in the background; what is in the outbox stays there."""
        if self._outbox is not None:
            await in_thread(self._outbox.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


def _check_names(options: GatewayOptions) -> None:
    known = GatewayOptions.__annotations__
    for name in options.keys() - known.keys():
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(sorted(known))}"
        raise ConfigError(f"the gateway has no option {name!r} ({hint})")


def _say_skipped(found: ServerList) -> None:
    for one in found.skipped:
        logger.warning("a tool server is left out: %s", one)
