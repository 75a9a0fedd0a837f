"""What the mock gateway was asked, for tests and for the inspection page."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

_MOST = 2000
"""Requests that are remembered."""


@dataclass(slots=True)
class Record:
    """One request."""

    target: str
    """`discovery`, `catalogue`, `history`, or the name of a server."""

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    at: datetime
    status: int = 0

    @property
    def json(self) -> Any:
        """The body as JSON, or `None`."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def rpc_method(self) -> str:
        """The MCP method that is called, where one is."""
        told = self.json
        return str(cast("dict[str, Any]", told).get("method", "")) if isinstance(told, dict) else ""

    def to_dict(self) -> dict[str, Any]:
        """Describe the request as plain data; tokens and keys are not shown."""
        shown = {
            name: value if name in _HARMLESS else "***" for name, value in self.headers.items()
        }
        return {
            "at": self.at.isoformat(timespec="milliseconds"),
            "target": self.target,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "rpc": self.rpc_method or None,
            "headers": shown,
            "body": self.json if self.target == "history" else None,
        }


_HARMLESS = frozenset(
    {
        "accept",
        "content-type",
        "host",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "user-agent",
        "x-ms-agentid",
        "x-ms-channel-id",
        "x-ms-correlation-id",
        "x-ms-subchannel-id",
    }
)
"""Headers whose values may be shown to whoever opens the page."""


class Records:
    """The requests of a run, oldest first; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: deque[Record] = deque(maxlen=_MOST)

    def add(
        self, target: str, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> Record:
        """Note a request; its status comes later."""
        record = Record(target, method, path, dict(headers), body, datetime.now(UTC))
        with self._lock:
            self._all.append(record)
        return record

    def of(self, target: str | None = None) -> list[Record]:
        """Return the requests of one kind, or all."""
        with self._lock:
            return [one for one in self._all if target is None or one.target == target]

    def clear(self) -> None:
        """Forget them."""
        with self._lock:
            self._all.clear()
