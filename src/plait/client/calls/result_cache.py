"""Remembering what read-only tools answered, for those who ask for it."""

from __future__ import annotations

import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import cast

from plait._support.clock import Clock, SystemClock
from plait.client.calls.outcome import ToolResult
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.tool import Tool
from plait.errors import ConfigError

_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultCaching:
    """How long answers of read-only tools are kept, and how many."""

    ttl_seconds: float = 300.0
    tools: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds for single tools, by `tool`, `server/tool` or glob; 0 keeps nothing."""
    max_entries: int = 256

    @classmethod
    def of(cls, given: object) -> ResultCaching | None:
        """Read `True`, seconds, seconds per tool, or the settings themselves.

        Raises:
            ConfigError: It is something else.
        """
        match given:
            case None | False:
                return None
            case True:
                return cls()
            case int() | float() if given > 0:
                return cls(ttl_seconds=float(given))
            case ResultCaching():
                return given
            case Mapping():
                seconds = cast("Mapping[str, float]", given)
                return cls(ttl_seconds=0, tools={tool: float(n) for tool, n in seconds.items()})
            case _:
                raise ConfigError(
                    "result_cache takes True, seconds, seconds by tool, or a ResultCaching"
                )

    def seconds_for(self, tool: Tool) -> float:
        """Say for how long an answer of this tool is kept."""
        full = f"{tool.server}/{tool.wire_name}"
        for name in (full, tool.wire_name):
            if name in self.tools:
                return self.tools[name]
        for pattern, seconds in self.tools.items():
            if fnmatchcase(tool.wire_name, pattern) or fnmatchcase(full, pattern):
                return seconds
        return self.ttl_seconds


class ResultCache:
    """Successful answers of tools that change nothing, by server, credentials and arguments."""

    def __init__(self, caching: ResultCaching, *, clock: Clock | None = None) -> None:
        self._caching = caching
        self._clock = clock or SystemClock()
        self._kept: OrderedDict[_Key, tuple[float, ToolResult]] = OrderedDict()
        self._changes: Counter[str] = Counter()
        self._lock = threading.Lock()

    def get(self, call: ToolCall, tool: Tool | None) -> ToolResult | None:
        """Return what the tool answered to the same call, if that is recent enough."""
        key = self._key(call, tool)
        if key is None:
            return None
        with self._lock:
            expires_at, result = self._kept.get(key, (0.0, None))
            if result is not None and self._clock.monotonic() >= expires_at:
                del self._kept[key]
                return None
            return result

    def changes(self, server: str) -> int:
        """Say how often something about a server may have changed."""
        with self._lock:
            return self._changes[server]

    def put(
        self, call: ToolCall, tool: Tool | None, result: ToolResult, *, since: int | None = None
    ) -> None:
        """Remember a successful answer, unless there were more changes since it was asked for."""
        key = self._key(call, tool)
        if key is None or tool is None or result.is_error:
            return
        expires_at = self._clock.monotonic() + self._caching.seconds_for(tool)
        with self._lock:
            if since is not None and self._changes[call.server] != since:
                return
            self._kept[key] = (expires_at, result)
            self._kept.move_to_end(key)
            while len(self._kept) > self._caching.max_entries:
                self._kept.popitem(last=False)

    def forget(self, server: str) -> None:
        """Drop what a server answered: something about it may have changed."""
        with self._lock:
            self._changes[server] += 1
            for key in [key for key in self._kept if key[0] == server]:
                del self._kept[key]

    def _key(self, call: ToolCall, tool: Tool | None) -> _Key | None:
        if tool is None or not tool.read_only or self._caching.seconds_for(tool) <= 0:
            return None
        try:
            arguments = json.dumps(call.arguments, sort_keys=True)
        except (TypeError, ValueError):
            return None
        return call.server, call.access.key if call.access else "", call.tool, arguments
