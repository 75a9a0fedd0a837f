"""Caches the results of read-only tools."""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

from cachetools import TLRUCache

from plait._support.clock import Clock, SystemClock
from plait._support.durations import checked_seconds
from plait._support.gather import resolve
from plait.client.calls.outcome import ToolResult
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.tool import Tool
from plait.client.config.budgets import value_by_tool
from plait.client.config.servers import RemoteOptions, ServerConfig
from plait.client.connections.credentials import digest_of_headers
from plait.errors import ConfigError

logger = logging.getLogger("plait.client.calls")

_Key = tuple[str, str, str, str, str]
_Entry = tuple[float, ToolResult]
"""The seconds to keep a result, and the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultCaching:
    """How long, and how many, results of read-only tools are cached."""

    ttl_seconds: float = 300.0
    tools: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds by `tool`, `server/tool` or glob; 0 disables caching."""
    max_entries: int = 256

    def __post_init__(self) -> None:
        for setting, seconds in {"ttl_seconds": self.ttl_seconds, **self.tools}.items():
            checked_seconds(seconds, f"result_cache: {setting}", may_be_zero=True)

    @classmethod
    def of(cls, value: object) -> ResultCaching | None:
        """Read `True`, seconds, seconds per tool, or the settings; else raise `ConfigError`."""
        match value:
            case None | False:
                return None
            case True:
                return cls()
            case int() | float() | timedelta():
                return cls(ttl_seconds=checked_seconds(value, "result_cache"))
            case ResultCaching():
                return value
            case Mapping():
                seconds = cast("Mapping[str, float]", value)
                return cls(ttl_seconds=0, tools=dict(seconds))
            case _:
                raise ConfigError(
                    "result_cache takes True, seconds, seconds by tool, or a ResultCaching"
                )

    def seconds_for(self, tool: Tool) -> float:
        """Return how long a result of this tool is cached."""
        seconds = value_by_tool(self.tools, tool.server, tool.wire_name)
        return self.ttl_seconds if seconds is None else seconds


@dataclass(frozen=True, slots=True)
class ResultSlot:
    """The place of one call's result in the cache."""

    key: _Key
    seconds: float
    """How long the result is kept."""
    changes: int
    """How often the results of the server had been forgotten when the call began."""


class ResultCache:
    """Successful results of read-only tools, by server, credentials and arguments."""

    def __init__(self, caching: ResultCaching, *, clock: Clock | None = None) -> None:
        self._caching = caching
        self._results: TLRUCache[_Key, _Entry] = TLRUCache(
            caching.max_entries,
            ttu=lambda _key, entry, now: now + entry[0],
            timer=(clock or SystemClock()).monotonic,
        )
        self._changes: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._uncached: set[str] = set()
        """Servers whose results are not cached, which was logged."""

    async def slot_of(
        self, call: ToolCall, tool: Tool | None, server: ServerConfig
    ) -> ResultSlot | None:
        """Return the place for the result of a call; `None` if it is not cached."""
        if tool is None or not tool.read_only or (seconds := self._caching.seconds_for(tool)) <= 0:
            return None
        caller = await _caller_of(call, server)
        if caller is None:
            if call.server not in self._uncached:
                self._uncached.add(call.server)
                logger.warning(
                    "%s: results are not cached, as its auth object may act for several users; "
                    "make `auth` a function of the run",
                    call.server,
                )
            return None
        try:
            arguments = json.dumps(call.arguments, sort_keys=True)
        except (TypeError, ValueError):
            return None
        access = call.access.key if call.access else ""
        with self._lock:
            changes = self._changes[call.server]
        return ResultSlot((call.server, access, caller, call.tool, arguments), seconds, changes)

    def get(self, slot: ResultSlot) -> ToolResult | None:
        """Return the cached result of an equal call, if there is one."""
        with self._lock:
            _, result = self._results.get(slot.key, (0.0, None))
        return result

    def put(self, slot: ResultSlot, result: ToolResult) -> None:
        """Cache a successful result, unless the server's state changed while it was computed."""
        with self._lock:
            unchanged = self._changes[slot.key[0]] == slot.changes
            if unchanged and not result.is_error and self._caching.max_entries > 0:
                self._results[slot.key] = (slot.seconds, result)

    def forget(self, server: str) -> None:
        """Drop the results of a server whose state may have changed."""
        with self._lock:
            self._changes[server] += 1
            for key in [key for key in self._results if key[0] == server]:
                self._results.pop(key, None)


_LIBRARIES = frozenset({"httpx", "httpx2", "mcp", "plait"})
"""Auth objects of these packages act for one user; those of the program may act for many."""


async def _caller_of(call: ToolCall, server: ServerConfig) -> str | None:
    """Return what distinguishes the caller of a shared session; `None` if that cannot be known.

    A function for headers that takes no run may look at the context of the caller, and so may an
    auth object.
    """
    if not isinstance(server, RemoteOptions):
        return ""
    own_auth = call.access is None or call.access.auth is None
    if own_auth and server.auth is not None:
        library = type(server.auth).__module__.partition(".")[0]
        if library not in _LIBRARIES:
            return None
    if not callable(server.headers):
        return ""
    try:
        return digest_of_headers(dict(await resolve(server.headers())))
    except Exception:  # noqa: BLE001  # boundary: the request calls it again, and reports the error
        return secrets.token_hex(16)
