"""Listed tools as plain JSON objects, recognized as valid without building models of them."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, TypeGuard

import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from plait._support.sanitize import is_clean_body

Row = dict[str, Any]
"""A tool as its server lists it."""

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
    return is_list(rows) and all(map(is_plain_row, rows))


def is_object(value: object) -> TypeGuard[Row]:
    """Return whether a value is a JSON object."""
    return type(value) is dict


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value is a JSON array."""
    return type(value) is list


def is_plain_row(row: object) -> bool:
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


def checked_row(row: Row) -> Row:
    """Return a row as it is if it is plain, else as the SDK reads it.

    Raises:
        pydantic.ValidationError: It is not a tool.
    """
    return row if is_plain_row(row) else row_of(types.Tool.model_validate(row, by_name=False))


def may_mirror(body: bytes) -> bool:
    """Return whether a tool in this JSON may mirror arguments in HTTP headers."""
    return _HEADER_KEY in body or _ESCAPED_ASCII.search(body) is not None


def mirrors_arguments(schema: Mapping[str, Any]) -> bool:
    """Return whether some arguments must be sent as HTTP headers too."""
    from mcp.shared.inbound import x_mcp_header_map  # noqa: PLC0415  # imports the whole SDK

    return bool(x_mcp_header_map(schema))


@dataclass(slots=True)
class ToolRows:
    """The tools of all pages of a list, and what is known about all of them."""

    rows: list[Row] = field(default_factory=list[Row])
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
