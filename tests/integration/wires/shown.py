"""What is written down of an exchange: everything that any implementation must do the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from tests.integration.wires.odd_server import (
    BEFORE_THE_HANDSHAKE,
    LATEST_LEGACY,
    MODERN,
    Json,
)
from tests.integration.wires.odd_transports import Received
from tests.servers.scripted_http import SESSION

_LONGEST_TEXT = 250
_DEEPEST = 12
_BACKGROUND = frozenset(
    {
        *BEFORE_THE_HANDSHAKE,
        "notifications/initialized",
        "subscriptions/listen",
        "tools/list",
        "logging/setLevel",
        "ping",
    }
)
"""What a client sends by itself, at a time of its own."""
_META = "io.modelcontextprotocol/"


class Shown:
    """What a server received, without what is the same everywhere or never the same."""

    def __init__(self, era: str, wanted: str, every: Sequence[Received]) -> None:
        """Take the method that the caller wants, and everything received before and since."""
        hidden = {"subscriptions/listen"} if era == "none" else _BACKGROUND - {wanted}
        if wanted == "resources/subscribe":
            hidden -= {"subscriptions/listen"}
        self._era, self._hidden = era, hidden
        messages = [one.message for one in every]
        self._listens = {
            one["id"] for one in messages if one.get("method") == "subscriptions/listen"
        }
        self._last: object = None
        self.lines: list[Any] = []

    def add(self, received: Sequence[Received]) -> None:
        """Add messages, as far as they belong to an exchange."""
        for one in received:
            line = self._line(one)
            if line is not None:
                self.lines.append(line)

    def with_names_for_ids(self, told: list[Any]) -> list[Any]:
        """Return what a client was told, without numbers of requests."""
        return [
            [kind, {**params[0], "requestId": self._name_of(params[0]["requestId"])}]
            if kind == "cancelled"
            else [kind, *params]
            for kind, *params in told
        ]

    def _line(self, one: Received) -> list[Any] | None:
        message, method = one.message, one.message.get("method")
        params = dict(message.get("params") or {})
        if params.get("name") == "fence":
            return None
        if one.verb == "hang-up":
            return ["hang-up"]
        if one.verb == "GET" and "last-event-id" in one.headers:
            return ["GET", {"last-event-id": one.headers["last-event-id"]}]
        if self._era == "none" and one.verb == "GET" and "mcp-session-id" not in one.headers:
            return ["GET"]  # of the older transport
        if method in self._hidden or one.verb in {"GET", "DELETE"}:
            return None
        if method is None:
            return ["response", _shown_response(message)]
        if "id" in message:
            self._last = message["id"]
        if method == "notifications/cancelled":
            if params["requestId"] in self._listens and "subscriptions/listen" in self._hidden:
                return None
            params = {"requestId": self._name_of(params["requestId"])}
        return [method, *_shown_request(message, params, one, self._era)]

    def _name_of(self, number: object) -> object:
        if number == self._last:
            return "the last"
        return number if number == "nothing" else "another"


def _shown_request(message: Json, params: Json, one: Received, era: str) -> list[Any]:
    meta = dict(params.pop("_meta", {}))
    params.pop("clientInfo", None)
    meta.pop(f"{_META}clientInfo", None)
    meta.pop("traceparent", None)  # the SDK adds it once a program has set up OpenTelemetry
    if "progressToken" in meta:
        meta["progressToken"] = "a token"
    if era == "modern" and meta.get(f"{_META}protocolVersion") == MODERN:
        for name in ("protocolVersion", "clientCapabilities"):
            meta.pop(_META + name, None)
    headers = _odd_headers(message, one.headers, era) if one.headers else {}
    extra = {"_meta": meta} if meta else {}
    shown = shortened({**params, **extra})
    return [shown, headers] if headers else [shown] if shown else []


def _odd_headers(message: Json, headers: Mapping[str, str], era: str) -> dict[str, str | None]:
    """Return the headers of MCP that a request should have otherwise, or has besides."""
    params = message.get("params") or {}
    name = params.get("name") or params.get("uri")
    if era == "none":
        usual = dict[str, str]()
    elif era == "legacy":
        usual = {"mcp-session-id": SESSION, "mcp-protocol-version": LATEST_LEGACY}
    else:
        usual = {"mcp-protocol-version": MODERN, "mcp-method": message["method"]}
        usual |= {"mcp-name": name} if isinstance(name, str) else {}
    sent = {name: value for name, value in headers.items() if name.startswith("mcp-")}
    return {
        name: sent.get(name)
        for name in sorted({*usual, *sent})
        if usual.get(name) != sent.get(name)
    }


def _shown_response(message: Json) -> Json:
    """Return a response of the client; the texts of its errors may be any."""
    kind = re.sub(r" \d+$", "", str(message.get("id")))
    if "error" in message:
        return {"to": kind, "error": message["error"]["code"]}
    return {"to": kind, "result": message.get("result")}


def shortened(value: Any, depth: int = 0) -> Any:
    """Return JSON data with short texts, and without what differs from run to run."""
    if isinstance(value, str):
        text = re.sub(r"(127\.0\.0\.1|localhost):\d+", "HOST", value)
        text = re.sub(r'"id": ?\d+', '"id": N', text)
        text = re.sub(r"lost: .* \(RemoteProtocolError", "lost: (RemoteProtocolError", text)
        text = text.encode("utf-8", "backslashreplace").decode()
        rest = len(text) - _LONGEST_TEXT
        return text if rest <= 0 else f"{text[:_LONGEST_TEXT]}… and {rest} more"
    if isinstance(value, dict | list) and depth > _DEEPEST:
        return f"… and {_levels(value)} more levels"
    match value:
        case dict():
            return {name: shortened(one, depth + 1) for name, one in _items(value)}
        case list():
            return [shortened(one, depth + 1) for _, one in _items(value)]
        case _:
            return value


def _levels(value: Any) -> int:
    nested = [one for _, one in _items(value) if isinstance(one, dict | list)]
    return 1 + max(map(_levels, nested), default=0)


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items() if isinstance(value, dict) else enumerate(value))


def plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return value


def without_meta(params: Any) -> Any:
    if isinstance(params, dict):
        return {name: value for name, value in _items(params) if name != "_meta"}
    return params
