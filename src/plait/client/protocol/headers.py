"""HTTP headers that repeat parts of a request, for proxies that route it without reading it.

A server compares them with the request, and refuses one that differs.
"""

# https://modelcontextprotocol.io/specification/2026-07-28/basic/transports

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

from plait.models.schemas.json_schema import HOLD_LIST, HOLD_SCHEMA, NAMED_SCHEMAS

VERSION_HEADER = "mcp-protocol-version"
METHOD_HEADER = "mcp-method"
NAME_HEADER = "mcp-name"
_ARGUMENT_PREFIX = "Mcp-Param-"
_DECLARATION = "x-mcp-header"
"""The key in the schema of an argument that names the header for it."""

_NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter of a request that its header repeats."""
_MIRRORED_TYPES = frozenset({"string", "integer", "boolean"})
"""Types that all programs write alike; they write fractions in different ways."""

_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_ENCODED = re.compile(r"=\?base64\?.*\?=")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""What the name of an HTTP header may be, by RFC 9110."""

Path = tuple[str, ...]
"""The names that lead to an argument, or to a value in one."""


def routing_headers(method: str, params: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that every request of the modern era has beside its version."""
    headers = {METHOD_HEADER: method}
    key = _NAMES.get(method)
    if key is not None and isinstance(name := params.get(key), str):
        headers[NAME_HEADER] = encode_header_value(name)
    return headers


def encode_header_value(value: str) -> str:
    """Return a text as it is if a header can hold it, else in base64."""
    plain = _PRINTABLE.fullmatch(value) is not None and value == value.strip(" ")
    if plain and _ENCODED.fullmatch(value) is None:
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def mirrored_arguments(schema: object) -> dict[Path, str]:
    """Return the arguments that are sent as headers too, with the names of their headers."""
    return {
        path: name
        for path, declaring in _schemas_in(schema)
        if path and isinstance(name := declaring.get(_DECLARATION), str)
    }


def argument_headers(mirrored: Mapping[Path, str], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers for the arguments of a call; those that are not given have none."""
    headers: dict[str, str] = {}
    for path, name in mirrored.items():
        value: Any = arguments
        for key in path:
            known = isinstance(value, Mapping)
            value = cast("Mapping[str, Any]", value).get(key) if known else None
        text: str | None = None
        if isinstance(value, bool):
            text = "true" if value else "false"
        elif isinstance(value, str | int | float):
            with suppress(ValueError):  # an integer of more digits than Python writes
                text = str(value)
        if text is not None:
            headers[_ARGUMENT_PREFIX + name] = encode_header_value(text)
    return headers


def invalid_mirror(schema: object) -> str | None:
    """Say why a tool must not be used because of the headers it declares; `None` if it may be."""
    found: dict[str, str] = {}
    for path, declaring in _schemas_in(schema):
        if _DECLARATION not in declaring:
            continue
        if not path:
            return "it is not on a property that only `properties` lead to"
        where = ".".join(path)
        name, kind = declaring[_DECLARATION], declaring.get("type")
        if not isinstance(name, str):
            return f"that of the property {where!r} is not a string"
        if _TOKEN.fullmatch(name) is None:
            return f"{name!r} of the property {where!r} is not the name of an HTTP header"
        if not isinstance(kind, str) or kind not in _MIRRORED_TYPES:
            return f"the property {where!r} is not a string, an integer or a boolean"
        if name.lower() in found:
            return f"the properties {found[name.lower()]!r} and {where!r} both have {name!r}"
        found[name.lower()] = where
    return None


def _schemas_in(root: object) -> Iterator[tuple[Path | None, dict[str, Any]]]:
    """Yield all schemas in a schema, with the path to the value that each describes.

    The path is `None` where it depends on a call which value that is, or whether there is one.
    References are not followed, and nesting of any depth is read.
    """
    unread: list[tuple[Path | None, object]] = [((), root)]
    while unread:
        path, item = unread.pop()
        if not isinstance(item, dict):
            continue
        schema = cast("dict[str, Any]", item)
        yield path, schema
        for key, value in schema.items():
            if key == "properties" and path is not None and isinstance(value, dict):
                properties = cast("dict[str, Any]", value)
                unread += [((*path, name), below) for name, below in properties.items()]
            elif key in HOLD_SCHEMA and key != "additionalItems":
                unread.append((None, value))
            elif key in HOLD_LIST and isinstance(value, list):
                unread += [(None, below) for below in cast("list[Any]", value)]
            elif key in NAMED_SCHEMAS and isinstance(value, dict):
                unread += [(None, below) for below in cast("dict[str, Any]", value).values()]
