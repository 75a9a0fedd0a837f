"""Deciding which transport reaches a server: by what it says, else by what it has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from plait.client.config.problems import nearest
from plait.client.config.raw_value import UNSET, RawValue, Unset, as_mapping
from plait.client.config.servers import TransportName
from plait.client.config.urls import url_fault
from plait.client.config.value_types import quote

_SPELLINGS: Final[dict[str, TransportName]] = {
    "stdio": "stdio",
    "http": "http",
    "streamable_http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "sse": "sse",
    "websocket": "websocket",
    "ws": "websocket",
    "in-process": "in-process",
}


def _letters(spelling: str) -> str:
    return re.sub(r"[^a-z]", "", spelling.lower())


_BY_LETTERS: Final[dict[str, TransportName]] = {
    _letters(spelling): name for spelling, name in _SPELLINGS.items()
}

_BY_SCHEME: Final[dict[str, TransportName]] = {
    "http": "http",
    "https": "http",
    "ws": "websocket",
    "wss": "websocket",
}

_NEEDED: Final[dict[TransportName, str]] = {
    "stdio": "command",
    "http": "url",
    "sse": "url",
    "websocket": "url",
    "in-process": "server",
}


def choose_transport(raw: RawValue) -> TransportName | None:
    """Find the transport of a server; `None` when the problems recorded leave it open."""
    entry = as_mapping(raw.value) or {}
    said = _said(raw, entry)
    has = [name for name in ("command", "url", "server") if entry.get(name) not in (None, "")]
    if len(has) > 1:
        hint = 'a program has "command", a server elsewhere has "url"; keep one'
        raw.reject("transport_conflict", f'has both "{has[0]}" and "{has[1]}"', hint)
        return None
    if said is UNSET:
        return None
    if not has:
        _refuse_missing(raw, entry, said)
        return said
    found = _found(raw.child(has[0], entry[has[0]]), has[0])
    if found is None or said in (None, found) or (said, found) == ("sse", "http"):
        return found and (said or found)
    _refuse_conflict(raw, said, found, has[0])
    return None


def _said(raw: RawValue, entry: Mapping[object, object]) -> TransportName | Unset | None:
    """Read `transport` and `type`; `UNSET` when they are not understood."""
    written = [name for name in ("transport", "type") if entry.get(name) is not None]
    said: set[TransportName | Unset] = {
        _read_name(raw.child(name, entry[name])) for name in written
    }
    if UNSET in said:
        return UNSET
    if len(said) > 1:
        message = '"transport" and "type" disagree'
        return raw.reject("transport_conflict", message, "keep one of them")
    return said.pop() if said else None


def _read_name(raw: RawValue) -> TransportName | Unset:
    expected = 'a name such as "stdio" or "http"'
    if as_mapping(raw.value) is not None:
        return raw.wrong_type(expected, "move its keys up into the server")
    text = raw.text(expected)
    if text is UNSET:
        return UNSET
    if found := _BY_LETTERS.get(_letters(text)):
        return found
    meant = nearest(text, _SPELLINGS)
    hint = f'did you mean "{meant}"?' if meant else 'use "stdio", "http", "sse" or "websocket"'
    return raw.reject("unknown_value", f"{quote(raw)} is not a transport", hint)


def _found(raw: RawValue, key: str) -> TransportName | None:
    """Tell the transport from the key that the server has, and from the URL if it is one."""
    if key != "url":
        return "stdio" if key == "command" else "in-process"
    url = raw.text("a URL")
    if url is UNSET:
        return None
    if fault := url_fault(url):
        raw.reject("bad_url", fault, "write all of it, such as https://example.com/mcp")
        return None
    return _BY_SCHEME[urlsplit(url).scheme]


def _refuse_missing(
    raw: RawValue, entry: Mapping[object, object], said: TransportName | None
) -> None:
    """Record that the program or the URL is missing, with the key that may have been meant."""
    wanted = [_NEEDED[said]] if said else ["command", "url"]
    keys = [key for key in entry if isinstance(key, str)]
    slips = [
        f'is "{slip}" meant to be "{name}"?' for name in wanted if (slip := nearest(name, keys))
    ]
    needs = " or ".join(f'"{name}"' for name in wanted)
    subject = f"a {said} server" if said else "a server"
    raw.reject("missing_key", f"{subject} needs {needs}", slips[0] if slips else None)


def _refuse_conflict(raw: RawValue, said: TransportName, found: TransportName, key: str) -> None:
    """Record that what the server says does not fit what it has."""
    if _NEEDED[said] == key:
        schemes = "ws:// or wss://" if said == "websocket" else "http:// or https://"
        message = f'the URL of this {said} server is one for "{found}"'
        hint = f'write "{found}", or a URL that starts with {schemes}'
    else:
        message = f'is said to be "{said}" but has "{key}"'
        hint = f'write "{found}", or give it "{_NEEDED[said]}"'
    raw.reject("transport_conflict", message, hint)
