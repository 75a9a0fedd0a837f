"""Connections to tool servers, each user with their own, kept between turns."""

from __future__ import annotations

import asyncio
import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import httpx2

from plait._support.clock import SystemClock
from plait.client.catalog.names import with_public_names
from plait.client.catalog.tool import Tool
from plait.client.config.read import read_config
from plait.client.config.servers import HttpServer
from plait.client.connections.credentials import CallerCredentials
from plait.errors import PlaitError
from plait.gateway.entries import GatewayServer
from plait.gateway.shared_cache import SharedMemory
from plait.langchain.client.client import MultiServerMCPClient
from plait.langchain.tools.tool import MCPTool

_MOST_USERS = 1024
"""Credentials that are kept, counted by user and server; the longest unused goes first.

Far more than the lists of tools that a client remembers by the identity of their credentials.
"""


class TurnAuth(httpx2.Auth):
    """Puts the headers of a user's latest turn on every request to one server."""

    def __init__(self) -> None:
        self.headers: Mapping[str, str] = {}

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
        """Add the headers."""
        request.headers.update(self.headers)
        yield request


@dataclass(frozen=True, slots=True)
class Wanted:
    """A server whose tools a turn wants, and the headers it gets in this turn."""

    server: GatewayServer
    headers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Equipped:
    """The tools that a turn gets, and why some servers have none to give."""

    tools: tuple[MCPTool, ...] = ()
    servers: tuple[str, ...] = ()
    failures: Mapping[str, PlaitError] = field(default_factory=dict[str, PlaitError])


class ToolConnections:
    """Connects to the servers of every agent of a service.

    Agents whose servers have the same name and address share what is known of them, and nothing
    else.
    """

    def __init__(
        self, options: Mapping[str, Any], server_options: Mapping[str, Any] | None = None
    ) -> None:
        """Take the options of the client behind it, and of every server.

        Raises:
            ConfigError: There is no such option.
        """
        entry = {**(server_options or {}), "url": "http://localhost"}
        self._pattern = read_config({"mcpServers": {"server": entry}}).servers["server"]
        self._client = MultiServerMCPClient({}, **options)
        self._lock = threading.Lock()
        self._names: dict[tuple[str, str], str] = {}
        """What a server is called here, by its name and address."""
        self._adding: SharedMemory[None] = SharedMemory(math.inf, SystemClock(), most=2**31)
        self._auths: OrderedDict[tuple[str, str], TurnAuth] = OrderedDict()

    async def tools(
        self, user: str, wanted: Sequence[Wanted], taken: Sequence[str] = ()
    ) -> Equipped:
        """Return the tools of these servers for a user.

        Tools that want the same name, or one that is taken, get their server's in front.
        """
        known = [(one.server.mcp_server_name, await self._known(one.server)) for one in wanted]
        accesses = [
            self._access(user, here, one.headers)
            for one, (_, here) in zip(wanted, known, strict=True)
        ]
        answers = await asyncio.gather(
            *(
                self._listed(here, access)
                for (_, here), access in zip(known, accesses, strict=True)
            ),
            return_exceptions=True,
        )
        failures: dict[str, PlaitError] = {}
        found: list[Tool] = []
        for (name, _), answer in zip(known, answers, strict=True):
            if isinstance(answer, PlaitError):
                failures[name] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found += answer
        runners = {
            here: self._client.runner(access)
            for (_, here), access in zip(known, accesses, strict=True)
        }
        named = with_public_names(found, taken=taken)
        tools = tuple(MCPTool(tool, runners[tool.server]) for tool in named)
        return Equipped(tools, tuple(name for name, _ in known if name not in failures), failures)

    async def _known(self, server: GatewayServer) -> str:
        """Learn of a server, and return what it is called here.

        Its connections close by themselves when nobody uses them.
        """
        name = self._name(server)
        # Not written as in a file: there, variables in the address would be filled in.
        entry = replace(cast("HttpServer", self._pattern), url=server.url)
        await self._adding.get(name, partial(self._client.toolbox.add_server, name, entry))
        return name

    def _name(self, server: GatewayServer) -> str:
        with self._lock:
            key = (server.mcp_server_name, server.url)
            if key not in self._names:
                taken = server.mcp_server_name in self._names.values()
                mark = hashlib.sha256(server.url.encode()).hexdigest()[:8]
                self._names[key] = f"{key[0]}_{mark}" if taken else key[0]
            return self._names[key]

    async def _listed(self, name: str, access: CallerCredentials) -> list[Tool]:
        listed = await self._client.get_tools(name, auth=access.auth)
        return [one.tool for one in listed if isinstance(one, MCPTool)]

    def _access(self, user: str, server: str, headers: Mapping[str, str]) -> CallerCredentials:
        """Return the same credentials for the same user, with the headers of this turn."""
        with self._lock:
            auth = self._auths.setdefault((user, server), TurnAuth())
            self._auths.move_to_end((user, server))
            while len(self._auths) > _MOST_USERS:
                self._auths.popitem(last=False)
        auth.headers = dict(headers)
        return CallerCredentials(auth=auth)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.aclose()
