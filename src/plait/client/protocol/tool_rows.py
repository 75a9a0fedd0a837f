"""Listed tools as plain JSON objects, recognized as valid without building models of them."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, TypeGuard

from msgspec import DecodeError, Meta, Raw, Struct, convert
from msgspec import ValidationError as InvalidError
from msgspec import field as renamed
from msgspec.json import Decoder
from pydantic_core import from_json, to_json

from plait._support import mcp_types as types
from plait._support.sanitize import is_clean_body
from plait._support.threads import collection_paused
from plait.client.config.budgets import DEFAULT_LIMITS
from plait.client.protocol.headers import mirrored_arguments
from plait.client.protocol.passing import with_unknown_fields
from plait.client.protocol.reading import decode

Row = dict[str, Any]
"""A tool as its server lists it."""


class RawRow(NamedTuple):
    """A plain tool, still as JSON: thousands of parsed ones are slow to make and to keep."""

    name: str
    json: bytes


_ENVELOPE = frozenset({"resultType", "ttlMs", "cacheScope"})
"""What a list of the modern era has beside the tools."""
_HEADER_KEY = b"x-mcp-header"
MAX_SEARCHED_BYTES = 2 * 1024 * 1024
"""The tools of a longer list are checked for hidden characters one by one, not all at once."""
_ESCAPED_ASCII = re.compile(rb"\\u00[2-7]")
_objects = Decoder(dict[str, Raw])
_lists = Decoder(list[Raw])
MAX_ROW_BYTES = 1_000_000
"""The texts and schemas of one tool; no model reads as much."""


def parse_list(body: bytes, most: int = DEFAULT_LIMITS.tools) -> Any:
    """Parse a response; if it is a list of plain tools, these become raw rows.

    Tools after the first `most` are left out.
    """
    try:
        message = _objects.decode(body)
        result = _objects.decode(message.pop("result"))
        tools = list(map(_row_from, _lists.decode(result.pop("tools"))[: most + 1]))
    except (DecodeError, KeyError, RecursionError):
        return decode(body)
    rows: list[Any] = []
    with collection_paused():
        for listed in tools:
            row = from_json(listed)
            if not is_plain_row(row):
                break
            rows.append(RawRow(row["name"], listed))
        if len(rows) < len(tools) or may_mirror(body):
            rows = list(map(from_json, tools))
    others = {key: decode(bytes(value)) for key, value in message.items()}
    envelope = {key: decode(bytes(value)) for key, value in result.items()}
    return {**others, "result": {**envelope, "tools": rows}}


class _Named(Struct, gc=False):
    name: str


_names = Decoder(_Named)


def _row_from(raw: Raw) -> bytes:
    """Return the JSON of a tool; one that is too large to be used stays so, but takes no memory."""
    if memoryview(raw).nbytes <= MAX_ROW_BYTES:
        return bytes(raw)
    row = {"name": _names.decode(raw).name, "inputSchema": {"type": "object"}}
    return to_json(row | {"description": "…" * MAX_ROW_BYTES})


def is_plain_list(result: Mapping[str, Any], version: str) -> bool:
    """Recognize a list of tools that is valid for the protocol version; `False` means perhaps."""
    modern = version in types.version.MODERN_PROTOCOL_VERSIONS
    if modern and not result.keys() >= _ENVELOPE:
        return False
    envelope = {key: value for key, value in result.items() if key != "tools"}
    if not is_valid(envelope, _PlainEnvelope):
        return False
    rows: object = result.get("tools")
    return is_list(rows) and all(isinstance(row, RawRow) or is_plain_row(row) for row in rows)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value is a JSON array."""
    return type(value) is list


def is_plain_row(row: object) -> TypeGuard[Row]:
    """Recognize a tool that is valid in every protocol version; `False` means perhaps."""
    return is_valid(row, _PlainTool)


def is_valid(value: object, kind: type[Struct]) -> bool:
    """Return whether a JSON value has the fields that a class declares."""
    try:
        convert(value, kind)
    except InvalidError:
        return False
    return True


class _PlainEnvelope(Struct, gc=False, rename="camel"):
    ttl_ms: Annotated[int, Meta(ge=0)] = 0
    result_type: Literal["complete"] = "complete"
    cache_scope: Literal["private", "public"] = "private"
    next_cursor: str | None = None
    meta: dict[str, Any] | None = renamed(default=None, name="_meta")


