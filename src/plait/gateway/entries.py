"""Parses the entries of manifests and gateway replies; skips those that cannot be used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast, overload
from urllib.parse import urlsplit

from plait._support.mappings import entries_of as mapping_of
from plait.client.config.urls import public_url

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
"""Names and values of headers: https://www.rfc-editor.org/rfc/rfc9110#section-5."""

UrlFor = Callable[[str], str]
"""Returns the URL of a server whose entry has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayServer:
    """One tool server of an agent."""

    mcp_server_name: str
    mcp_server_unique_name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    audience: str | None = None
    scope: str | None = None
    publisher: str | None = None
    tools: tuple[str, ...] | None = None
    """The tools that the entry declares; `None` if it has no declaration."""

    def with_headers(self, headers: Mapping[str, str]) -> GatewayServer:
        """Return a copy with more headers; those of the entry win, also over a token."""
        own = {name.lower() for name in self.headers}
        more = {name: value for name, value in headers.items() if name.lower() not in own}
        return replace(self, headers={**more, **self.headers})

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON data, without the values of headers."""
        data: dict[str, Any] = {
            "name": self.mcp_server_name,
            "unique_name": self.mcp_server_unique_name,
            "url": public_url(self.url),
            "headers": sorted(self.headers),
            "audience": self.audience,
            "scope": self.scope,
            "publisher": self.publisher,
            "tools": None if self.tools is None else list(self.tools),
        }
        return {name: value for name, value in data.items() if value not in (None, [])}


@dataclass(frozen=True, slots=True)
class SkippedServer:
    """An entry that cannot be used, and the reason."""

    name: str
    """Its name, or its position in the list if it has none."""
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class ServerList(Sequence[GatewayServer]):
    """The servers of an agent, and the entries that were skipped."""

    servers: tuple[GatewayServer, ...] = ()
    skipped: tuple[SkippedServer, ...] = ()

    @overload
    def __getitem__(self, index: int) -> GatewayServer: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[GatewayServer, ...]: ...
    def __getitem__(self, index: int | slice) -> GatewayServer | tuple[GatewayServer, ...]:
        return self.servers[index]

    def __len__(self) -> int:
        return len(self.servers)


class _BadEntryError(ValueError):
    """An entry cannot be used."""


def servers_from(entries: Iterable[object], url_for: UrlFor) -> ServerList:
    """Parse entries; of those with the same name or URL, the first is used."""
    servers: list[GatewayServer] = []
    skipped: list[SkippedServer] = []
    for number, entry in enumerate(entries, 1):
        try:
            server = _server_from(entry, url_for)
            servers.append(_distinct(server, servers))
        except _BadEntryError as error:
            skipped.append(SkippedServer(_name_of(entry) or f"entry {number}", str(error)))
    return ServerList(tuple(servers), tuple(skipped))


def entries_of(document: object) -> list[object] | None:
    """Return the entries of a manifest or a reply; `None` if there is no list of them."""
    if isinstance(document, Mapping):
        document = cast("Mapping[str, object]", document).get("mcpServers")
    return cast("list[object]", document) if isinstance(document, list) else None


def _server_from(entry: object, url_for: UrlFor) -> GatewayServer:
    if not isinstance(entry, Mapping):
        raise _BadEntryError(f"the entry is a {type(entry).__name__}, not an object")
    fields = cast("Mapping[str, object]", entry)
    name = _text(fields, "mcpServerName")
    unique = _text(fields, "mcpServerUniqueName")
    if not (name or unique):
        raise _BadEntryError("the entry has neither mcpServerName nor mcpServerUniqueName")
    name, unique = name or unique, unique or name
    url = _text(fields, "url") or url_for(name)
    if not _is_http_url(url):
        raise _BadEntryError("its url is not an http(s) address")
    return GatewayServer(
        mcp_server_name=name,
        mcp_server_unique_name=unique,
        url=url,
        headers=_headers(fields),
        audience=_unless(_text(fields, "audience"), "default"),
        scope=_unless(_text(fields, "scope"), "null"),
        publisher=_text(fields, "publisher") or None,
        tools=_declared(fields),
    )


def _distinct(server: GatewayServer, others: Iterable[GatewayServer]) -> GatewayServer:
    """Return the server under a name that no other has, which may be its unique name."""
    taken = {other.mcp_server_name for other in others}
    if any(other.url == server.url for other in others):
        raise _BadEntryError("another entry has the same address")
    if server.mcp_server_name not in taken:
        return server
    if server.mcp_server_unique_name in taken:
        raise _BadEntryError("another entry has the same name")
    return replace(server, mcp_server_name=server.mcp_server_unique_name)


def _name_of(entry: object) -> str:
    names = (mapping_of(entry).get(key) for key in ("mcpServerName", "mcpServerUniqueName"))
    return next((name.strip() for name in names if isinstance(name, str) and name.strip()), "")


def _text(fields: Mapping[str, object], key: str) -> str:
    value = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _BadEntryError(f"its {key} is a {type(value).__name__}, not a text")
    return value.strip()


def _headers(fields: Mapping[str, object]) -> dict[str, str]:
    value = fields.get("headers")
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _BadEntryError("its headers are not an object")
    headers = cast("Mapping[str, object]", value)
    if not all(isinstance(text, str) for text in headers.values()):
        raise _BadEntryError("a header is not a text")
    texts = {name: str(text) for name, text in headers.items()}
    if not all(_NAME.fullmatch(name) and _VALUE.fullmatch(texts[name]) for name in texts):
        raise _BadEntryError("a header holds what no header may hold")
    return texts


def _declared(fields: Mapping[str, object]) -> tuple[str, ...] | None:
    for key in ("tools", "capabilities"):
        value = fields.get(key)
        if isinstance(value, list):
            return tuple(str(name) for name in cast("list[object]", value))
    return None


def _unless(text: str, placeholder: str) -> str | None:
    return text if text and text.lower() != placeholder else None


def _is_http_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)
