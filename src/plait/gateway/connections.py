"""Connections to tool servers, separate for each user, kept between turns."""

from __future__ import annotations

import asyncio
import hashlib
import math
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count
from typing import Any, cast

import httpx2
from cachetools import LRUCache

from plait._support.clock import SystemClock
from plait.client.catalog.names import with_public_names
from plait.client.catalog.tool import Tool
from plait.client.config.read import read_config
from plait.client.config.servers import HttpServer
from plait.client.connections.credentials import CallerCredentials
from plait.errors import ConfigError, PlaitError
from plait.gateway.entries import GatewayServer, SkippedServer
from plait.gateway.shared_cache import SharedCache
from plait.langchain.client.client import MultiServerMCPClient
from plait.langchain.tools.tool import MCPTool

_MOST_USERS = 1024
"""How many credentials are kept, by user and server; the least recently used is dropped.

Far more than the tool lists that a client caches by credentials.
"""


class TurnAuth(httpx2.Auth):
    """Adds the headers of a user's latest turn to every request to one server."""

    def __init__(self) -> None:
        self.headers: Mapping[str, str] = {}

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
        """Add the headers."""
        request.headers.update(self.headers)
        yield request


@dataclass(frozen=True, slots=True)
class Registration:
    """The tools that a turn got from the gateway, and the servers that failed."""

    tools: tuple[MCPTool, ...] = ()
    servers: tuple[str, ...] = ()
    """The servers whose tools are included."""
    skipped: tuple[SkippedServer, ...] = ()
    """Entries that cannot be used."""
    failures: Mapping[str, PlaitError] = field(default_factory=dict[str, PlaitError])
    """Servers without a token, or that cannot be reached."""
    urls: Mapping[str, str] = field(default_factory=dict[str, str])
    """The URLs of the servers that failed."""

    @property
    def problems(self) -> tuple[str, ...]:
        """One line for each missing server: its name, its URL and the reason."""
        failed = (self.failure_line(name) for name in self.failures)
        return (*map(str, self.skipped), *failed)

    def failure_line(self, name: str) -> str:
        """Describe why a server failed."""
        place = f"{name} ({self.urls[name]})" if name in self.urls else name
        return f"{place}: {str(self.failures[name]).removeprefix(f'{name}: ')}"


class ToolConnections:
    """Connects to the servers of all agents of a service.

    Agents whose servers have the same name and URL share their configuration, and nothing else.
    """

    def __init__(
        self, options: Mapping[str, Any], server_options: Mapping[str, Any] | None = None
    ) -> None:
        """Take the options of the client and of its servers."""
        entry = {**(server_options or {}), "url": "http://localhost"}
        self._template = read_config({"mcpServers": {"server": entry}}).servers["server"]
        self._client = MultiServerMCPClient({}, **options)
        self._lock = threading.Lock()
        self._names: dict[tuple[str, str], str] = {}
        """The name of a server in the client, by its own name and URL."""
        self._added: SharedCache[None] = SharedCache(math.inf, SystemClock(), max_entries=2**31)
        self._auths: LRUCache[tuple[str, str], TurnAuth] = LRUCache(_MOST_USERS)

    async def tools(
        self, user: str, servers: Sequence[GatewayServer], taken: Sequence[str] = ()
    ) -> Registration:
        """List the tools of these servers, each with the headers of one turn, for a user.

        Tools with the same name, or one that is taken, are prefixed with their server's name.
        """
        failures: dict[str, PlaitError] = {}
        own_names: list[str] = []
        auths: dict[str, TurnAuth] = {}
        for server in servers:
            own_name = server.mcp_server_name
            try:
                name = await self._add(server)
            except ConfigError as error:  # such as a name that no server may have
                failures[own_name] = error
            else:
                own_names.append(own_name)
                auths[name] = self._auth(user, name, server.headers)
        results = await asyncio.gather(
            *map(self._list, auths, auths.values()), return_exceptions=True
        )
        listed: list[Tool] = []
        for name, result in zip(own_names, results, strict=True):
            if isinstance(result, PlaitError):
                failures[name] = result
            elif isinstance(result, BaseException):
                raise result
            else:
                listed += result
        runners = {
            name: self._client.runner(CallerCredentials(auth=auth)) for name, auth in auths.items()
        }
        named = with_public_names(listed, taken=taken)
        tools = tuple(MCPTool(tool, runners[tool.server]) for tool in named)
        reached = tuple(name for name in own_names if name not in failures)
        return Registration(tools, reached, failures=failures)

    async def _add(self, server: GatewayServer) -> str:
        """Add a server to the client, once, and return its name there.

        Its connections close by themselves when they are idle.
        """
        name = self._name(server)
        # Typed, since variables in the URL of an untyped configuration would be expanded.
        config = replace(cast("HttpServer", self._template), url=server.url)
        await self._added.get(name, partial(self._client.toolbox.add_server, name, config))
        return name

    def _name(self, server: GatewayServer) -> str:
        with self._lock:
            key = (server.mcp_server_name, server.url)
            if key not in self._names:
                # Another server may have such a name by itself: credentials must not go there.
                longer = f"{key[0]}_{hashlib.sha256(server.url.encode()).hexdigest()[:8]}"
                names = chain([key[0], longer], (f"{longer}_{number}" for number in count(2)))
                taken = set(self._names.values())
                self._names[key] = next(name for name in names if name not in taken)
            return self._names[key]

    async def _list(self, name: str, auth: TurnAuth) -> list[Tool]:
        tools = await self._client.get_tools(name, auth=auth)
        return [tool.tool for tool in tools if isinstance(tool, MCPTool)]

    def _auth(self, user: str, server: str, headers: Mapping[str, str]) -> TurnAuth:
        """Return the same credentials for the same user, with the headers of this turn."""
        with self._lock:
            auth = self._auths.setdefault((user, server), TurnAuth())
        auth.headers = dict(headers)
        return auth

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.aclose()