class _PlainSchema(Struct, gc=False):
    type: Literal["object"]
    properties: dict[str, dict[str, Any] | bool] | None = None
    required: list[str] | None = None
    dialect: str | None = renamed(default=None, name="$schema")


class _PlainHints(Struct, gc=False, rename="camel"):
    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class _PlainExecution(Struct, gc=False, rename="camel"):
    task_support: Literal["forbidden", "optional", "required"] | None = None


class _PlainTool(Struct, gc=False, rename="camel"):
    name: str
    input_schema: _PlainSchema
    title: str | None = None
    description: str | None = None
    output_schema: _PlainSchema | None = None
    annotations: _PlainHints | None = None
    execution: _PlainExecution | None = None
    meta: dict[str, Any] | None = renamed(default=None, name="_meta")
    icons: None = None


def row_of(tool: types.Tool) -> Row:
    """Write a tool as it is listed."""
    # Schemas stay as they are: dumping them would leave out what is null in them.
    plain = {"input_schema": "inputSchema", "output_schema": "outputSchema", "meta": "_meta"}
    row = tool.model_dump(by_alias=True, exclude_none=True, mode="json", exclude={*plain})
    for attribute, key in plain.items():
        if (value := getattr(tool, attribute)) is not None:
            row[key] = value
    return row


def whole_row(row: Row | RawRow) -> Row:
    """Parse a row if that is not done yet."""
    return from_json(row.json) if isinstance(row, RawRow) else row


def checked_row(row: object) -> Row:
    """Return a row as it is if it is plain, else as its type reads it, with all other fields."""
    if is_plain_row(row):
        return row
    return with_unknown_fields(row_of(types.Tool.model_validate(row, by_name=False)), row)


def may_mirror(body: bytes) -> bool:
    """Return whether a tool in this JSON may mirror arguments in HTTP headers."""
    return _HEADER_KEY in body or (b"\\u00" in body and _ESCAPED_ASCII.search(body) is not None)


def mirrors_arguments(schema: Mapping[str, Any]) -> bool:
    """Return whether some arguments must be sent as HTTP headers too."""
    return bool(mirrored_arguments(schema))


@dataclass(slots=True)
class ToolRows:
    """The tools of all pages of a list, and what is known about all of them."""

    most: int = DEFAULT_LIMITS.tools
    """How many tools are kept; those of further pages are not requested."""
    rows: list[Row | RawRow] = field(default_factory=list[Row | RawRow])
    clean: bool = True
    """Whether their texts surely need no sanitizing."""
    may_mirror: bool = False
    """Whether some may mirror arguments in HTTP headers."""

    def take(self, result: dict[str, Any], body: bytes | None, *, mirror: bool) -> dict[str, Any]:
        """Keep the tools of a page that was checked, and return the page without them.

        A page with tools that mirror arguments is returned as it is: the session has to know them.
        """
        listed: object = result.get("tools")
        if not is_list(listed):
            return result
        if mirror and any(mirrors_arguments(row["inputSchema"]) for row in listed):
            return result
        if body is None or len(body) > MAX_SEARCHED_BYTES or not is_clean_body(body):
            self.clean = False
        self.rows += listed[: self.most + 1]
        return {**result, "tools": []}

    @property
    def is_full(self) -> bool:
        """Whether there are more tools than are kept."""
        return len(self.rows) > self.most

    def add(self, rows: list[Row]) -> None:
        """Add the tools of a page that were not taken as they came."""
        if rows:
            self.clean, self.may_mirror = False, True
            self.rows += map(checked_row, rows[: self.most + 1])


_collecting: ContextVar[ToolRows | None] = ContextVar("plait_tool_rows", default=None)


@contextmanager
def collected_rows(most: int) -> Generator[ToolRows]:
    """Collect the tools that a session of our own lists in the block, as JSON objects."""
    rows = ToolRows(most)
    token = _collecting.set(rows)
    try:
        yield rows
    finally:
        _collecting.reset(token)


def current_rows() -> ToolRows | None:
    """Return what collects the tools that are listed in this context."""
    return _collecting.get()
