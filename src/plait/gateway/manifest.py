"""The servers of an agent: entries of the gateway's replies and of `ToolingManifest.json`."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast, overload
from urllib.parse import urlsplit

from plait._support.files import write_atomically
from plait._support.mappings import entries_of as mapping_of
from plait.client.config.document import JsonSyntaxError, decode_text, parse_jsonc
from plait.client.config.urls import public_url
from plait.errors import ManifestError

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
            **{name: getattr(self, name) for name in ("audience", "scope", "publisher", "tools")},
        }
        return {name: value for name, value in data.items() if value not in (None, [], ())}


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
            if any(other.url == server.url for other in servers):
                raise _BadEntryError("another entry has the same address")
            taken = {other.mcp_server_name for other in servers}
            if server.mcp_server_name in taken:
                if server.mcp_server_unique_name in taken:
                    raise _BadEntryError("another entry has the same name")
                server = replace(server, mcp_server_name=server.mcp_server_unique_name)
            servers.append(server)
        except _BadEntryError as error:
            keys = ("mcpServerName", "mcpServerUniqueName")
            names: list[Any] = [mapping_of(entry).get(key) for key in keys]
            texts = (name.strip() for name in names if isinstance(name, str))
            name = next(filter(None, texts), f"entry {number}")
            skipped.append(SkippedServer(name, str(error)))
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
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise _BadEntryError("its url is not an http(s) address")
    audience, scope = _text(fields, "audience"), _text(fields, "scope")
    tools: tuple[str, ...] | None = None
    for key in ("capabilities", "tools"):  # the second wins
        if isinstance(declared := fields.get(key), list):
            tools = tuple(map(str, cast("list[object]", declared)))
    return GatewayServer(
        mcp_server_name=name,
        mcp_server_unique_name=unique,
        url=url,
        headers=_headers(fields.get("headers")),
        audience=None if audience.lower() in ("", "default") else audience,
        scope=None if scope.lower() in ("", "null") else scope,
        publisher=_text(fields, "publisher") or None,
        tools=tools,
    )


def _text(fields: Mapping[str, object], key: str) -> str:
    value = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _BadEntryError(f"its {key} is a {type(value).__name__}, not a text")
    return value.strip()


def _headers(value: object) -> dict[str, str]:
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


logger = logging.getLogger("plait.gateway")

FILE = "ToolingManifest.json"


def manifest_places(cwd: Path | None = None, script: str | None = None) -> list[Path]:
    """Return where the file is searched: working directory, its parent, folder of the program."""
    here = cwd or Path.cwd()
    program = sys.argv[0] if script is None and sys.argv else script
    folders = [here, here.parent, *([Path(program).resolve().parent] if program else [])]
    return [folder / FILE for folder in dict.fromkeys(folders)]


def find_manifest() -> Path | None:
    """Return the first manifest that exists."""
    return next((place for place in manifest_places() if place.is_file()), None)


def read_manifest(path: Path | None, url_for: UrlFor) -> ServerList:
    """Read the servers of a manifest; without a file there are none."""
    manifest = path or find_manifest()
    if manifest is None:
        places = ", ".join(map(str, manifest_places()))
        logger.warning("there is no %s; looked for %s", FILE, places)
        return ServerList()
    if path is not None and not path.is_file():
        raise ManifestError(f"there is no {path}")
    entries = entries_of(_document(manifest))
    if entries is None:
        logger.warning("%s has no list mcpServers", manifest)
        return ServerList()
    return servers_from(entries, url_for)


def add_entries(path: Path, entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Add entries to a manifest, which is created if it does not exist; return the new names.

    An entry of the same name is updated.
    """
    document = _object(path) if path.is_file() else {}
    listed: list[Any] = entries_of(document) or []
    added: list[str] = []
    for entry in entries:
        name = entry["mcpServerName"]
        index = next((at for at, each in enumerate(listed) if _is_called(each, name)), None)
        if index is not None:
            listed[index] = {**listed[index], **entry}
        else:
            listed.append(dict(entry))
            added.append(name)
    _write(path, {**document, "mcpServers": listed})
    return added


def remove_entries(path: Path, names: Iterable[str]) -> list[str]:
    """Remove entries from a manifest; return the names that were found."""
    document = _object(path)
    listed = entries_of(document) or []
    names = list(names)
    removed = [name for name in names if any(_is_called(entry, name) for entry in listed)]
    left = [entry for entry in listed if not any(_is_called(entry, name) for name in names)]
    if removed:
        _write(path, {**document, "mcpServers": left})
    return removed


def _is_called(entry: object, name: str) -> bool:
    fields = mapping_of(entry)
    return name in {fields.get("mcpServerName"), fields.get("mcpServerUniqueName")}


def _object(path: Path) -> dict[str, Any]:
    document = _document(path)
    if not isinstance(document, dict):
        raise ManifestError(f"{path} is not an object with a list mcpServers")
    return cast("dict[str, Any]", document)


def _document(path: Path) -> object:
    try:
        return parse_jsonc(decode_text(path.read_bytes())).value
    except (OSError, UnicodeDecodeError, JsonSyntaxError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        text = f"Failed to read MCP servers from {FILE}: {path}: {reason}"
        raise ManifestError(text) from error


def _write(path: Path, document: Mapping[str, Any]) -> None:
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    try:
        write_atomically(path, text)
    except OSError as error:
        raise ManifestError(f"{path} cannot be written: {error.strerror}") from error
