"""Listed tools as plain JSON objects, recognized as valid without building models of them."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, NamedTuple, TypeGuard

import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import DecodeError, Raw
from msgspec.json import Decoder
from pydantic_core import from_json

from plait._support.sanitize import is_clean_body
from plait.client.transports.wire import parse_json

Row = dict[str, Any]
"""A tool as its server lists it."""


class RawRow(NamedTuple):
    """A plain tool, still as JSON: thousands of parsed ones are slow to make and to keep."""

    name: str
    json: bytes


_ENVELOPE = frozenset({"resultType", "ttlMs", "cacheScope"})
"""What a list of the modern era has beside the tools."""
_TEXTS = frozenset({str, NoneType})
_FLAGS = frozenset({bool, NoneType})
_OBJECTS = frozenset({dict, NoneType})
_PROPERTIES = frozenset({dict, bool})
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_TASK_SUPPORT = frozenset({None, "forbidden", "optional", "required"})
_HEADER_KEY = b"x-mcp-header"
_ESCAPED_ASCII = re.compile(rb"\\u00[2-7]")
_objects = Decoder(dict[str, Raw])
_lists = Decoder(list[Raw])


def parse_list(body: bytes) -> Any:
    """Parse a response; if it is a list of plain tools, these become raw rows.

    Raises:
        ValueError: It is not JSON.
    """
    try:
        message = _objects.decode(body)
        result = _objects.decode(message.pop("result"))
        tools = list(map(bytes, _lists.decode(result.pop("tools"))))
    except (DecodeError, KeyError):
        return parse_json(body)
    rows: list[RawRow] = []
    for listed in tools:
        row = from_json(listed)
        if not is_plain_row(row):
            return parse_json(body)
        rows.append(RawRow(row["name"], listed))
    if may_mirror(body):
        return parse_json(body)
    others = {key: from_json(bytes(value)) for key, value in message.items()}
    envelope = {key: from_json(bytes(value)) for key, value in result.items()}
    return {**others, "result": {**envelope, "tools": rows}}


def is_plain_list(result: Mapping[str, Any], version: str) -> bool:
    """Recognize a list of tools that is valid for the protocol version; `False` means perhaps."""
    modern = version in MODERN_PROTOCOL_VERSIONS
    if modern and not result.keys() >= _ENVELOPE:
        return False
    ttl = result.get("ttlMs", 0)
    if type(ttl) is not int or ttl < 0 or result.get("resultType", "complete") != "complete":
        return False
    if result.get("cacheScope", "private") not in ("private", "public"):
        return False
    if type(result.get("nextCursor")) not in _TEXTS or type(result.get("_meta")) not in _OBJECTS:
        return False
    rows: object = result.get("tools")
    return is_list(rows) and all(isinstance(row, RawRow) or is_plain_row(row) for row in rows)


def is_object(value: object) -> TypeGuard[Row]:
    """Return whether a value is a JSON object."""
    return type(value) is dict


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value is a JSON array."""
    return type(value) is list


def is_plain_row(row: object) -> TypeGuard[Row]:
    """Recognize a tool that is valid in every protocol version; `False` means perhaps."""
    if not is_object(row):
        return False
    get = row.get
    if type(get("name")) is not str or not _is_plain_schema(get("inputSchema")):
        return False
    if type(get("title")) not in _TEXTS or type(get("description")) not in _TEXTS:
        return False
    output, hints, execution = get("outputSchema"), get("annotations"), get("execution")
    return (
        (output is None or _is_plain_schema(output))
        and (hints is None or _are_plain_hints(hints))
        and (execution is None or _is_plain_execution(execution))
        and type(get("_meta")) in _OBJECTS
        and get("icons") is None
    )


def _is_plain_schema(schema: object) -> bool:
    if not is_object(schema) or schema.get("type") != "object":
        return False
    properties, required = schema.get("properties"), schema.get("required")
    if properties is not None and not (
        is_object(properties) and _PROPERTIES.issuperset(map(type, properties.values()))
    ):
        return False
    if required is not None and not (
        is_list(required) and all(type(name) is str for name in required)
    ):
        return False
    return type(schema.get("$schema")) in _TEXTS


def _are_plain_hints(hints: object) -> bool:
    if not is_object(hints) or type(hints.get("title")) not in _TEXTS:
        return False
    return all(type(hints.get(name)) in _FLAGS for name in _HINTS)


def _is_plain_execution(execution: object) -> bool:
    if not is_object(execution):
        return False
    support = execution.get("taskSupport")
    return type(support) in _TEXTS and support in _TASK_SUPPORT


def row_of(tool: types.Tool) -> Row:
    """Write a tool of the SDK as it is listed."""
    data = {
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "_meta": tool.meta,
    }
    plain = {"input_schema", "output_schema", "meta"}
    others = tool.model_dump(by_alias=True, exclude_none=True, mode="json", exclude=plain)
    return others | {key: value for key, value in data.items() if value is not None}


def whole_row(row: Row | RawRow) -> Row:
    """Parse a row if that is not done yet."""
    return from_json(row.json) if isinstance(row, RawRow) else row


def checked_row(row: object) -> Row:
    """Return a row as it is if it is plain, else as the SDK reads it.

    Raises:
        pydantic.ValidationError: It is not a tool.
    """
    return row if is_plain_row(row) else row_of(types.Tool.model_validate(row, by_name=False))


def may_mirror(body: bytes) -> bool:
    """Return whether a tool in this JSON may mirror arguments in HTTP headers."""
    return _HEADER_KEY in body or (b"\\u00" in body and _ESCAPED_ASCII.search(body) is not None)


def mirrors_arguments(schema: Mapping[str, Any]) -> bool:
    """Return whether some arguments must be sent as HTTP headers too."""
    from mcp.shared.inbound import x_mcp_header_map  # noqa: PLC0415  # imports the whole SDK

    return bool(x_mcp_header_map(schema))


@dataclass(slots=True)
class ToolRows:
    """The tools of all pages of a list, and what is known about all of them."""

    rows: list[Row | RawRow] = field(default_factory=list[Row | RawRow])
    clean: bool = True
    """Whether their texts surely need no sanitizing."""
    may_mirror: bool = False
    """Whether some may mirror arguments in HTTP headers."""

    def take(self, result: dict[str, Any], body: bytes | None, *, mirror: bool) -> dict[str, Any]:
        """Keep the tools of a page that was checked, and return the page without them.

        A page with tools that mirror arguments is returned as it is: the SDK has to know them.
        """
        listed: object = result.get("tools")
        if not is_list(listed):
            return result
        if mirror and any(mirrors_arguments(row["inputSchema"]) for row in listed):
            return result
        self.clean = self.clean and body is not None and is_clean_body(body)
        self.rows += listed
        return {**result, "tools": []}

    def add(self, tools: list[types.Tool]) -> None:
        """Add the tools of a page that the SDK has read."""
        if tools:
            self.clean, self.may_mirror = False, True
            self.rows += map(row_of, tools)


_collecting: ContextVar[ToolRows | None] = ContextVar("plait_tool_rows", default=None)


@contextmanager
def collected_rows() -> Generator[ToolRows]:
    """Collect listed tools as JSON objects where the lean wire is used, instead of models."""
    rows = ToolRows()
    token = _collecting.set(rows)
    try:
        yield rows
    finally:
        _collecting.reset(token)


def current_rows() -> ToolRows | None:
    """Return what collects the tools that are listed in this context."""
    return _collecting.get()
